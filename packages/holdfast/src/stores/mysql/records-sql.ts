// The table of records and its statements. The plain cases (a key that is new, a run that is done) are one statement each; for all
// else the row is read, decided on by idempotency/protocol.ts, and written if it is still as it was read.
import type { StoredEnd } from '../../idempotency/contract.js'
import type { RecordState } from '../../idempotency/protocol.js'
import { StoreError } from '../../lease/errors.js'
import { textOf } from './client.js'
import { identifier } from './names.js'
import type { Row, Value } from './server.js'
import { NOW } from './steps.js'
import { bytesOf } from './wire.js'

/** Where the records are. */
export interface MysqlRecordsNames {
  /** The database, made if need be. Default: the one that the pool's connections are in. */
  readonly database?: string
  /** The table. Default `holdfast_record`. */
  readonly table?: string
}

/** The statements on one table. Instants are in µs of the server's clock. */
export interface RecordsSql {
  readonly schema: readonly string[]
  /** (key, state, fingerprint, claim, holder, attempt, µs of its term, µs that it is kept): a key that has no row. Its token is the insert id. */
  readonly insert: string
  /** The same, waiting for others' transactions on this key; changes nothing if there is a row. */
  readonly insertInside: string
  /** (key) → the row and the time. */
  readonly load: string
  /** (key) → the same, locked. */
  readonly loadInside: string
  /** (record, key, the row as it was read) */
  readonly save: string
  /** (state, text, retention in µs, key, claim) */
  readonly done: string
  /** Forgets some. */
  readonly prune: string
}

/** So many records are forgotten at once: a longer transaction would keep others waiting. */
export const ROWS_PER_PRUNE = 500

const COLUMNS = 'state, fingerprint, claim, holder, token, attempt, after_unknown, term_us, keep_us, end_text'
const ROW = `state, fingerprint, claim, holder, CAST(token AS CHAR) AS token, attempt, after_unknown,
  CAST(term_us AS CHAR) AS term_us, CAST(keep_us AS CHAR) AS keep_us, end_text, CAST(${NOW} AS CHAR) AS us`

export function recordsSql({ database, table = 'holdfast_record' }: MysqlRecordsNames = {}): RecordsSql {
  const inDatabase = database === undefined ? '' : `${identifier('database', database)}.`
  const name = `${inDatabase}${identifier('table', table)}`
  const values = `(record_key, ${COLUMNS})
  VALUES (?, ?, ?, ?, ?, LAST_INSERT_ID(${NOW}), ?, 0, ${NOW} + ?, ${NOW} + ?, NULL)`
  return {
    schema: [
      ...(database === undefined ? [] : [`CREATE DATABASE IF NOT EXISTS ${identifier('database', database)}`]),
      `CREATE TABLE IF NOT EXISTS ${name} (
  record_key VARBINARY(512) NOT NULL,
  state TINYINT NOT NULL,
  fingerprint VARBINARY(2048) NOT NULL,
  claim VARBINARY(255) NOT NULL,
  holder VARBINARY(1024) NOT NULL,
  token BIGINT NOT NULL,
  attempt INT NOT NULL,
  after_unknown TINYINT NOT NULL,
  term_us BIGINT NOT NULL,
  keep_us BIGINT NOT NULL,
  end_text LONGBLOB,
  PRIMARY KEY (record_key)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`,
    ],
    insert: `INSERT IGNORE INTO ${name} ${values}`,
    insertInside: `INSERT INTO ${name} ${values} ON DUPLICATE KEY UPDATE record_key = VALUES(record_key)`,
    load: `SELECT ${ROW} FROM ${name} WHERE record_key = ?`,
    loadInside: `SELECT ${ROW} FROM ${name} WHERE record_key = ? FOR UPDATE`,
    save: `UPDATE ${name} SET state = ?, fingerprint = ?, claim = ?, holder = ?, token = ?, attempt = ?, after_unknown = ?,
  term_us = ?, keep_us = ?, end_text = ?
  WHERE record_key = ? AND state = ? AND claim = ? AND token = ? AND term_us = ? AND keep_us = ?`,
    done: `UPDATE ${name} SET state = ?, end_text = ?, keep_us = ${NOW} + ?, term_us = 0
  WHERE record_key = ? AND claim = ? AND state = 1 AND keep_us > ${NOW}`,
    prune: `DELETE FROM ${name} WHERE keep_us <= ${NOW} LIMIT ${ROWS_PER_PRUNE}`,
  }
}

/**
 * The SQL that makes the table of records, for those who run it by hand (`migrate: false`). It may be run again.
 *
 * Throws InvalidArgumentError for names that MySQL would not take as they are.
 *
 * @example
 * ```ts
 * const sql = mysqlRecordsSchema({ database: 'billing' })
 * ```
 */
export function mysqlRecordsSchema(options: MysqlRecordsNames = {}): string {
  return `-- Holdfast: records, version 1\n${recordsSql(options).schema.join(';\n\n')};\n`
}

const STATES = ['free', 'running', 'done', 'done'] as const
const STATE_OF = { free: 0, running: 1, done: 2 } as const
const END_OF = { returned: 2, threw: 3 } as const

export const stateOf = (record: RecordState): number =>
  record.end === null ? STATE_OF[record.state] : END_OF[record.end.is]

/** A row, as numbers that compare exactly. */
export interface Loaded {
  readonly record: RecordState
  readonly nowMs: number
}

/** What a row says; undefined when there is none. */
export function decodeRecord(row: Row | undefined): Loaded | undefined {
  if (row === undefined) return undefined
  const state = Number(row.state)
  const end: StoredEnd | null =
    state < 2 ? null : { is: state === 3 ? 'threw' : 'returned', text: textOf(row.end_text) }
  const token = Number(textOf(row.token))
  if (!Number.isSafeInteger(token)) {
    throw new StoreError('the token of this record is beyond 2^53 - 1: remove its row', { outcome: 'none' })
  }
  return {
    nowMs: Number(textOf(row.us)) / 1000,
    record: {
      state: STATES[state] ?? 'free',
      fingerprint: textOf(row.fingerprint),
      claim: textOf(row.claim),
      holder: textOf(row.holder),
      token,
      attempt: Number(row.attempt),
      afterUnknown: Number(row.after_unknown) === 1,
      termMs: Number(textOf(row.term_us)) / 1000,
      keepMs: Number(textOf(row.keep_us)) / 1000,
      end,
    },
  }
}

const usOf = (ms: number) => Math.round(ms * 1000)

/** The values of `save`. */
export const saveValues = (key: string, before: RecordState, after: RecordState): Value[] => [
  stateOf(after),
  bytesOf(after.fingerprint),
  bytesOf(after.claim),
  bytesOf(after.holder),
  after.token,
  after.attempt,
  after.afterUnknown ? 1 : 0,
  usOf(after.termMs),
  usOf(after.keepMs),
  after.end === null ? null : bytesOf(after.end.text),
  bytesOf(key),
  stateOf(before),
  bytesOf(before.claim),
  before.token,
  usOf(before.termMs),
  usOf(before.keepMs),
]

/** Whether a write would change nothing, which some servers report as if the row were not there. */
export const isSame = (before: RecordState, after: RecordState): boolean =>
  before === after ||
  (before.token === after.token &&
    before.claim === after.claim &&
    stateOf(before) === stateOf(after) &&
    usOf(before.termMs) === usOf(after.termMs) &&
    usOf(before.keepMs) === usOf(after.keepMs))
