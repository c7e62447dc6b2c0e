// What a failed statement means for a caller: a StoreError that says whether anything was done, and what to do (G13). A server that
// reports an error has undone the transaction; one that was interrupted, or a connection that broke, leaves it open.
import { HoldfastError, StoreError } from '../../lease/errors.js'

const RIGHTS =
  'the user lacks rights: it needs SELECT, INSERT, UPDATE, DELETE and EXECUTE on the database of the leases; and, to make tables and procedures, CREATE, INDEX and CREATE ROUTINE, or somebody who has them runs the SQL of mysqlSchema() once (migrate: false)'
const MISSING =
  'tables or procedures are missing: let the store make them, or run the SQL of mysqlSchema(), for records that of mysqlRecordsSchema()'
const READ_ONLY = 'the server is a replica or read-only: connect to the primary'

/** What the server's error numbers call for. */
const ADVICE = new Map<number, string>([
  [1044, RIGHTS],
  [1142, RIGHTS],
  [1143, RIGHTS],
  [1227, RIGHTS],
  [1370, RIGHTS],
  [1045, 'the server does not let this user in: check user and password'],
  [1698, 'the server does not let this user in: check user and password'],
  [1040, 'the server has too many connections: use a smaller pool, or raise max_connections'],
  [1203, 'the user has too many connections: use a smaller pool, or raise max_user_connections'],
  [1226, 'the user has reached a limit of its account (MAX_QUERIES_PER_HOUR and the like)'],
  [1046, 'the connection is in no database: name one in the pool, or in the option database of the store'],
  [1049, 'the database does not exist, and this user may not make it'],
  [1054, 'a table of this name is there that is not of Holdfast: give another database or table'],
  [1146, MISSING],
  [1305, MISSING],
  [1290, READ_ONLY],
  [1792, READ_ONLY],
  [1836, READ_ONLY],
  [3100, READ_ONLY],
  [
    1568,
    'the pool gave a connection that was in a transaction: somebody released it without commit or rollback; look for that, or give the leases a pool of their own',
  ],
  [
    1665,
    'binlog_format is STATEMENT, which MySQL refuses at READ COMMITTED: set it to ROW or MIXED (log-bin-trust-function-creators does not help)',
  ],
  [1213, 'others changed the same rows again and again: try again'],
  [1205, 'another transaction has locked the row of this key: see information_schema.innodb_trx for who'],
  [1461, 'the server has too many prepared statements: raise max_prepared_stmt_count'],
  [1114, 'the table is full: the disk, or innodb_data_file_path, has no space left'],
  [1021, "the server's disk is full"],
])

/**
 * What does not pass by itself: a login that is refused, a database, table or right that is missing, a table that is not ours, a setting
 * of the binary log that MySQL refuses. A replica is none of these: it may be promoted.
 */
const LASTING = new Set([1044, 1045, 1046, 1049, 1054, 1142, 1143, 1146, 1227, 1305, 1370, 1665, 1698])

/** After these it is open whether the transaction was committed: the statement was interrupted, or the commit itself failed. */
const UNKNOWN = new Set([1053, 1077, 1152, 1158, 1159, 1160, 1161, 1180, 1317, 1927, 1969, 3024, 4031])

/** Others changed the same rows, or the tables were just being made: the same again may succeed, and nothing was done. */
const AGAIN = new Set([1213, 1205, 1020, 1412, 1615, 1243])

/** The session is as good as before. After all others the connection is given up. */
const HARMLESS = new Set([...AGAIN, 1044, 1046, 1049, 1142, 1143, 1146, 1290, 1305, 1370, 1568, 1665, 1792, 1836, 3100])

/** The server's error number, if it is one of its errors. Also of the error of which a StoreError came. */
export function errnoOf(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  if (error instanceof HoldfastError) return errnoOf((error as { cause?: unknown }).cause)
  const { errno, sqlState, sqlMessage } = error as { errno?: unknown; sqlState?: unknown; sqlMessage?: unknown }
  return typeof errno === 'number' && errno > 0 && (sqlState !== undefined || sqlMessage !== undefined)
    ? errno
    : undefined
}

export const isAgain = (error: unknown): boolean => AGAIN.has(errnoOf(error) ?? 0)
export const isHarmless = (error: unknown): boolean => HARMLESS.has(errnoOf(error) ?? 0)
export const isMissing = (error: unknown): boolean => [1146, 1305, 1049].includes(errnoOf(error) ?? 0)

/** Whether a statement on many keys may have failed because of one of them: data that the server cannot take. */
export const blamesOne = (error: StoreError): boolean =>
  [1264, 1366, 1406, 3140, 3141, 4037, 4038].includes(errnoOf(error) ?? 0)

/** The error as a caller gets it. `sent`: whether the statement may have been on its way. */
export function failure(error: unknown, what: string, sent: boolean): HoldfastError {
  if (error instanceof HoldfastError) return error
  const said = saidBy(error)
  const errno = errnoOf(error)
  const advice = errno === undefined ? undefined : ADVICE.get(errno)
  const lasting = errno !== undefined && LASTING.has(errno)
  if (!sent) {
    const then = advice ?? notGiven(said)
    return new StoreError(`${what} was not sent: ${then} (${said})`, { outcome: 'none', lasting, cause: error })
  }
  if (errno !== undefined && !UNKNOWN.has(errno)) {
    const reason = advice === undefined ? said : `${advice} (${said})`
    return new StoreError(`MySQL refused ${what}: ${reason}`, { outcome: 'none', lasting, cause: error })
  }
  return new StoreError(`MySQL did not answer ${what}; whether it was applied is unknown (${said})`, {
    outcome: 'unknown',
    cause: error,
  })
}

/** Why the pool gave no connection. */
function notGiven(said: string): string {
  if (/pool is closed/i.test(said)) return 'the pool has been ended: end it after the leases'
  if (/no connections available|queue limit/i.test(said)) {
    return 'the pool had no connection: make it bigger, or hold connections for less time'
  }
  return 'the server cannot be reached: check that it runs, and the address'
}

/** Node reports a host with several addresses as one error without a text of its own. */
function saidBy(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(saidBy).join('; ')
  return error instanceof Error ? error.message : String(error)
}
