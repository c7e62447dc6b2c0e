// What happened, as plain data: the checkers know nothing but this, and a failing run prints it.
import type { LeaseEvent } from '../../lease/events.js'
import type { Granted, Held, LeaseRecord, ReleaseOutcome, RenewOutcome } from '../../store/contract.js'
import type { Program } from './plan.js'

/** The store has taken one atomic step. */
export interface Served {
  readonly is: 'served'
  readonly atMs: number
  readonly verb: 'acquire' | 'renew' | 'release' | 'withdraw' | 'revoke'
  /** Who sent the request. */
  readonly process: string
  readonly key: string
  /** Empty for `revoke`. */
  readonly claim: string
  /** When, by the clock that decides. */
  readonly storeMs: number
  /** A second arrival of a request that the network repeated. */
  readonly copy: boolean
  /** Its place among all requests, in the order in which they were sent. */
  readonly sent: number
  /** Which of several stores. */
  readonly node?: number
  readonly ttlMs?: number
  readonly replaces?: string
  readonly force?: boolean
  /** A grant that no request was answered with: the claim's turn came with its token. */
  readonly told?: boolean
  readonly answer: Granted | Held | RenewOutcome | ReleaseOutcome | LeaseRecord | null | undefined
}

interface OfLease {
  readonly atMs: number
  readonly process: string
  readonly key: string
  readonly claim: string
  readonly token: number
}

/** How a call to the library ended for its caller. */
export type Ending = 'done' | 'held' | 'lost' | 'store-error' | 'aborted' | 'closed' | 'threw' | 'strange'

/** One fact of a history. `atMs` is true time. */
export type Fact =
  | Served
  | { readonly is: 'phase'; readonly atMs: number; readonly phase: 'safety' | 'liveness' | 'quiet' | 'closing' | 'end' }
  /** A fault that took effect; of a message, a process, a clock or the store. */
  | {
      readonly is: 'fault'
      readonly atMs: number
      readonly fault: string
      readonly process: string
      readonly about: string
      /** Until when a process stands still, or the store is down. */
      readonly untilMs?: number
      /** Which of several stores it struck. */
      readonly node?: number
    }
  /** A caller has asked for a lease; `waits` in line for it. */
  | {
      readonly is: 'asked'
      readonly atMs: number
      readonly process: string
      readonly key: string
      readonly call: string
      readonly program: Program
      readonly waits: boolean
    }
  /** The caller was given a lease: from now on it believes, as long as it reads so. */
  | (OfLease & {
      readonly is: 'holds'
      readonly call: string
      readonly minHoldMs: number
      readonly marginMs: number
      readonly listens: boolean
    })
  /** The holder has given the grant to another process, and does not use its own handle any more. */
  | (OfLease & { readonly is: 'passed' })
  /** The holder has looked at `lease.held`. */
  | (OfLease & { readonly is: 'looked'; readonly held: boolean })
  /** The holder's signal has aborted. */
  | (OfLease & { readonly is: 'told'; readonly reason: string })
  /** A renewal was sent although the lease, when read, had ended. */
  | (OfLease & { readonly is: 'renewed-late' })
  /** The work under the lease has ended: nobody wants the claim any more. */
  | (OfLease & { readonly is: 'worked'; readonly call: string; readonly threw: boolean; readonly lost: string })
  /** A call has ended; `outcome` is what it says of the work: `returned NAME`, `threw NAME` or nothing. */
  | {
      readonly is: 'settled'
      readonly atMs: number
      readonly process: string
      readonly key: string
      readonly call: string
      readonly ending: Ending
      readonly outcome: string
    }
  /** A write has arrived at a register, over one of token `over`. */
  | (OfLease & {
      readonly is: 'wrote'
      readonly register: 'plain' | 'fenced'
      readonly over: number
      readonly admitted: boolean
    })
  /** What the library told through `onEvent`. */
  | {
      readonly is: 'event'
      readonly atMs: number
      readonly process: string
      readonly type: LeaseEvent['type']
      readonly about: string
    }
  /** Something that must never happen: an unhandled rejection, a callback that failed. */
  | { readonly is: 'failure'; readonly atMs: number; readonly process: string; readonly about: string }
  /** What was still there at the end, in the healed world. */
  | {
      readonly is: 'left'
      readonly atMs: number
      readonly key: string
      readonly guarantee: string
      readonly about: string
    }
  /** `close()` has ended, or has not. */
  | { readonly is: 'closed'; readonly atMs: number; readonly process: string; readonly about: string }

/** What a checker is given. */
export interface History {
  readonly facts: readonly Fact[]
  /** What the scenario promises beyond what always holds. */
  readonly allows: Allowances
  /** How long a key may be free, in the healed world, while somebody waits for it. */
  readonly gapMsMax: number
  /** Who says when a lease is over: the store, a majority of several, or everybody who looks. */
  readonly decides: 'store' | 'majority' | 'observers'
  /** With a quorum: how fast the clock of each node runs, in its ms for one true ms. */
  readonly nodeRates?: readonly number[]
}

/** Assumptions that a scenario breaks: what rests on them is not checked there. */
export interface Allowances {
  /** Clocks of holders drift beyond the margin, the store's clock steps, an operator frees by force: two may believe (G5). */
  readonly twoBelieve?: boolean
  /** The store forgets, or its clock steps back: a claim that nobody wants may hold on for a term (G6). */
  readonly ghostsStay?: boolean
  /** Nodes of a quorum forget: a claim may hold without a majority that remembers it, as long as nobody else does. */
  readonly forgets?: boolean
}

/** A broken guarantee: the two facts that clash. */
export interface Violation {
  readonly guarantee: string
  readonly what: string
  readonly first: Fact | undefined
  readonly second: Fact
}
