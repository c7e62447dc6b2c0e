// When this process first saw that a holder lived: expiry is observed, on the monotonic clock of the one who looks (docs/design.md,
// "observed"). A process that has just started has seen nothing, so it waits for a whole ttl.
import type { Clock } from '../../lease/clock.js'

/** More keys than this are not remembered: a key that is forgotten is seen for the first time again. */
const KEYS_MAX = 20_000

interface Sighting {
  readonly beat: string
  readonly sinceMs: number
  /** When each withdrawn claim was first seen. */
  readonly ended: Map<string, number>
}

export class Sightings {
  readonly #clock: Clock
  readonly #keys = new Map<string, Sighting>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Since when the holder is known to have given this sign of life. Call it with what was read, as soon as it was. */
  see(key: string, beat: string, ended: readonly { readonly claim: string }[]): Sighting {
    const known = this.#keys.get(key)
    const nowMs = this.#clock.monoMs()
    const seen = new Map<string, number>()
    for (const { claim } of ended) seen.set(claim, known?.ended.get(claim) ?? nowMs)
    const sighting = { beat, sinceMs: known?.beat === beat ? known.sinceMs : nowMs, ended: seen }
    this.#keys.delete(key) // so that the order is that of the last look
    this.#keys.set(key, sighting)
    if (this.#keys.size > KEYS_MAX) {
      for (const oldest of this.#keys.keys()) {
        this.#keys.delete(oldest)
        break
      }
    }
    return sighting
  }
}
