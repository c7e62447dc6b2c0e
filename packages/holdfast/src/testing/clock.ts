// Time that a test moves by hand: hours pass in a moment, and every run is the same. The library under test is unmodified,
// since it takes its clock from outside.
import { type Clock, systemClock, type Timer } from '../lease/clock.js'

/** How a virtual clock starts. */
export interface VirtualClockOptions {
  /** The monotonic clock at the start, in ms. Default 1,000. */
  monoMs?: number
  /** The time of day at the start, in ms since 1970. Default: the first of January 2026, UTC. */
  wallMs?: number
}

/** So many timers at one and the same instant are a loop that would never end. */
const TIMERS_AT_ONCE_MAX = 100_000

/**
 * A clock for tests. Time stands still until `advance` moves it; timers fire in the order of their time, and never early.
 * Between two timers all promise reactions run, so that code under test sees the same order as in real life.
 *
 * @example
 * ```ts
 * const clock = new VirtualClock()
 * const leases = createLeases({ store: memoryStore({ clock }), clock })
 * const lease = await leases.acquire('report', { ttlMs: 30_000 })
 * await clock.advance(60_000) // a minute passes, and the lease is renewed as often as it must be
 * clock.block(40_000) // the event loop is blocked for longer than the ttl
 * lease.held // false
 * ```
 */
export class VirtualClock implements Clock {
  #monoMs: number
  #wallMs: number
  /** In the order in which they fire. */
  readonly #timers: VirtualTimer[] = []

  constructor({ monoMs = 1_000, wallMs = Date.UTC(2026, 0, 1) }: VirtualClockOptions = {}) {
    this.#monoMs = monoMs
    this.#wallMs = wallMs
  }

  monoMs(): number {
    return this.#monoMs
  }

  wallMs(): number {
    return this.#wallMs
  }

  setTimer(delayMs: number, fn: () => void): Timer {
    if (Number.isNaN(delayMs)) throw new TypeError('delayMs of a timer is NaN')
    const timer: VirtualTimer = { dueMs: this.#monoMs + Math.max(0, delayMs), fn, alive: true }
    const later = this.#timers.findIndex((other) => other.dueMs > timer.dueMs)
    this.#timers.splice(later < 0 ? this.#timers.length : later, 0, timer)
    return {
      cancel: () => this.#remove(timer),
      keepAlive: (on) => {
        timer.alive = on
      },
    }
  }

  /** How many timers have been set, and neither fired nor were cancelled. */
  get pending(): number {
    return this.#timers.length
  }

  /** Whether any of those timers would keep a process alive. */
  get keepsAlive(): boolean {
    return this.#timers.some((timer) => timer.alive)
  }

  /** Lets `ms` pass on both clocks: what falls due fires at its time, one timer after the other. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#monoMs + ms
    await this.settle()
    while (await this.#fireNext(endMs));
    this.#moveTo(endMs)
  }

  /**
   * Lets time pass, timer by timer, until the condition holds or the promise has settled; gives the promise's value.
   * Throws when `limitMs` (default one minute) have passed before. The condition is looked at after every timer.
   */
  async advanceUntil<T>(goal: PromiseLike<T>, limitMs?: number): Promise<T>
  async advanceUntil(goal: () => boolean, limitMs?: number): Promise<void>
  async advanceUntil<T>(goal: PromiseLike<T> | (() => boolean), limitMs = 60_000): Promise<T | undefined> {
    const isReached = typeof goal === 'function' ? goal : hasSettled(goal)
    const endMs = this.#monoMs + limitMs
    await this.settle()
    while (!isReached() && (await this.#fireNext(endMs)));
    if (!isReached()) this.#moveTo(endMs)
    if (!isReached())
      throw new Error(`not reached within ${limitMs} ms of virtual time (${this.pending} timers are set)`)
    return typeof goal === 'function' ? undefined : await goal
  }

  /** The machine sleeps: the time of day goes on, the monotonic clock stands still, and no timer fires. */
  sleep(ms: number): void {
    this.#wallMs += ms
  }

  /** Somebody sets the time of day: forward, or back when negative. */
  stepWall(ms: number): void {
    this.#wallMs += ms
  }

  /** The event loop is blocked: both clocks move and no timer fires. Those overdue fire in one burst at the next `settle` or `advance`. */
  block(ms: number): void {
    this.#moveTo(this.#monoMs + ms)
  }

  /** Lets the timers that are due now fire, and all promise reactions run. No time passes. */
  async settle(): Promise<void> {
    await turn()
    const due = this.#timers.filter((timer) => timer.dueMs <= this.#monoMs)
    for (const timer of due) {
      if (!this.#remove(timer)) continue // cancelled by one of those before it
      timer.fn()
      await turn()
    }
  }

  #firedAtMs = 0
  #firedAtOnce = 0

  /** Fires the next timer that is due by `endMs`, at its own time. False when there is none. */
  async #fireNext(endMs: number): Promise<boolean> {
    const timer = this.#timers[0]
    if (timer === undefined || timer.dueMs > endMs) return false
    this.#timers.shift()
    this.#moveTo(timer.dueMs)
    this.#firedAtOnce = this.#firedAtMs === this.#monoMs ? this.#firedAtOnce + 1 : 1
    this.#firedAtMs = this.#monoMs
    if (this.#firedAtOnce > TIMERS_AT_ONCE_MAX)
      throw new Error(`more than ${TIMERS_AT_ONCE_MAX} timers at one instant: a loop without a delay`)
    timer.fn()
    await turn()
    return true
  }

  /** Never back: whatever moved the clock further meanwhile (a block inside a timer) stands. */
  #moveTo(monoMs: number): void {
    const byMs = Math.max(0, monoMs - this.#monoMs)
    this.#monoMs += byMs
    this.#wallMs += byMs
  }

  #remove(timer: VirtualTimer): boolean {
    const place = this.#timers.indexOf(timer)
    if (place >= 0) this.#timers.splice(place, 1)
    return place >= 0
  }
}

interface VirtualTimer {
  readonly dueMs: number
  readonly fn: () => void
  alive: boolean
}

/** One turn of the platform's own event loop: when it comes, every chain of promises that needs no outside event has run. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    if (typeof setImmediate === 'function') setImmediate(resolve)
    else systemClock.setTimer(0, resolve)
  })
}

function hasSettled(promise: PromiseLike<unknown>): () => boolean {
  let settled = false
  const settle = () => {
    settled = true
  }
  promise.then(settle, settle)
  return () => settled
}
