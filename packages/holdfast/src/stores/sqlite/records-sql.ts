// The table of records, in a file of Holdfast's own beside the leases, and how a record becomes a row and comes back. Format 1.
import type { RecordState } from '../../idempotency/protocol.js'
import type { Cells, SqliteValue } from './client.js'

/** `state`: 0 free, 1 running, 2 done. `end_is`: 0 none, 1 returned, 2 threw. Times are ms of the file's clock. */
export const recordsTable = (name: string): string => `CREATE TABLE IF NOT EXISTS ${name} (
  key TEXT NOT NULL COLLATE BINARY PRIMARY KEY,
  state INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  claim TEXT NOT NULL,
  holder TEXT NOT NULL,
  token INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  after_unknown INTEGER NOT NULL,
  term_ms INTEGER NOT NULL,
  keep_ms INTEGER NOT NULL,
  end_is INTEGER NOT NULL,
  end_text TEXT
) STRICT`

const COLUMNS = 'state, fingerprint, claim, holder, token, attempt, after_unknown, term_ms, keep_ms, end_is, end_text'

/** The statements on a table of that name. */
export interface RecordsSql {
  readonly table: string
  /** (key) → the record. */
  readonly load: string
  /** (key, record) */
  readonly save: string
  /** (key, fingerprint, claim, holder, token, term, keep, token): a key that has no row. */
  readonly insert: string
  /** (keep, end_is, text, key, claim, now): the run of this claim is done. */
  readonly done: string
  /** (now, limit) → rowid and token of rows past their retention. */
  readonly old: string
  /** (rowids as a JSON array) */
  readonly forget: string
}

export const recordsSql = (table: string): RecordsSql => ({
  table: recordsTable(table),
  load: `SELECT ${COLUMNS} FROM ${table} WHERE key = ?`,
  save: `REPLACE INTO ${table} (key, ${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  insert: `INSERT INTO ${table} (key, ${COLUMNS})
    SELECT ?, 1, ?, ?, ?, ?, 1, 0, ?, ?, 0, NULL FROM holdfast_file WHERE pruned_token < ?
    ON CONFLICT (key) DO NOTHING`,
  done: `UPDATE ${table} SET state = 2, term_ms = 0, keep_ms = ?, end_is = ?, end_text = ?
    WHERE key = ? AND claim = ? AND state = 1 AND keep_ms > ?`,
  old: `SELECT rowid, token FROM ${table} WHERE keep_ms <= ? LIMIT ?`,
  forget: `DELETE FROM ${table} WHERE rowid IN (SELECT value FROM json_each(?))`,
})

const STATES = ['free', 'running', 'done'] as const
const ENDS = [null, 'returned', 'threw'] as const
export const END_NUMBER = { returned: 1, threw: 2 } as const

/** What a row says; undefined when there is none. */
export function decodeRecord(cells: Cells | undefined): RecordState | undefined {
  if (cells === undefined) return undefined
  const [state, fingerprint, claim, holder, token, attempt, afterUnknown, termMs, keepMs, endIs, text] = cells
  const is = ENDS[Number(endIs)] ?? null
  return {
    state: STATES[Number(state)] ?? 'free',
    fingerprint: String(fingerprint),
    claim: String(claim),
    holder: String(holder),
    token: Number(token),
    attempt: Number(attempt),
    afterUnknown: Number(afterUnknown) === 1,
    termMs: Number(termMs),
    keepMs: Number(keepMs),
    end: is === null ? null : { is, text: String(text) },
  }
}

/** The values of `save`. */
export const encodeRecord = (key: string, record: RecordState): SqliteValue[] => [
  key,
  STATES.indexOf(record.state),
  record.fingerprint,
  record.claim,
  record.holder,
  record.token,
  record.attempt,
  record.afterUnknown ? 1 : 0,
  record.termMs,
  record.keepMs,
  record.end === null ? 0 : END_NUMBER[record.end.is],
  record.end === null ? null : record.end.text,
]
