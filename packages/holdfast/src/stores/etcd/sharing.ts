// Etcd leases that many keys of this process are on, so that one keep-alive serves them all. What may be on one is only what is renewed
// until it has ended: others would go on holding for whoever stopped. So an etcd lease on which such a key may be is never kept alive
// again: it runs out, and those who still ask are moved to a fresh one.
import type { Clock } from '../../lease/clock.js'
import type { Limits } from './gateway.js'
import { AGE_MS_MAX, endOf, secondsOf, spareSeconds, type Term, type Terms } from './terms.js'

/** Who is on a shared etcd lease. */
export interface SharedUse {
  /** When each claim that may be on it last asked to be kept. */
  readonly askedMonoMs: Map<string, number>
  /** Never kept alive again, and nothing is put on it. */
  retired: boolean
}

/** An etcd lease that is shared. */
export interface SharedTerm extends Term {
  readonly shared: SharedUse
}

/** When it has run out, so many keys go in one step of the server. */
const CLAIMS_MAX = 1_000

export class Sharing {
  readonly #terms: Terms
  readonly #clock: Clock
  /** The one that new claims are put on, by its length. */
  readonly #current = new Map<number, Promise<SharedTerm>>()
  readonly #keeping = new Map<SharedTerm, Promise<boolean>>()

  constructor(terms: Terms, clock: Clock) {
    this.#terms = terms
    this.#clock = clock
  }

  /** One that lasts for at least `ttlMs` from now. The claim counts as on it from now on. */
  async take(ttlMs: number, key: string, claim: string, limits: Limits): Promise<SharedTerm> {
    const seconds = secondsOf(ttlMs)
    for (;;) {
      const made = this.#current.get(seconds) ?? this.#make(seconds, limits)
      const term = await made
      const isFit = this.isFit(term) && term.shared.askedMonoMs.size < CLAIMS_MAX && endOf(term) > this.#clock.monoMs()
      if (isFit && (endOf(term) >= this.#clock.monoMs() + ttlMs || (await this.#keep(term, limits)))) {
        this.asked(term, key, claim)
        return term
      }
      if (this.#current.get(seconds) === made) this.#current.delete(seconds)
    }
  }

  /** Whether it may be kept alive: else it is retired. */
  isFit(term: SharedTerm): boolean {
    const { shared, seconds, madeMonoMs } = term
    const nowMs = this.#clock.monoMs()
    if (nowMs - madeMonoMs > Math.max(AGE_MS_MAX, 10_000 * seconds)) shared.retired = true
    if (shared.retired) return false
    // One that has not asked for a whole term does not want it any more, or its end was never confirmed.
    for (const askedMonoMs of shared.askedMonoMs.values()) {
      if (nowMs - askedMonoMs > seconds * 1_000) shared.retired = true
    }
    return !shared.retired
  }

  /** The claim is on it, and wants to stay. */
  asked(term: SharedTerm, key: string, claim: string): void {
    term.shared.askedMonoMs.set(`${key}\0${claim}`, this.#clock.monoMs())
  }

  /** Several who need it at one moment wait for one keep-alive. */
  #keep(term: SharedTerm, limits: Limits): Promise<boolean> {
    const under = this.#keeping.get(term)
    if (under !== undefined) return under
    const keeping = this.#terms
      .keep([term], { ...limits, signal: undefined })
      .then(({ length }) => length === 0)
      .finally(() => this.#keeping.delete(term))
    this.#keeping.set(term, keeping)
    return keeping
  }

  #make(seconds: number, limits: Limits): Promise<SharedTerm> {
    const made = this.#terms
      .grant(seconds + spareSeconds(seconds), { ...limits, signal: undefined })
      .then((term): SharedTerm => {
        return { ...term, shared: { askedMonoMs: new Map(), retired: false } }
      })
    this.#current.set(seconds, made)
    made.catch(() => {
      if (this.#current.get(seconds) === made) this.#current.delete(seconds)
    })
    return made
  }
}

/** The claim is surely not on it, and will not be. */
export function leave({ shared }: Term, key: string, claim: string): void {
  shared?.askedMonoMs.delete(`${key}\0${claim}`)
}

/** What became of a claim on it is not known. */
export function retire({ shared }: Term): void {
  if (shared !== undefined) shared.retired = true
}
