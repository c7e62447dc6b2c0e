// What a failed statement means for a caller: a StoreError that says whether anything was done, and what to do (G13). A server that
// reports an error has undone the statement; one that is being shut down, or a connection that broke, leaves it open.
import { HoldfastError, StoreError } from '../../lease/errors.js'

const STANDBY = 'the server is a standby or read-only: connect to the primary (target_session_attrs=read-write)'

/** What stands in the way of our tables. */
export const NOT_OURS = 'a table of this name is there that is not of Holdfast: give another schema or table'

const MISSING =
  'tables or functions are missing: let the store make them, or run the SQL of postgresSchema(), for records that of postgresRecordsSchema()'

/** What the server's error codes call for, by code or by class. */
const ADVICE: readonly (readonly [string, string])[] = [
  [
    '42501',
    "the role lacks rights: it needs usage on the schema, select, insert, update and delete on the tables, and execute on the functions; or create on the schema (and, if the schema is to be made, on the database) to make them, once, as the SQL of postgresSchema() does. A table's owner has them all",
  ],
  ['25006', STANDBY],
  ['0A000', STANDBY], // what a standby says to a transaction that wants to write
  ['28', 'the server does not let this user in: check user, password and pg_hba.conf'],
  ['3D000', 'the database does not exist'],
  ['53300', 'the server has too many connections: use a smaller pool, put PgBouncer between, or raise max_connections'],
  ['53100', "the server's disk is full"],
  ['57P03', 'the server is starting or stopping: try again'],
  ['57014', 'the statement was cancelled, by statement_timeout or by somebody: nothing was done'],
  ['40', 'others changed the same rows again and again: try again'],
  ['55P03', 'another transaction has locked the row of this key: see pg_locks for who'],
  ['22021', "the database's encoding cannot carry this name: use UTF8"],
  ['22P05', "the database's encoding cannot carry this name: use UTF8"],
  ['42883', MISSING],
  ['42P01', MISSING],
  ['42703', NOT_OURS],
  ['3F000', MISSING],
]

/**
 * What does not pass by itself: a login that is refused, a database, schema, table or right that is missing, a table that is not ours,
 * a name that the encoding cannot carry. A standby is none of these: it may be promoted.
 */
const LASTING = /^(28|3D000|3F000|42501|42883|42P01|42703|22021|22P05)/

/**
 * Codes after which it is open whether the statement was committed: the session was ended, or the server is in trouble.
 * Connection exceptions (08) also stand for what a proxy says of a server that it lost.
 */
const UNKNOWN = /^(08|57P0[1245]|58|XX|F0)/

/** The server's error code (SQLSTATE), if it is one of its errors. Also of the error of which a StoreError came. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  const { code, cause } = error as { code?: unknown; cause?: unknown }
  if (error instanceof HoldfastError) return codeOf(cause)
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}

/** Whether a statement on many keys may have failed because of one of them: its data, or that another is just making its row. */
export const blamesOne = (error: StoreError): boolean => /^(22|23|54|P0|55P03)/.test(codeOf(error) ?? '')

/** Errors of the clients that come before anything is sent. */
const NOT_SENT =
  /is not queryable|Cannot use a pool after calling end|timeout exceeded when trying to connect|CONNECTION_ENDED|CONNECT_TIMEOUT|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENOENT/

/** The error as a caller gets it. `sent`: whether the statement may have been on its way. */
export function failure(error: unknown, what: string, sent: boolean): HoldfastError {
  if (error instanceof HoldfastError) return error
  const said = saidBy(error)
  const code = codeOf(error)
  const clientCode = String((error as { code?: unknown } | null)?.code ?? '')
  if (!sent || NOT_SENT.test(said) || NOT_SENT.test(clientCode)) {
    const advice = adviceOn(code) ?? 'the server cannot be reached: check that it runs, and the address'
    return new StoreError(`${what} was not sent: ${advice} (${said})`, {
      outcome: 'none',
      lasting: isLasting(code),
      cause: error,
    })
  }
  if (code !== undefined && !UNKNOWN.test(code)) {
    const advice = adviceOn(code)
    return new StoreError(`Postgres refused ${what}: ${advice === undefined ? said : `${advice} (${said})`}`, {
      outcome: 'none',
      lasting: isLasting(code),
      cause: error,
    })
  }
  return new StoreError(`Postgres did not answer ${what}; whether it was applied is unknown (${said})`, {
    outcome: 'unknown',
    cause: error,
  })
}

const isLasting = (code = '') => LASTING.test(code)

const adviceOn = (code = '') => ADVICE.find(([begins]) => code.startsWith(begins))?.[1]

/** Node reports a host with several addresses as one error without a text of its own. */
function saidBy(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(saidBy).join('; ')
  return error instanceof Error ? error.message : String(error)
}
