// Who holds what, as follows from the store's own answers and nothing else: what the checkers compare each further answer,
// and each belief, with.
import type { Fact, Served } from '../history.js'

/** One claim's time with a key. */
export interface Hold {
  readonly key: string
  readonly claim: string
  readonly process: string
  readonly token: number
  readonly since: Served
  /** When it expires, on the store's clock. */
  readonly untilMs: number
  /** The answer that said so last. */
  readonly extended: Served
  readonly revoked: boolean
  /** Began, or goes on, by a request that the network repeated. */
  readonly byCopy: boolean
  /** How it ended before its expiry, if it did. */
  readonly ended: Served | undefined
}

/** How long a store must remember a withdrawn claim, in ms. */
export const ENDED_RETENTION_MS = 60_000

export class StoreView {
  readonly #holds = new Map<string, Hold>()
  readonly #biggest = new Map<string, { token: number; fact: Served }>()
  readonly #withdrawn = new Map<string, Served>()
  readonly #lastEnded = new Map<string, { claim: string; fact: Served }>()

  /** The last who held the key; `isLive` says whether still. */
  hold(key: string): Hold | undefined {
    return this.#holds.get(key)
  }

  /** Who holds the key at this time of the store. */
  holder(key: string, storeMs: number): Hold | undefined {
    const hold = this.#holds.get(key)
    return hold !== undefined && hold.ended === undefined && storeMs < hold.untilMs ? hold : undefined
  }

  biggest(key: string): { token: number; fact: Served } | undefined {
    return this.#biggest.get(key)
  }

  /** Where the store said that it would refuse this claim from then on. */
  endOf(key: string, claim: string, storeMs: number): Served | undefined {
    const last = this.#lastEnded.get(key)
    if (last?.claim === claim) return last.fact
    const withdrawn = this.#withdrawn.get(`${key} ${claim}`)
    return withdrawn !== undefined && storeMs < withdrawn.storeMs + ENDED_RETENTION_MS ? withdrawn : undefined
  }

  apply(fact: Fact): void {
    if (fact.is === 'fault' && fact.fault === 'store-amnesia') this.#forgetAll()
    // Pruning may forget who held a free key last, not whom it has promised to refuse.
    if (fact.is === 'fault' && fact.fault === 'prune') this.#lastEnded.clear()
    if (fact.is !== 'served') return
    if (fact.verb === 'acquire') this.#acquired(fact)
    else if (fact.verb === 'renew' && isAnswer(fact, 'renewed')) this.#extend(fact)
    else if (fact.verb === 'release' && isAnswer(fact, 'released')) this.#end(fact, fact.claim)
    else if (fact.verb === 'withdraw') {
      this.#withdrawn.set(`${fact.key} ${fact.claim}`, fact)
      this.#end(fact, fact.claim)
    } else if (fact.verb === 'revoke' && fact.answer !== null) this.#revoked(fact)
  }

  #acquired(fact: Served): void {
    const because = 'because' in (fact.answer ?? {}) ? (fact.answer as { because: string }).because : ''
    if (fact.replaces !== undefined && because !== 'ended') this.#end(fact, fact.replaces)
    if (!isAnswer(fact, 'granted')) return
    const { token } = fact.answer as { token: number }
    const biggest = this.#biggest.get(fact.key)
    if (biggest === undefined || token > biggest.token) this.#biggest.set(fact.key, { token, fact })
    if (this.holder(fact.key, fact.storeMs)?.claim === fact.claim) {
      this.#extend(fact)
      return
    }
    const { key, claim, process, copy, storeMs, ttlMs = 0 } = fact
    this.#holds.set(key, {
      ...{ key, claim, process, token, since: fact, extended: fact },
      ...{ untilMs: storeMs + ttlMs, revoked: false, byCopy: copy, ended: undefined },
    })
  }

  #extend(fact: Served): void {
    const hold = this.#holds.get(fact.key)
    const untilMs = fact.storeMs + (fact.ttlMs ?? 0)
    if (hold?.claim !== fact.claim || untilMs <= hold.untilMs) return
    this.#holds.set(fact.key, { ...hold, untilMs, extended: fact, byCopy: hold.byCopy || fact.copy })
  }

  #end(fact: Served, claim: string): void {
    const hold = this.#holds.get(fact.key)
    if (hold?.claim !== claim || hold.ended !== undefined) return
    this.#holds.set(fact.key, { ...hold, ended: fact })
    this.#lastEnded.set(fact.key, { claim, fact })
  }

  #revoked(fact: Served): void {
    const hold = this.holder(fact.key, fact.storeMs)
    if (hold === undefined) return
    if (fact.force === true) {
      this.#withdrawn.set(`${fact.key} ${hold.claim}`, fact)
      this.#end(fact, hold.claim)
    } else this.#holds.set(fact.key, { ...hold, revoked: true, extended: fact })
  }

  #forgetAll(): void {
    this.#holds.clear()
    this.#biggest.clear()
    this.#withdrawn.clear()
    this.#lastEnded.clear()
  }
}

/** Whether the store answered so. */
export const isAnswer = (fact: Served, is: 'granted' | 'held' | 'renewed' | 'lost' | 'released'): boolean =>
  typeof fact.answer === 'object' && fact.answer !== null && 'is' in fact.answer && fact.answer.is === is

/** The facts one after the other, each with what the store had said before it; stops at the first that is judged. */
export function firstOf<Found>(
  facts: readonly Fact[],
  judge: (fact: Fact, view: StoreView) => Found | undefined,
): Found | undefined {
  const view = new StoreView()
  for (const fact of facts) {
    const found = judge(fact, view)
    if (found !== undefined) return found
    view.apply(fact)
  }
  return undefined
}
