// All timers of one client are alarms in one heap behind one timer of the platform: ten thousand leases cost one timer, and
// a single place compares the clock. While a lease is held the timer also fires every so often just to look, so that sleep
// and clock steps are noticed (G5).
import type { Clock, Timer } from './clock.js'
import type { Timeline } from './timeline.js'

/** Something to do at an instant of the client's timeline. */
export interface Alarm {
  atMs: number
  fire(): void
  readonly keepAlive: boolean
  /** Its place in the heap; -1 when not set. */
  place: number
}

/** The longest that a held lease goes without a look at the clocks. */
const LOOK_EVERY_MS = 250
/** With hardly any margin nothing is gained by looking all the time. */
const LOOK_EVERY_MS_MIN = 10

export class Alarms {
  readonly #clock: Clock
  readonly #timeline: Timeline
  readonly #onError: (error: unknown) => void
  readonly #heap: Alarm[] = []
  #timer: Timer | undefined
  #timerAtMs = Number.POSITIVE_INFINITY
  /** What the timeline had skipped when the timer was set. */
  #timerSkippedMs = 0
  #keepAlive = 0
  #lookers = 0
  #lookEveryMs = LOOK_EVERY_MS

  constructor(clock: Clock, timeline: Timeline, onError: (error: unknown) => void) {
    this.#clock = clock
    this.#timeline = timeline
    this.#onError = onError
  }

  /** Calls `fire` once, at `atMs` or in the first timers turn after it. `keepAlive: false` lets the process end before. */
  set(atMs: number, fire: () => void, keepAlive = true): Alarm {
    const alarm: Alarm = { atMs, fire, keepAlive, place: -1 }
    this.reset(alarm, atMs)
    return alarm
  }

  /** Sets an alarm anew, whether it is set or not. */
  reset(alarm: Alarm, atMs: number): void {
    const before = alarm.atMs
    alarm.atMs = atMs
    if (alarm.place < 0) {
      alarm.place = this.#heap.push(alarm) - 1
      if (alarm.keepAlive) this.#count(1)
      this.#rise(alarm)
    } else if (atMs < before) this.#rise(alarm)
    else this.#sink(alarm)
    this.#arm(atMs)
  }

  cancel(alarm: Alarm): void {
    if (alarm.place < 0) return
    this.#remove(alarm)
  }

  /** A lease is held from now on that must notice within `everyMs` that the machine slept. */
  startLooking(everyMs: number, nowMs = this.#timeline.now()): void {
    this.#lookers++
    this.#lookEveryMs = Math.min(this.#lookEveryMs, Math.max(LOOK_EVERY_MS_MIN, everyMs))
    this.#arm(nowMs + this.#lookEveryMs)
  }

  stopLooking(): void {
    this.#lookers--
    if (this.#lookers === 0) this.#lookEveryMs = LOOK_EVERY_MS
  }

  #tick(): void {
    this.#timer = undefined
    this.#timerAtMs = Number.POSITIVE_INFINITY
    const nowMs = this.#timeline.now()
    for (let top = this.#heap[0]; top !== undefined && top.atMs <= nowMs; top = this.#heap[0]) {
      this.#remove(top)
      try {
        top.fire()
      } catch (error) {
        this.#onError(error)
      }
    }
    const next = this.#heap[0]?.atMs ?? Number.POSITIVE_INFINITY
    const look = this.#lookers > 0 ? nowMs + this.#lookEveryMs : Number.POSITIVE_INFINITY
    if (Math.min(next, look) < Number.POSITIVE_INFINITY) this.#arm(Math.min(next, look))
  }

  /**
   * Makes sure that the timer fires at `atMs` or before. An early firing only looks, so a later alarm needs no new timer; but
   * one that was set before the machine slept is late by as much.
   */
  #arm(atMs: number): void {
    const { skippedMs } = this.#timeline
    if (this.#timerAtMs <= atMs && (this.#timer === undefined || this.#timerSkippedMs === skippedMs)) return
    this.#timer?.cancel()
    this.#timerAtMs = Math.min(this.#timerAtMs, atMs)
    this.#timerSkippedMs = skippedMs
    this.#timer = this.#clock.setTimer(Math.max(0, this.#timerAtMs - this.#timeline.now()), () => this.#tick())
    if (this.#keepAlive === 0) this.#timer.keepAlive(false)
  }

  #count(change: 1 | -1): void {
    this.#keepAlive += change
    if (this.#keepAlive === (change === 1 ? 1 : 0)) this.#timer?.keepAlive(change === 1)
  }

  #remove(alarm: Alarm): void {
    const last = this.#heap.pop()
    if (last !== undefined && last !== alarm) {
      last.place = alarm.place
      this.#heap[last.place] = last
      this.#rise(last)
      this.#sink(last)
    }
    alarm.place = -1
    if (alarm.keepAlive) this.#count(-1)
  }

  #rise(alarm: Alarm): void {
    const heap = this.#heap
    let place = alarm.place
    while (place > 0) {
      const up = (place - 1) >> 1
      const parent = heap[up] as Alarm
      if (parent.atMs <= alarm.atMs) break
      heap[place] = parent
      parent.place = place
      place = up
    }
    heap[place] = alarm
    alarm.place = place
  }

  #sink(alarm: Alarm): void {
    const heap = this.#heap
    let place = alarm.place
    for (;;) {
      let down = 2 * place + 1
      if (down >= heap.length) break
      if (down + 1 < heap.length && (heap[down + 1] as Alarm).atMs < (heap[down] as Alarm).atMs) down++
      const child = heap[down] as Alarm
      if (child.atMs >= alarm.atMs) break
      heap[place] = child
      child.place = place
      place = down
    }
    heap[place] = alarm
    alarm.place = place
  }
}
