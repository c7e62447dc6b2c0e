// Etcd leases that many keys of this process are on, so that one keep-alive serves them all. What may be on one is only what is renewed
// until it has ended: others would go on holding for whoever stopped. So an etcd lease on which such a key may be is never kept alive
// again: it runs out, and those who still ask are moved to a fresh one.
import type { Timeline } from '../../lease/timeline.js'
import type { Gateway, Limits } from './gateway.js'
import type { Joint } from './joint.js'
import { AGE_MS_MAX, endOf, secondsOf, spareSeconds, type Term, type Terms } from './terms.js'

/** Who is on a shared etcd lease. */
export interface SharedUse {
  /** When each claim that may be on it last asked to be kept. */
  readonly askedMs: Map<string, number>
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
  readonly #gateway: Gateway
  readonly #terms: Terms
  readonly #timeline: Timeline
  /** The one that new claims are put on, by its length. */
  readonly #current = new Map<number, Joint<SharedTerm>>()
  readonly #keeping = new Map<SharedTerm, Joint<boolean>>()

  constructor(gateway: Gateway, terms: Terms, timeline: Timeline) {
    this.#gateway = gateway
    this.#terms = terms
    this.#timeline = timeline
  }

  /** One that lasts for at least `ttlMs` from now. The claim counts as on it from now on. */
  async take(ttlMs: number, key: string, claim: string, limits: Limits): Promise<SharedTerm> {
    const seconds = secondsOf(ttlMs)
    for (;;) {
      const known = this.#current.get(seconds)
      const made = known === undefined || known.isOver ? this.#make(seconds, limits) : known
      const term = made.value ?? (await this.#gateway.outcomeOf('an etcd lease', made, limits))
      const isFit = this.isFit(term) && term.shared.askedMs.size < CLAIMS_MAX && endOf(term) > this.#timeline.now()
      if (isFit && (endOf(term) >= this.#timeline.now() + ttlMs || (await this.#keep(term, limits)))) {
        this.asked(term, key, claim)
        return term
      }
      if (this.#current.get(seconds) === made) this.#current.delete(seconds)
    }
  }

  /** Whether it may be kept alive: else it is retired. */
  isFit(term: SharedTerm): boolean {
    const { shared, seconds, madeMs } = term
    const nowMs = this.#timeline.now()
    if (nowMs - madeMs > Math.max(AGE_MS_MAX, 10_000 * seconds)) shared.retired = true
    if (shared.retired) return false
    // One that has not asked for a whole term does not want it any more, or its end was never confirmed.
    for (const askedMs of shared.askedMs.values()) {
      if (nowMs - askedMs > seconds * 1_000) shared.retired = true
    }
    return !shared.retired
  }

  /** The claim is on it, and wants to stay. */
  asked(term: SharedTerm, key: string, claim: string): void {
    term.shared.askedMs.set(`${key}\0${claim}`, this.#timeline.now())
  }

  /** Several who need it at one moment wait for one keep-alive. */
  #keep(term: SharedTerm, limits: Limits): Promise<boolean> {
    let keeping = this.#keeping.get(term)
    if (keeping === undefined || keeping.isOver) {
      const begun = this.#gateway.joint(limits, (all) =>
        this.#terms.keepOne(term, all).finally(() => {
          if (this.#keeping.get(term) === begun) this.#keeping.delete(term)
        }),
      )
      this.#keeping.set(term, begun)
      keeping = begun
    }
    return this.#gateway.outcomeOf('a keep-alive', keeping, limits)
  }

  #make(seconds: number, limits: Limits): Joint<SharedTerm> {
    const made = this.#gateway.joint(limits, async (all): Promise<SharedTerm> => {
      const term = await this.#terms.grant(seconds + spareSeconds(seconds), all)
      return { ...term, shared: { askedMs: new Map(), retired: false } }
    })
    this.#current.set(seconds, made)
    return made
  }
}

/** The claim is surely not on it, and will not be. */
export function leave({ shared }: Term, key: string, claim: string): void {
  shared?.askedMs.delete(`${key}\0${claim}`)
}

/** What became of a claim on it is not known. */
export function retire({ shared }: Term): void {
  if (shared !== undefined) shared.retired = true
}
