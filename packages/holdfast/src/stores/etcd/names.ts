// Where a key's things stand in etcd. A Holdfast key has no NUL, so NUL parts it from a claim, and no two keys share a name (G11).
//
//   <prefix>h/<key>              there while the key is held, on the etcd lease of its holder: 'c' or, revoked, 'r', then the claim
//   <prefix>h/<key> NUL <claim>  a claim that waits: its place is that of its create revision
//   <prefix>r/<key>              the last grant, written by grants only: its revision is the token, its version counts the changes
//   <prefix>l/<key>              the last claim that gave the key back, for the retention
//   <prefix>t/<key> NUL <claim>  a claim that was withdrawn or revoked by force, for the retention
// Who holds and who waits are neighbours, so that one condition covers both.
import { encode, type Range } from './wire.js'

export const HELD = 'c'
export const REVOKED = 'r'

export interface Names {
  readonly held: string
  readonly record: string
  readonly last: string
  readonly queue: Range
  /** The holder and the queue. */
  readonly wanted: Range
  ended(claim: string): string
  waiting(claim: string): string
}

export function namesOf(prefix: string, key: string): Names {
  const name = `${prefix}h/${key}`
  const held = encode(name)
  const range_end = encode(`${name}\x01`)
  return {
    held,
    record: encode(`${prefix}r/${key}`),
    last: encode(`${prefix}l/${key}`),
    queue: { key: encode(`${name}\0`), range_end },
    wanted: { key: held, range_end },
    ended: (claim) => encode(`${prefix}t/${key}\0${claim}`),
    waiting: (claim) => encode(`${name}\0${claim}`),
  }
}

/** All names that begin with this text: up to the next text that does not. */
export function beginningWith(text: string): Range {
  const bytes = [...new TextEncoder().encode(text)]
  const last = bytes.pop() ?? 0 // never 0xff: this is UTF-8
  return { key: encode(text), range_end: btoa(String.fromCharCode(...bytes, last + 1)) }
}

/** What stands under `r/`. */
export interface GrantValue {
  readonly claim: string
  readonly holder: string
  readonly ttlMs: number
  /** By the holder's time of day: for people, and never compared. */
  readonly atMs: number
  readonly meta?: unknown
}

/** What stands at a place in the queue. */
export interface WaiterValue {
  readonly holder: string
  readonly pollMs: number
  /** By the waiter's time of day: for people, and never compared. */
  readonly sinceMs: number
  /** Its turn has come: its place is now on an etcd lease of one poll. */
  readonly reserved?: boolean
}
