// The statements of the store, and how the state of a key becomes a row and comes back.
import { StoreError } from '../../lease/errors.js'
import { type KeyState, unknownKey } from '../../store/protocol.js'
import type { Cells, SqliteValue } from './client.js'

const STATE_COLUMNS = `token, claim, holder, ttl_ms, granted_ms, expires_ms, revoked, changes, meta, last_ended, ended, queue,
  reserved_until_ms, at_ms`

/** (key) → the row about the file and, if there is one, the row of the key: always one row. */
export const LOAD = `SELECT offset_ms, pruned_token, ${STATE_COLUMNS}
  FROM holdfast_file LEFT JOIN holdfast_lease ON key = ?`

/** (key, state) */
export const SAVE = `REPLACE INTO holdfast_lease (key, ${STATE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** (offset): the machine's clock stepped back by so much. */
export const RAISE_OFFSET = 'UPDATE holdfast_file SET offset_ms = ?'

/** (from, prefix, also free, limit) → rows with their keys, in the order of the keys' bytes. */
export const PAGE = `SELECT offset_ms, pruned_token, ${STATE_COLUMNS}, key FROM holdfast_file, holdfast_lease
  WHERE key > ? AND key >= ? AND (claim <> '' OR queue IS NOT NULL OR ?) ORDER BY key LIMIT ?`

/** (after, limit, written before) → of the next few keys those that may be forgotten, as rows with their keys. */
export const PRUNE_CANDIDATES = `SELECT offset_ms, pruned_token, ${STATE_COLUMNS}, key
  FROM holdfast_file, (SELECT * FROM holdfast_lease WHERE key > ? ORDER BY key LIMIT ?) WHERE at_ms <= ?`

/** (after, limit) → the last of the next few keys; NULL at the end. */
export const PRUNE_CURSOR = 'SELECT max(key) FROM (SELECT key FROM holdfast_lease WHERE key > ? ORDER BY key LIMIT ?)'

/** (keys as a JSON array) */
export const FORGET = 'DELETE FROM holdfast_lease WHERE key IN (SELECT value FROM json_each(?))'

/** (token): keys that are unknown from now on start above it. */
export const RAISE_PRUNED_TOKEN = 'UPDATE holdfast_file SET pruned_token = max(pruned_token, ?)'

/** → the ms to add to the machine's clock. */
export const OFFSET = 'SELECT offset_ms FROM holdfast_file'

/** → a number that changes when another connection has committed. */
export const DATA_VERSION = 'PRAGMA data_version'

/** Where PAGE and PRUNE_CANDIDATES have the key. */
export const KEY_CELL = 16

/** What LOAD found. */
export interface Loaded {
  readonly offsetMs: number
  readonly state: KeyState
  /** When the row was last written; 0 when there is none. */
  readonly atMs: number
}

/** A row of LOAD, PAGE or PRUNE_CANDIDATES as the drivers give it; the state's columns are null when the key has no row. */
type Row = readonly [
  offsetMs: number,
  prunedToken: number,
  token: number | null,
  claim: string,
  holder: string,
  ttlMs: number,
  grantedMs: number,
  expiresMs: number,
  revoked: number,
  changes: number,
  meta: string | null,
  lastEnded: string,
  ended: string | null,
  queue: string | null,
  reservedUntilMs: number,
  atMs: number,
]

/** What a row says. Throws StoreError when it cannot be trusted. */
export function decode(cells: Cells): Loaded {
  const row = cells as unknown as Row
  const token = row[2]
  if (token === null) return { offsetMs: row[0], state: unknownKey(row[1]), atMs: 0 }
  if (!Number.isSafeInteger(token)) throw beyondExact()
  const state: KeyState = {
    token,
    claim: row[3],
    holder: row[4],
    ttlMs: row[5],
    grantedMs: row[6],
    expiresMs: row[7],
    revoked: row[8] !== 0,
    changes: row[9],
    meta: row[10] === null ? null : parse(row[10]),
    lastEnded: row[11],
    ended: row[12] === null ? NOBODY : parse(row[12]),
    queue: row[13] === null ? NOBODY : parse(row[13]),
    reservedUntilMs: row[14],
  }
  return { offsetMs: row[0], state, atMs: row[15] }
}

/** The values of SAVE. */
export const encode = (key: string, state: KeyState, atMs: number): SqliteValue[] => [
  key,
  state.token,
  state.claim,
  state.holder,
  state.ttlMs,
  state.grantedMs,
  state.expiresMs,
  state.revoked ? 1 : 0,
  state.changes,
  state.meta === null ? null : JSON.stringify(state.meta),
  state.lastEnded,
  state.ended.length === 0 ? null : JSON.stringify(state.ended),
  state.queue.length === 0 ? null : JSON.stringify(state.queue),
  state.reservedUntilMs,
  atMs,
]

const NOBODY: readonly never[] = []

/** A number of the row is beyond 2^53 - 1: whatever it was rounded to must not be used. */
export const beyondExact = (cause?: unknown): StoreError =>
  new StoreError(
    'the row of this key has a number beyond 2^53 - 1, which would be rounded: this key can be granted no more',
    {
      outcome: 'none',
      cause,
    },
  )

function parse<Value>(text: string): Value {
  try {
    return JSON.parse(text) as Value
  } catch (cause) {
    throw new StoreError(
      'the row of this key does not hold JSON where it must: revoke the key with force, or remove the row',
      {
        outcome: 'none',
        cause,
      },
    )
  }
}
