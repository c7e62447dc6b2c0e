// What the verbs of one store share: the way to etcd, and what this process remembers of its own claims, to save a look. Nothing of
// it decides anything: every transaction compares what stands in etcd.
import type { Clock } from '../../lease/clock.js'
import type { Timeline } from '../../lease/timeline.js'
import type { RenewRequest } from '../../store/contract.js'
import type { Gateway, Limits } from './gateway.js'
import { leave, retire, type Sharing } from './sharing.js'
import type { Term, Terms } from './terms.js'
import type { Together } from './together.js'

export interface Shared {
  readonly gateway: Gateway
  readonly together: Together
  readonly terms: Terms
  readonly sharing: Sharing
  readonly prefix: string
  readonly clock: Clock
  /** How much time has passed, sleep of the machine included. */
  readonly timeline: Timeline
  readonly endedRetentionMs: number
  /** On which etcd lease the keys of claims are, and the ttl for which it was made. */
  readonly held: Remembered<{ readonly term: Term; readonly ttlMs: number }>
  /** The places of claims that wait. */
  readonly places: Remembered<string>
  /** Keys that were refused: asked for again, they will probably be so again. */
  readonly refused: Remembered<true>
  /** The longest ttl that was asked for here. */
  longestTtlMs: number
}

/** An etcd lease for a key: a shared one where the claim may share. */
export function termFor(shared: Shared, { key, claim, ttlMs, shares }: RenewRequest, limits: Limits): Promise<Term> {
  return shares === true ? shared.sharing.take(ttlMs, key, claim, limits) : shared.terms.take(ttlMs, limits)
}

/** The claim has surely ended. Gives the etcd lease on which its key was, as far as known. */
export function forgetClaim({ held }: Shared, key: string, claim: string): { term: Term; ttlMs: number } | undefined {
  const mine = held.get(key, claim)
  if (mine !== undefined) leave(mine.term, key, claim)
  held.delete(key, claim)
  return mine
}

/** Whether the claim has ended is not known: its key may be where it was, and nobody renews it. */
export function leaveInDoubt({ held }: Shared, key: string, claim: string): void {
  const mine = held.get(key, claim)
  if (mine !== undefined) retire(mine.term)
}

/** How long an ended claim is remembered: for the retention, or two ttls when those are longer. */
export function retentionOf(shared: Shared, ttlMs = 0): number {
  return Math.max(shared.endedRetentionMs, 2 * Math.max(ttlMs, shared.longestTtlMs))
}

/** More are not remembered: the oldest is forgotten, and looked for in etcd when it is needed. */
const REMEMBERED_MAX = 100_000

/** Something about a claim on a key. */
export class Remembered<Value> {
  readonly #values = new Map<string, Value>()

  get(key: string, claim: string): Value | undefined {
    return this.#values.get(`${key}\0${claim}`)
  }

  set(key: string, claim: string, value: Value): void {
    if (this.#values.size >= REMEMBERED_MAX) {
      for (const oldest of this.#values.keys()) {
        this.#values.delete(oldest)
        break
      }
    }
    this.#values.set(`${key}\0${claim}`, value)
  }

  delete(key: string, claim: string): void {
    this.#values.delete(`${key}\0${claim}`)
  }
}
