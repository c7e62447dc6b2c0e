// Records in an SQLite file that the processes of a machine share, decided by the pure protocol under SQLite's write lock. The
// plain cases (a key that is new, a run that is done) are one statement each.
import type { Records, RecordsCapabilities } from '../../idempotency/contract.js'
import * as protocol from '../../idempotency/protocol.js'
import { type Clock, systemClock } from '../../lease/clock.js'
import { InvalidArgumentError } from '../../lease/errors.js'
import { KEY_BYTES_MAX } from '../../lease/keys.js'
import { systemRandom } from '../../lease/random.js'
import type { CallOptions } from '../../store/contract.js'
import { checkDatabaseClass, type SqliteDatabaseClass } from './client.js'
import { type Connection, Connections } from './connection.js'
import { microsecondClock } from './microseconds.js'
import { checkPath, openNow } from './opening.js'
import { decodeRecord, END_NUMBER, encodeRecord, recordsSql } from './records-sql.js'
import { RAISE_PRUNED_TOKEN } from './sql.js'
import { Turns } from './turn.js'

/** What `sqliteRecords` takes. */
export interface SqliteRecordsOptions {
  /** The file, made if need be; its directory must exist. That of an `sqliteStore` may be shared, an application's may not. */
  path: string
  /** The class of better-sqlite3 or libsql (their default exports), or `DatabaseSync` of node:sqlite. */
  Database: SqliteDatabaseClass
  /** `normal`: a crash of the machine may undo the last records. `full`: each is on the disk before it is told. Default `full`. */
  synchronous?: 'normal' | 'full'
  /** The clocks and timers. Default: this machine's. */
  clock?: Clock
}

/** What records in an SQLite file can do and promise, as data. */
export const sqliteRecordsCapabilities: RecordsCapabilities = {
  clock: 'machine',
  survives: ['client restart', 'store restart', 'power loss'],
  keyBytesMax: KEY_BYTES_MAX,
}

const SQL = recordsSql('holdfast_record')
const PRUNED_TOKEN = 'SELECT pruned_token FROM holdfast_file'
const EXISTS = "SELECT 1 FROM sqlite_schema WHERE name = 'holdfast_record'"

/** After so many runs as many old records are forgotten. */
const RUNS_PER_PRUNE = 512

/**
 * Records of `once` in an SQLite file, for the processes of one machine. Opens a connection of its own; waiting for another process's
 * write lock never blocks the event loop. For record and effect in one commit see `sqliteTransactionRecords`.
 *
 * Throws InvalidArgumentError for options that cannot be right, StoreError when the file cannot be opened.
 *
 * @example
 * ```ts
 * import Database from 'libsql'
 * const records = sqliteRecords({ path: 'records.db', Database })
 * const options = { key: 'order-1', fingerprint: fingerprintOf({ amount: 100 }) }
 * const receipt = await once(records, options, () => charge(100))
 * await records.close()
 * ```
 */
export function sqliteRecords(options: SqliteRecordsOptions): Records {
  const { Database, clock = systemClock, synchronous = 'full' } = options
  const path = checkPath(options.path)
  checkDatabaseClass(Database)
  if (synchronous !== 'normal' && synchronous !== 'full') {
    throw new InvalidArgumentError('synchronous', synchronous, "must be 'normal' or 'full'")
  }
  const microseconds = microsecondClock()
  const connections = new Connections({ path, Database, synchronous, clock })
  const turns = new Turns({ connections, path, clock, random: systemRandom })
  let runs = 0
  openNow(connections, path)

  const load = (connection: Connection, key: string) => decodeRecord(connection.read(SQL.load, key)[0])

  /** Above the last of this key, also when its row was forgotten and the clock set back. */
  const nextToken = (connection: Connection, nowMs: number) => (previous: number) => {
    const floor = previous > 0 ? previous : Number(connection.read(PRUNED_TOKEN)[0]?.[0])
    return Math.max(floor + 1, microseconds(nowMs))
  }

  function step<Answer>(
    key: string,
    run: (
      record: protocol.RecordState | undefined,
      nowMs: number,
      connection: Connection,
    ) => protocol.RecordStep<Answer>,
    call?: CallOptions,
    plain?: (connection: Connection, nowMs: number) => Answer | undefined,
  ): Promise<Answer> {
    return turns.write(
      {
        run(connection) {
          connection.ensureTable(SQL.table)
          const before = load(connection, key)
          const { record, answer } = run(before, connection.nowMs(), connection)
          if (record !== before && record !== undefined) connection.write(SQL.save, ...encodeRecord(key, record))
          return answer
        },
        ...(plain && {
          plain(connection: Connection) {
            connection.ensureTable(SQL.table)
            return plain(connection, connection.plainTime().nowMs)
          },
        }),
      },
      call,
    )
  }

  /** Looks for old records once in a while. What fails is tried the next time. */
  function pruneSome(): void {
    if (++runs % RUNS_PER_PRUNE === 0) turns.write({ run: prunePass }).catch(() => {})
  }

  return {
    name: 'sqlite',
    contract: 1,
    capabilities: sqliteRecordsCapabilities,

    begin(request, call) {
      pruneSome()
      const { key, fingerprint, claim, holder, ttlMs, retentionMs } = request
      return step(
        key,
        (record, nowMs, connection) => protocol.begin(record, request, nowMs, nextToken(connection, nowMs)),
        call,
        (connection, nowMs) => {
          const token = microseconds(nowMs)
          const termMs = nowMs + ttlMs
          const inserted = connection.write(
            SQL.insert,
            ...[key, fingerprint, claim, holder, token, termMs, termMs + retentionMs, token],
          )
          return inserted === 0 ? undefined : { is: 'run', token, attempt: 1, afterUnknown: false }
        },
      )
    },

    extend: ({ key, claim }, ttlMs, retentionMs, call) =>
      step(key, (record, nowMs) => protocol.extend(record, claim, ttlMs, retentionMs, nowMs), call),

    finish: ({ key, claim }, end, retentionMs, call) =>
      step(
        key,
        (record, nowMs) => protocol.finish(record, claim, end, retentionMs, nowMs),
        call,
        (connection, nowMs) => {
          if (end.is !== 'returned' && end.is !== 'threw') return undefined
          const keepMs = nowMs + retentionMs
          const done = connection.write(SQL.done, keepMs, END_NUMBER[end.is], end.text, key, claim, nowMs)
          return done === 0 ? undefined : 'recorded'
        },
      ),

    withdraw: ({ key, claim }, call) =>
      step<void>(
        key,
        (record, nowMs) => ({ record: protocol.withdraw(record, claim, nowMs), answer: undefined }),
        call,
      ),

    inspect: (key, call) =>
      turns.read((connection) => {
        if (connection.read(EXISTS).length === 0) return null
        return protocol.view(key, load(connection, key), connection.nowMs())
      }, call),

    async prune(call) {
      let forgotten = 0
      while (true) {
        const some = await turns.write({ run: prunePass }, call)
        if (some === 0) return forgotten
        forgotten += some
      }
    },

    async close() {
      turns.close()
      connections.giveUp()
    },
  }
}

/** Forgets some of the records that are past their retention, within a write transaction. */
function prunePass(connection: Connection): number {
  connection.ensureTable(SQL.table)
  const old = connection.read(SQL.old, connection.nowMs(), RUNS_PER_PRUNE)
  if (old.length === 0) return 0
  connection.write(RAISE_PRUNED_TOKEN, Math.max(...old.map(([, token]) => Number(token))))
  connection.write(SQL.forget, JSON.stringify(old.map(([rowid]) => rowid)))
  return old.length
}
