// Records in the application's own SQLite database, in its own transaction: record and effect are committed together or not at all.
import type { SyncTransactionRecords } from '../../idempotency/contract.js'
import * as protocol from '../../idempotency/protocol.js'
import { type Clock, systemClock } from '../../lease/clock.js'
import { InvalidArgumentError } from '../../lease/errors.js'
import { identifier, inTransaction, type SqliteTransactionDatabase } from './application.js'
import { prepareReader } from './client.js'
import { decodeRecord, encodeRecord, recordsSql } from './records-sql.js'

/** What `sqliteTransactionRecords` takes. */
export interface SqliteTransactionRecordsOptions {
  /** Where the records are kept. Default `holdfast_record`. */
  readonly table?: string
  /** Whose wall clock decides how long results are kept. Default: this machine's. */
  readonly clock?: Clock
}

/** Records in an application's SQLite database. */
export interface SqliteTransactionRecords extends SyncTransactionRecords<SqliteTransactionDatabase> {
  /** The text that creates the table, if it is not there. The first use does so too. */
  readonly schema: string
  /** Forgets what is past its retention, in the transaction that it is given or in one of its own. Gives how many. */
  prune(db: SqliteTransactionDatabase): number
}

/** All at once: pruning is the application's own step, in its own time. */
const NO_LIMIT = -1

/**
 * Records for `onceInTransaction` in the application's own database, through its own connection of any of the three drivers.
 * A repeat in another process waits for the first's transaction as any write does, and is then told its result.
 *
 * @example
 * ```ts
 * const records = sqliteTransactionRecords()
 * const pay = db.transaction((id: string) =>
 *   onceInTransaction(db, records, { key: keyOf('pay', id), fingerprint: fingerprintOf({ id }) }, () => {
 *     db.prepare("UPDATE reports SET body = 'paid' WHERE id = ?").run(id)
 *     return { paid: id }
 *   }),
 * )
 * const receipt = pay.immediate('daily')
 * ```
 */
export function sqliteTransactionRecords(options: SqliteTransactionRecordsOptions = {}): SqliteTransactionRecords {
  const { table = 'holdfast_record', clock = systemClock } = options
  const sql = recordsSql(identifier('table', table))

  function check(db: SqliteTransactionDatabase): void {
    if (inTransaction(db)) return
    throw new InvalidArgumentError(
      'db',
      db,
      'must be inside a transaction, so that the record and your writes are one step (and a body without await: the transaction of a synchronous driver ends at the first)',
    )
  }

  function step<Answer>(
    db: SqliteTransactionDatabase,
    key: string,
    run: (record: protocol.RecordState | undefined, nowMs: number) => protocol.RecordStep<Answer>,
  ): Answer {
    check(db)
    db.exec(sql.table)
    const before = decodeRecord(prepareReader(db, sql.load).first(key))
    const { record, answer } = run(before, Math.floor(clock.wallMs()))
    if (record !== before && record !== undefined) db.prepare(sql.save).run(...encodeRecord(key, record))
    return answer
  }

  return {
    schema: sql.table,

    inSyncTransaction: {
      begin: (db, request) =>
        step(db, request.key, (record, nowMs) =>
          protocol.begin(record, request, nowMs, (previous) => Math.max(previous + 1, nowMs * 1_000)),
        ),
      finish: (db, { key, claim }, end, retentionMs) =>
        step(db, key, (record, nowMs) => protocol.finish(record, claim, end, retentionMs, nowMs)),
    },

    prune(db) {
      db.exec(sql.table)
      const rows = prepareReader(db, sql.old).all(Math.floor(clock.wallMs()), NO_LIMIT)
      return Number(db.prepare(sql.forget).run(JSON.stringify(rows.map(([rowid]) => rowid))).changes)
    },
  }
}
