// This machine's clock, which counts the timers that are set and have neither fired nor been cancelled.
import type { Clock, Timer } from 'holdfast'

export interface CountedClock extends Clock {
  readonly timers: number
}

export function countedClock(): CountedClock {
  const running = new Set<object>()
  return {
    get timers() {
      return running.size
    },
    monoMs: () => performance.now(),
    wallMs: () => Date.now(),
    setTimer(delayMs, fn): Timer {
      const handle = setTimeout(
        () => {
          running.delete(handle)
          fn()
        },
        Math.max(0, delayMs),
      )
      running.add(handle)
      return {
        cancel() {
          running.delete(handle)
          clearTimeout(handle)
        },
        keepAlive: (on) => void (on ? handle.ref() : handle.unref()),
      }
    },
  }
}
