// What a contest for a lease is about, how it may end, and who is told.
import type { Held } from '../store/contract.js'
import type { GrantedClaim } from './granted.js'
import type { HeldLease } from './lease.js'
import type { LeaseSettings } from './options.js'
import type { Contender } from './waiting.js'

/** The end of a caller's contending: the claim it holds now, or the last answer. */
export type Verdict = { readonly is: 'granted'; readonly granted: GrantedClaim } | Refusal

/** Who holds a key, or whose turn it is, and for how long yet at most. */
export type Who = Pick<Held, 'holder' | 'remainingMs'>

/** The last answer of a store that did not grant. */
export type Refusal = { readonly is: 'held'; readonly held: Who } | { readonly is: 'failed'; readonly error: unknown }

/** A lease of this process that is being passed on, and who is told once the store has answered. */
export interface Handover {
  readonly from: HeldLease
  /** The store has said whether the old claim still held; or the attempt failed with `error`. */
  told(replaced: boolean | undefined, error?: unknown): void
}

export interface Contest {
  readonly key: string
  readonly settings: LeaseSettings
  readonly startedMs: number
  /** When the caller's patience ends. */
  readonly untilMs: number
}

/** Who is told how it goes. */
export interface Audience {
  /** An answer that is not a grant. */
  refused(contender: Contender, refusal: Refusal): void
  /** The end, unless it was stopped. */
  ended(contender: Contender, verdict: Verdict): void
}
