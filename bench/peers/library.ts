// What a lock library is to the comparisons: the few things that all of them do, each by that library's own recommended way. An
// adapter adds nothing: no retry, no check, no deadline that the library does not have.
import type { Redis } from 'ioredis5'

/** What a library says of a lock that was taken, without asking the server. */
export interface View {
  /** Whether it is still held; undefined where the library offers no way to ask. */
  believes(): boolean | undefined
  /** How long it is still good, in ms; undefined where the library does not say. */
  remainingMs?(): number | undefined
  /** What giving it back threw, where the library's documentation has the caller catch that. */
  releaseError?(): unknown
}

/** A lock taken by hand. */
export interface Lock extends View {
  release(): Promise<unknown>
}

export interface OpenOptions {
  /** The pause between two tries, in ms. Default: the library's own. */
  readonly retryMs?: number
  /** Tries until it is granted. Default: the library's own limit. */
  readonly endless?: boolean
}

/** A library on one server, or over several. */
export interface Locks {
  /** Takes a lock, waiting as the options say. Rejects when it was not granted. */
  acquire(key: string, ttlMs: number): Promise<Lock>
  /** Runs work under a lock, renewed if the library renews, as its documentation recommends. */
  hold<T>(key: string, ttlMs: number, work: (view: View) => Promise<T>): Promise<T>
  close?(): Promise<unknown>
}

export interface Library {
  /** Its name on npm. */
  readonly name: string
  /** What is called, and what is not the default. */
  readonly setup: string
  /** Whether it renews a lock by itself while the work runs. */
  readonly renews: boolean
  /** Whether it tells the work of a loss, by a signal or a callback. */
  readonly tells: boolean
  /** The commands that it sends, as against what its scripts call. */
  readonly sends: readonly string[]
  /** Whether it works over several independent servers. */
  readonly quorum: boolean
  open(clients: readonly Redis[], options?: OpenOptions): Promise<Locks>
}

/** The only client of a library that works on one server. */
export function only(clients: readonly Redis[]): Redis {
  const [client, second] = clients
  if (client === undefined || second !== undefined) throw new Error('this library takes one client')
  return client
}
