// The contract between Holdfast's client and a store. A store answers single questions in single atomic steps; waiting,
// retrying, deadlines, renewal schedules and local queues are not its job: they live once, in the client.
//
// What must hold, by number (docs/design.md has the full text):
//   G1  by the store's clock at most one claim holds a key
//   G2  each change of hands yields a bigger token, also after release, expiry, revocation, pruning and restart
//   G3  an acquire repeated by the claim that holds succeeds: same token, expiry = the later of old and now + ttl
//   G4  a claim past its expiry neither renews nor releases
//   G6  a withdrawn claim is refused, even if its acquire arrives later
//   G8  wake-ups are hints
//   G11 two different keys never share a lease, and a key comes back as it was asked
//   G13 held, unreachable, unknown and lost are four different answers

/** A value that JSON can carry. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

/** What a write has to carry: plain data, may travel to another process. `key` is the full name, prefix included. */
export interface Grant {
  readonly key: string
  /** The fencing token: a safe integer that grows at every change of hands of the key (G2). */
  readonly token: number
  /** The identity of this one acquisition. Whoever knows it can renew and release: as secret as the lease is important. */
  readonly claim: string
  /** A label for people. Never compared. */
  readonly holder: string
}

/** How long a call may take, and the signal that ends it. A store may give up at either; the client gives up by itself. */
export interface CallOptions {
  /** Time-out of this call in ms. */
  readonly timeoutMs?: number
  /** Aborts when the caller no longer wants the answer. */
  readonly signal?: AbortSignal
}

/** One question: may this claim hold the key? */
export interface AcquireRequest {
  readonly key: string
  readonly claim: string
  readonly holder: string
  /** Whole ms, at least 1. */
  readonly ttlMs: number
  /** A claim of the same process that passes the lease on: it ends, held or not, in the same atomic step. */
  readonly replaces?: string
  /** The token granted is at least this; a claim that already holds has its token raised to it. Needs the capability. */
  readonly tokenFloor?: number
  /** Shown by `inspect`. At most 4 KiB as JSON. */
  readonly meta?: Json
  /** As in a renewal. */
  readonly shares?: boolean
  /** If refused, join the key's queue in the same step. Needs the capability `fair`. */
  readonly queue?: QueueRequest
}

/** A place in the key's queue. */
export interface QueueRequest {
  /** The contender asks again within this many ms; its place is dropped two of these after it last asked. */
  readonly pollMs: number
  /**
   * Whether its turn may come as a grant: where `tellsTurns`, the watch tells it with the token. The claim holds from then on, for
   * one poll after its last ask at least, and has not to ask again: it renews (ADR 0025).
   */
  readonly told?: boolean
}

/** A turn that came with its token (G2): the claim of the watch holds. */
export interface Turn {
  readonly token: number
}

/** Yes. */
export interface Granted {
  readonly is: 'granted'
  readonly token: number
  /** How long it lasts, at least what was asked; more where the store counts in seconds. */
  readonly ttlMs: number
  /** With `replaces`: whether the claim replaced was still the holder. */
  readonly replaced?: boolean
}

/** No, not now. */
export interface Held {
  readonly is: 'held'
  /**
   * `held`: another holds it. `reserved`: it is free, but somebody else's turn. `ended`: this claim was withdrawn or
   * released and will not be granted again. `revoked`: this very claim holds it, but was revoked. `new`: the store has made
   * the record of this key just now, and grants it when `remainingMs` are over: ask again then, it is the same attempt. A
   * store says so only in answer to a call whose time-out leaves no room for that.
   */
  readonly because: 'held' | 'reserved' | 'ended' | 'revoked' | 'new'
  /** Who holds it, or whose turn it is; empty when nobody's. */
  readonly holder: string
  /** The biggest token granted so far. */
  readonly token: number
  /** An upper bound of what is left of the holder's term, or of the reservation. */
  readonly remainingMs: number
  /** With `replaces`: whether the claim replaced was still the holder (it has ended, and another's turn has come). */
  readonly replaced?: boolean
}

/** One lease to renew. */
export interface RenewRequest {
  readonly key: string
  readonly claim: string
  readonly ttlMs: number
  /**
   * The claim is renewed until it is released or withdrawn: a store may let it share with others of this process what expires, as the
   * one in etcd does. Without it the claim expires its own ttl after its last renewal, whatever becomes of others.
   */
  readonly shares?: boolean
}

/** Why a store says that a claim does not hold. `released` also stands for withdrawn and replaced. */
export type StoreLostReason = 'expired' | 'taken' | 'revoked' | 'released'

/** What became of one renewal. */
export type RenewOutcome =
  | { readonly is: 'renewed'; readonly ttlMs: number }
  | { readonly is: 'lost'; readonly reason: StoreLostReason }
  | { readonly is: 'unknown'; readonly cause: unknown }

/** What became of a release. Releasing twice answers `released` twice. */
export type ReleaseOutcome = { readonly is: 'released' } | { readonly is: 'lost'; readonly reason: StoreLostReason }

