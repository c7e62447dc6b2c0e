// What an engine without a clock to compare with has to offer: records with versions, each written only over the very version that
// was read. Everything else, expiry included, is the observers' affair (store.ts).
import type { CallOptions, Json } from '../contract.js'

/** What stands in the engine for one key. Plain data; no instant in it decides anything. */
export interface ObservedRecord {
  /** Who holds it, or held it last without ending it; empty when the last holder gave it back. */
  readonly claim: string
  readonly holder: string
  readonly ttlMs: number
  /** The biggest token granted so far. */
  readonly token: number
  readonly changes: number
  /** When it was granted by the holder's time of day: for people, and never compared. */
  readonly grantedAtMs: number
  /** Counts grants and renewals. */
  readonly beats: number
  readonly revoked: boolean
  readonly meta: Json | null
  /** The last claim that gave the lease back. */
  readonly lastEnded: string
  /** Claims that were withdrawn, oldest first. */
  readonly ended: readonly { readonly claim: string; readonly revoked: boolean }[]
}

/** A record as it was read. */
export interface Versioned {
  readonly record: ObservedRecord
  /** Another text after every write, whoever wrote. */
  readonly version: string
  /**
   * Another text after every write by which the holder says that it lives: a grant or a renewal. A contender waits for the ttl
   * since it first saw this one; what others write meanwhile (a withdrawal, a revocation) lends the holder no time.
   */
  readonly beat: string
}

/** What is there must not be granted yet: ask again after that long. */
export class NotYet<Read extends Versioned = Versioned> {
  readonly read: Read
  readonly leftMs: number

  constructor(read: Read, leftMs: number) {
    this.read = read
    this.leftMs = leftMs
  }
}

/** What a write is for. */
export type WriteKind = 'grant' | 'renewal' | 'other'

/** Records with versions. Errors are StoreError, with `outcome` as the contract says. */
export interface VersionedRecords<Read extends Versioned = Versioned> {
  /** The newest record: one that every later write will have to be over. Null when there is none. */
  read(key: string, call?: CallOptions): Promise<Read | null>
  /**
   * Writes over the version that was read, or creates what was not there. Gives what stands there now; undefined when somebody
   * else has written in between. A grant's token comes from the engine: greater than every earlier one of the key (G2). Only to a
   * grant the answer may be that it is too early.
   */
  write(
    key: string,
    record: ObservedRecord,
    over: Read | null,
    kind: WriteKind,
    call?: CallOptions,
  ): Promise<Read | NotYet<Read> | undefined>
  /** All records whose key begins so, in no order. */
  list(prefix: string): AsyncIterable<{ readonly key: string; readonly read: Read }>
  /** What stands there when the watch is in place, and after each write; undefined when that has to be read. */
  watch?(key: string, signal: AbortSignal): AsyncIterable<Read | null | undefined>
  close(): Promise<void>
}
