// One number for "how much time has passed": the greater of what the monotonic and the wall clock say. The monotonic clock
// stands still while the machine sleeps, the wall clock can be set back; a lease that trusted only one of them would outlive
// its term (G5). The price: a wall clock set forward ends leases early.
import type { Clock } from './clock.js'

/**
 * How far the two clocks may be apart before it counts as a step: they are read one after the other, and one of them counts
 * in whole ms.
 */
const TOLERANCE_MS = 2

/** The time of one client: rises with whichever clock advances more, and never falls. */
export class Timeline {
  readonly #clock: Clock
  /** How much the wall clock was ahead of the monotonic one when they last agreed. */
  #gapMs: number
  /** What the wall clock has advanced beyond the monotonic one so far: sleep, and steps forward. */
  #extraMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.#gapMs = clock.wallMs() - clock.monoMs()
  }

  /** What has passed so far without the monotonic clock, and so without its timers: sleep, and steps forward. */
  get skippedMs(): number {
    return this.#extraMs
  }

  now(): number {
    let monoMs = this.#clock.monoMs()
    let gapMs = this.#clock.wallMs() - monoMs
    if (gapMs > this.#gapMs + TOLERANCE_MS) {
      // Read again: a pause just between the two readings looks like a step.
      monoMs = this.#clock.monoMs()
      gapMs = this.#clock.wallMs() - monoMs
      if (gapMs > this.#gapMs + TOLERANCE_MS) {
        this.#extraMs += gapMs - this.#gapMs
        this.#gapMs = gapMs
      }
    } else if (gapMs < this.#gapMs - TOLERANCE_MS) {
      this.#gapMs = gapMs
    }
    return monoMs + this.#extraMs
  }
}