/** What a store knows of a key, for people and tools. */
export interface LeaseRecord {
  readonly key: string
  /** Held by `claim`, or free. A free key keeps its record for a while, since its token must go on rising. */
  readonly state: 'held' | 'free'
  /** The holder's label; of a free key, that of its last holder. */
  readonly holder: string
  readonly claim: string
  /** The biggest token granted so far. */
  readonly token: number
  readonly ttlMs: number
  /** What is left of the term by the store's clock; 0 when free. */
  readonly remainingMs: number
  /** How long the holder has had it; 0 when free. */
  readonly heldMs: number
  /** How often the key changed hands. */
  readonly changes: number
  readonly revoked: boolean
  readonly meta: Json | null
  /** Who waits in the store's queue, first in line first. */
  readonly waiters: readonly { readonly holder: string; readonly waitedMs: number }[]
}

/** What `list` gives: keys in the order of their text. */
export interface ListOptions {
  /** Only keys that start with this. */
  readonly prefix?: string
  /** Also keys that are free but remembered. Default false. */
  readonly free?: boolean
}

/** What a watch gives: hints, and turns where the store tells them. */
export type Hints = AsyncIterable<Turn | undefined> | AsyncIterable<void>

/** How a contender learns that a key may be free. */
export interface WatchOptions {
  /** The claim that wants to know: a store with a queue wakes it when its turn comes, and not for others. */
  readonly claim: string
  /** Ends the watch. */
  readonly signal: AbortSignal
}

/** What a store can do and promise, as data: the tables of the docs are made from it. */
export interface StoreCapabilities {
  /** Whose clock decides expiry. */
  readonly clock: 'server' | 'machine' | 'injected' | 'observed'
  /** Where tokens come from. */
  readonly tokens: 'counter' | 'microseconds' | 'revision' | 'sequence' | 'transitions'
  /** What the record of a held lease survives. */
  readonly holdSurvives: readonly ('client restart' | 'store restart' | 'fail-over' | 'power loss')[]
  /** What the rise of tokens survives. */
  readonly tokensSurvive: readonly ('pruning' | 'store restart' | 'fail-over' | 'data loss')[]
  /** The smallest ttl, and the grain in which the store counts, in ms. */
  readonly ttlMsMin: number
  readonly ttlMsGrain: number
  /** How waiters learn of a change: pushed, found by a cheap look at a steady pace, or only by asking. */
  readonly wakeUp: 'push' | 'look' | 'poll'
  /** Whether `queue` is honoured: first in, first out among processes. */
  readonly fair: boolean
  /** Whether `queue.told` is honoured. Default false. */
  readonly tellsTurns?: boolean
  /** Whether `tokenFloor` is honoured. */
  readonly tokenFloor: boolean
  /** The longest key, in bytes of UTF-8. */
  readonly keyBytesMax: number
}

/**
 * A store of leases. Implementations exist for the stores that teams already run; the conformance suite of
 * `holdfast/testing` says whether another one is right.
 *
 * A rejected call that may have been applied throws `StoreError` with `outcome: 'unknown'`, one that was certainly not
 * applied `outcome: 'none'`.
 */
export interface LeaseStore {
  readonly name: string
  readonly contract: 1
  readonly capabilities: StoreCapabilities
  acquire(request: AcquireRequest, call?: CallOptions): Promise<Granted | Held>
  /** One outcome for each request, in order. */
  renew(leases: readonly RenewRequest[], call?: CallOptions): Promise<RenewOutcome[]>
  release(grant: Grant, call?: CallOptions): Promise<ReleaseOutcome>
  /** Ends the claim if it holds, takes it out of the queue, and refuses it from now on (G6). */
  withdraw(key: string, claim: string, call?: CallOptions): Promise<void>
  inspect(key: string, call?: CallOptions): Promise<LeaseRecord | null>
  list(options?: ListOptions): AsyncIterable<LeaseRecord>
  /**
   * Refuses the holder's renewals from now on, so that its term runs out. `force` frees the key at once instead: that
   * breaks exclusion (two may believe), fences still hold. Gives the record as it was, or null when nobody held the key.
   */
  revoke(key: string, options?: { readonly force?: boolean }, call?: CallOptions): Promise<LeaseRecord | null>
  /**
   * "May be free now, for this claim": a hint (G8). Where a subscription takes time, one hint comes when it is in place. Where
   * `tellsTurns`, a turn of a claim that asked to be told comes with its token.
   */
  watch?(key: string, options: WatchOptions): Hints
  /**
   * Which server and data decide, where the store can tell: the same text for two stores on one server, or on a server and its
   * replica; another for every other server. A quorum refuses two nodes with one id.
   */
  serverId?(call?: CallOptions): Promise<string>
  /**
   * For how long, at least, the server has kept everything that was written to it, in ms, where the store can tell: since its
   * last start, when it may have lost something then. A quorum asks it after a grant.
   */
  keptForMs?(call?: CallOptions): Promise<number>
  /** Ends what the store itself opened. Never closes a client that was given to it. */
  close(): Promise<void>
}
