// The contract between `once` and a store of records. A record says what became of a piece of work that must happen once: it
// runs, it is done, or nobody knows. The store answers single questions in single atomic steps, by its own clock; waiting,
// renewing and deciding about failures live once, in `once`.
import type { CallOptions } from '../store/contract.js'

/** How a run ended, as it is kept. The text is the codec's. */
export interface StoredEnd {
  readonly is: 'returned' | 'threw'
  readonly text: string
}

/**
 * What a run leaves behind: its end; `forgotten`, as if it had not been (the key may be used again, with another payload too);
 * or `unknown`, since nobody can say whether its effect happened.
 */
export type End = StoredEnd | { readonly is: 'forgotten' } | { readonly is: 'unknown' }

/** One question: may this claim run the work of this key? */
export interface BeginRequest {
  readonly key: string
  /** Whose equality tells a repeat from another request with the same key. At most 512 characters. */
  readonly fingerprint: string
  /** The identity of this one run. */
  readonly claim: string
  /** A label for people. Never compared. */
  readonly holder: string
  /** How long the run may go on without `extend`. Whole ms. */
  readonly ttlMs: number
  /** How long its outcome is kept, also when that is not known, in ms. */
  readonly retentionMs: number
  /** Whether to run after a run whose outcome is not known, or to be told of it. */
  readonly takeOver: boolean
}

/** The answer to `begin`. */
export type Begun =
  /** This claim runs. `afterUnknown`: a run before it may have had its effect, and nobody knows. */
  | { readonly is: 'run'; readonly token: number; readonly attempt: number; readonly afterUnknown: boolean }
  | { readonly is: 'done'; readonly end: StoredEnd; readonly token: number; readonly attempt: number }
  /** Another runs; `remainingMs` is an upper bound of what is left of its term. */
  | { readonly is: 'running'; readonly holder: string; readonly token: number; readonly remainingMs: number }
  /** A run ended without a record, `forMs` ago, and nobody knows whether its effect happened. */
  | {
      readonly is: 'unknown'
      readonly holder: string
      readonly token: number
      readonly attempt: number
      readonly forMs: number
    }
  /** The key is taken by a request with another fingerprint. */
  | { readonly is: 'reused'; readonly state: 'running' | 'unknown' | 'done' }
  /** This claim was withdrawn, or has ended: it will not run. */
  | { readonly is: 'ended' }

/** One run: its claim tells it from all others, and its token is bigger than that of every run of this key before it. */
export interface RunId {
  readonly key: string
  readonly claim: string
}

/** What a store knows of a key, for people and tools. */
export interface RecordView {
  readonly key: string
  readonly state: 'running' | 'unknown' | 'done' | 'free'
  readonly fingerprint: string
  readonly holder: string
  readonly token: number
  /** How many runs the key has had. */
  readonly attempt: number
  /** What is left of a run's term, of what is known of an outcome that is unknown, or of a result's retention. */
  readonly remainingMs: number
  readonly end: StoredEnd | null
}

/** What records can do and promise, as data. */
export interface RecordsCapabilities {
  /** Whose clock decides. */
  readonly clock: 'server' | 'machine' | 'injected'
  /** What a record survives. */
  readonly survives: readonly ('client restart' | 'store restart' | 'fail-over' | 'power loss')[]
  /** The longest key, in bytes of UTF-8. */
  readonly keyBytesMax: number
}

/**
 * Where `once` keeps what has been done. Of one key at most one claim runs at a time, by the store's clock; a run whose term is
 * over is unknown, never free; a run that was taken over can no longer record.
 *
 * A rejected call that may have been applied throws `StoreError` with `outcome: 'unknown'`, one that was certainly not
 * applied `outcome: 'none'`.
 */
export interface Records {
  readonly name: string
  readonly contract: 1
  readonly capabilities: RecordsCapabilities
  /** Repeated by the claim that runs: the same answer, and the later of the two terms. */
  begin(request: BeginRequest, call?: CallOptions): Promise<Begun>
  /** Makes the term of a run end `ttlMs` from now. `lost`: its term is over, or another runs. */
  extend(run: RunId, ttlMs: number, retentionMs: number, call?: CallOptions): Promise<'extended' | 'lost'>
  /**
   * Records how a run ended. It may come after the term as long as nobody has taken over: what is true is worth keeping. `lost`:
   * another has, and nothing was changed. Repeating it is harmless.
   */
  finish(run: RunId, end: End, retentionMs: number, call?: CallOptions): Promise<'recorded' | 'lost'>
  /** Ends a claim whose `begin` may still be on its way: it is refused if it arrives later. */
  withdraw(run: RunId, call?: CallOptions): Promise<void>
  inspect(key: string, call?: CallOptions): Promise<RecordView | null>
  /** Forgets what is past its retention. Gives how many. Stores do so by themselves, a few at a time. */
  prune(call?: CallOptions): Promise<number>
  /** Ends what the records themselves opened. Never closes a client that was given to them. */
  close(): Promise<void>
}

/** Records that stand in the application's own transaction, of a driver whose calls answer later. */
export interface TransactionRecords<Transaction> {
  readonly inTransaction: {
    begin(tx: Transaction, request: BeginRequest): Promise<Begun>
    finish(tx: Transaction, run: RunId, end: StoredEnd, retentionMs: number): Promise<'recorded' | 'lost'>
  }
}

/** Records that stand in the application's own transaction, of a synchronous driver. */
export interface SyncTransactionRecords<Transaction> {
  readonly inSyncTransaction: {
    /** Throws InvalidArgumentError outside a transaction. */
    begin(tx: Transaction, request: BeginRequest): Begun
    finish(tx: Transaction, run: RunId, end: StoredEnd, retentionMs: number): 'recorded' | 'lost'
  }
}

/** The longest fingerprint, in characters. */
export const FINGERPRINT_LENGTH_MAX = 512
