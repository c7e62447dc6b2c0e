// Record and effect in one commit: where both stand in one database nothing is ever unknown. A concurrent repeat waits at the row
// until the first commits, and is told its result, or rolls back, and runs itself.
import { InvalidArgumentError, LeaseLostError } from '../lease/errors.js'
import { checkFunction, checkMethods } from '../lease/options.js'
import { systemRandom } from '../lease/random.js'
import { failureCodec } from './codec.js'
import type { BeginRequest, Begun, StoredEnd, SyncTransactionRecords, TransactionRecords } from './contract.js'
import { InProgressError, KeyReusedError, UnknownOutcomeError } from './errors.js'
import { type RecordOptions, type RecordSettings, settleRecord } from './options.js'
import type { RunInfo } from './run.js'
import { decodeEnd, encodeResult } from './stored.js'

/** What the work in a transaction is told. */
export type TransactionRun = Omit<RunInfo, 'signal'>

/** Long enough for any transaction: nobody sees the term before the commit. */
const TTL_MS = 86_400_000

/**
 * Runs `work` once for the key, inside the caller's transaction: its writes and the record of its result are committed together,
 * or not at all. Give it the transaction, on the same database as the records. When the work throws, let the error roll the
 * transaction back.
 *
 * With records of SQLite everything is synchronous, and `work` must be too. Throws or rejects with KeyReusedError,
 * InProgressError and UnknownOutcomeError (a `once` outside of a transaction has the key), RecordedFailureError, StoreError, or
 * what the driver or the work throws. A result that the codec cannot carry throws InvalidArgumentError: nothing has happened yet.
 *
 * @example
 * ```ts
 * const records = sqliteTransactionRecords()
 * const options = { key: keyOf('reports', 'daily', 'b8c1'), fingerprint: fingerprintOf({ body: 'all is well' }) }
 * db.exec('BEGIN IMMEDIATE')
 * const result = onceInTransaction(db, records, options, () => {
 *   db.prepare("UPDATE reports SET body = 'all is well' WHERE id = 'daily'").run()
 *   return { written: true }
 * })
 * db.exec('COMMIT') // and 'ROLLBACK' when something was thrown
 * ```
 */
export function onceInTransaction<Transaction, T>(
  tx: Transaction,
  records: TransactionRecords<Transaction>,
  options: RecordOptions<T>,
  work: (run: TransactionRun) => T | Promise<T>,
): Promise<T>
export function onceInTransaction<Transaction, T>(
  tx: Transaction,
  records: SyncTransactionRecords<Transaction>,
  options: RecordOptions<T>,
  work: (run: TransactionRun) => T,
): T
export function onceInTransaction<Transaction, T>(
  tx: Transaction,
  records: TransactionRecords<Transaction> | SyncTransactionRecords<Transaction>,
  options: RecordOptions<T>,
  work: (run: TransactionRun) => T | Promise<T>,
): T | Promise<T> {
  if (typeof records === 'object' && records !== null && 'inSyncTransaction' in records) {
    return inSync(tx, records, options, work as (run: TransactionRun) => T)
  }
  return inAsync(tx, records, options, work)
}

function inSync<Transaction, T>(
  tx: Transaction,
  { inSyncTransaction }: SyncTransactionRecords<Transaction>,
  options: RecordOptions<T>,
  work: (run: TransactionRun) => T,
): T {
  const settings = settleRecord(options)
  checkFunction('work', work)
  const request = requestOf(settings)
  const begun = inSyncTransaction.begin(tx, request)
  if (begun.is !== 'run') return told(begun, settings)
  const value = work(infoOf(request.key, begun))
  if (typeof (value as { then?: unknown } | null)?.then === 'function') {
    throw new InvalidArgumentError(
      'work',
      work,
      'must not be async: the transaction of a synchronous driver would be over at its first await',
    )
  }
  const end: StoredEnd = { is: 'returned', text: encodeResult(value, settings) }
  checkRecorded(inSyncTransaction.finish(tx, request, end, settings.retentionMs), request.key, begun.token)
  return value
}

async function inAsync<Transaction, T>(
  tx: Transaction,
  records: TransactionRecords<Transaction>,
  options: RecordOptions<T>,
  work: (run: TransactionRun) => T | Promise<T>,
): Promise<T> {
  const inTransaction = (records as Partial<TransactionRecords<Transaction>> | null)?.inTransaction
  checkMethods('records', inTransaction, ['begin', 'finish'], 'must be records that can stand in a transaction')
  const settings = settleRecord(options)
  checkFunction('work', work)
  const request = requestOf(settings)
  const begun = await records.inTransaction.begin(tx, request)
  if (begun.is !== 'run') return told(begun, settings)
  const value = await work(infoOf(request.key, begun))
  const end: StoredEnd = { is: 'returned', text: encodeResult(value, settings) }
  checkRecorded(await records.inTransaction.finish(tx, request, end, settings.retentionMs), request.key, begun.token)
  return value
}

const requestOf = <T>({ key, fingerprint, holder, retentionMs }: RecordSettings<T>): BeginRequest => ({
  key,
  fingerprint,
  claim: systemRandom.claim(),
  holder,
  ttlMs: TTL_MS,
  retentionMs,
  takeOver: false,
})

const infoOf = (key: string, { token, attempt, afterUnknown }: Begun & { is: 'run' }): TransactionRun => ({
  key,
  token,
  attempt,
  afterUnknown,
})

function told<T>(begun: Exclude<Begun, { is: 'run' }>, settings: RecordSettings<T>): T {
  const { key, codec } = settings
  if (begun.is === 'done') return decodeEnd(begun.end, { codec, failureCodec })
  if (begun.is === 'reused') throw new KeyReusedError(key, begun.state)
  if (begun.is === 'unknown') throw new UnknownOutcomeError(key, begun)
  throw new InProgressError(key, begun.is === 'running' ? begun : { holder: 'another', remainingMs: 0 }, 0)
}

/** Within the transaction the row is locked; this says that it was not the transaction that was given. */
function checkRecorded(answer: 'recorded' | 'lost', key: string, token: number): void {
  if (answer === 'lost') throw new LeaseLostError(key, token, 'taken')
}
