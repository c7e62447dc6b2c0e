// Time, as the rest of Holdfast sees it. Nothing else in `src/` reads a clock or sets a timer: whoever needs one is given a
// Clock, so that tests and the simulation can move it by hand.

/** A timer that has been set. */
export interface Timer {
  /** Keeps it from firing. Harmless when it has fired. */
  cancel(): void
  /** Whether the process must stay alive until it fires. Set to true at the start. */
  keepAlive(on: boolean): void
}

/** The clocks of one process, and its timers. All times are in ms. */
export interface Clock {
  /** Time since an arbitrary start: never steps, but may stand still while the machine sleeps. */
  monoMs(): number
  /** The time of day since 1970: counts sleep, but may be set forward and back. */
  wallMs(): number
  /** Calls `fn` once, not before `delayMs` have passed. */
  setTimer(delayMs: number, fn: () => void): Timer
}

/** The longest delay that the platform's timers take; a longer one would fire after 1 ms. */
const LONGEST_DELAY_MS = 2 ** 31 - 1

/** The clocks and timers of this machine. */
export const systemClock: Clock = {
  monoMs: () => performance.now(),
  wallMs: () => Date.now(),
  setTimer(delayMs, fn) {
    let left = delayMs
    let alive = true
    let handle: ReturnType<typeof setTimeout>
    const arm = () => {
      const part = Math.min(Math.max(left, 0), LONGEST_DELAY_MS)
      left -= part
      handle = setTimeout(left > 0 ? arm : fn, part)
      if (!alive) unref(handle)
    }
    arm()
    return {
      cancel: () => clearTimeout(handle),
      keepAlive(on) {
        if (on === alive) return
        alive = on
        if (on) ref(handle)
        else unref(handle)
      },
    }
  },
}

// In browsers a timer is a number, which keeps nothing alive.
type MaybeRef = { ref?(): void; unref?(): void } | number
const ref = (handle: MaybeRef) => typeof handle === 'object' && handle.ref?.()
const unref = (handle: MaybeRef) => typeof handle === 'object' && handle.unref?.()
