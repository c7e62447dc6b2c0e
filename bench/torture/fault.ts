// What a fault is: something that happens to real servers and connections while a library is in use, and one honest line about
// what the library did.
import type { Library } from '../peers/library.js'
import type { World } from './world.js'

/**
 * `yes`: the caller got what a lock must give. `in part`: no harm, but less. `no`: the lock, the work's result or the caller was
 * lost. `none`: the library has no such operation.
 */
export type Verdict = 'yes' | 'in part' | 'no' | 'none'

/** What a library did. */
export interface Line {
  readonly did: string
  readonly verdict: Verdict
}

export interface Fault {
  readonly name: string
  /** A heading. */
  readonly title: string
  /** What is done, in a sentence or two, with the ttl. */
  readonly what: string
  /** What a caller may expect. */
  readonly expected: string
  /** How many servers it needs. */
  readonly servers: number
  run(library: Library, world: World): Promise<Line>
}

export const none = (did: string): Line => ({ did, verdict: 'none' })

/** What the libraries lock, in every fault. */
export const KEY = 'torture'

/** For how long a fault watches before it calls something unfinished. */
export const PATIENCE_MS = 12_000
