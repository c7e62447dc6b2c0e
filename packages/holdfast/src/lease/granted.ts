// What the one who contended for a lease knows of it, and the one who holds it goes on from.
import type { HeldLease, Released } from './lease.js'

/** A granted claim, as its contender hands it over. */
export interface GrantedClaim {
  readonly claim: string
  readonly holder: string
  readonly token: number
  /** When the answered request was sent: the deadline counts from here (G5). */
  readonly sentMs: number
  /** When the grant was heard of: by then it was surely made. */
  readonly heardMs: number
  /** The smaller of the ttl asked and the ttl granted. */
  readonly ttlMs: number
  /** Requests of this claim that may still be on their way. */
  readonly requests: OpenRequests
  /** Of a grant that came as a turn told by the watch, whose term is short: its margin. It is renewed soon. */
  readonly toldMarginMs?: number
}

/** How many requests of a claim may still be on their way. */
export interface OpenRequests {
  acquires: number
  renewals: number
}

/** Where a lease goes back to when it ends: the local queue of its key, or straight to the store. */
export interface Home {
  /** Gives the lease back, or hands it to the next waiter of this process, and says what came of it. */
  giveBack(lease: HeldLease, done: (released: Released) => void): void
  /** The lease is no longer held by its holder, and was not given back. */
  leave(lease: HeldLease): void
}
