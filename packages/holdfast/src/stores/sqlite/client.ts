// The three synchronous drivers of SQLite, as far as they are called here: better-sqlite3, libsql and node:sqlite. No types
// of theirs are imported, so that nobody needs a driver that he does not use.
import { InvalidArgumentError } from '../../lease/errors.js'

/** What is bound to a statement. */
export type SqliteValue = null | number | string

/** A prepared statement. */
export interface SqliteStatement {
  run(...values: SqliteValue[]): { changes: number | bigint }
  get(...values: SqliteValue[]): unknown
  all(...values: SqliteValue[]): unknown[]
  /** better-sqlite3 and libsql: rows as arrays. */
  raw?(on?: boolean): unknown
  /** node:sqlite from 22.16: rows as arrays. */
  setReturnArrays?(on: boolean): void
}

/** A connection. */
export interface SqliteDatabase {
  prepare(sql: string): SqliteStatement
  exec(sql: string): unknown
  close(): unknown
  /** better-sqlite3 and libsql. */
  readonly inTransaction?: boolean
  readonly open?: unknown
  /** node:sqlite. */
  readonly isTransaction?: boolean
  readonly isOpen?: boolean
}

/**
 * The class of a driver: the default export of `better-sqlite3` or `libsql`, or `DatabaseSync` of `node:sqlite`.
 *
 * @example
 * ```ts
 * import Database from 'libsql'
 * const store = sqliteStore({ path: 'leases.db', Database })
 * ```
 */
export type SqliteDatabaseClass = new (path: string) => SqliteDatabase

const EXPECTED =
  'must be the class of a synchronous SQLite driver: the default export of better-sqlite3 or libsql, or DatabaseSync of node:sqlite'

/** Refuses what is not the class of one of the three drivers. */
export function checkDatabaseClass(Database: unknown): asserts Database is SqliteDatabaseClass {
  const prototype: unknown = typeof Database === 'function' ? Database.prototype : undefined
  if (hasMethod(prototype, 'prepare') && hasMethod(prototype, 'exec') && hasMethod(prototype, 'close')) return
  throw new InvalidArgumentError('Database', Database, EXPECTED)
}

/** Refuses drivers that look alike but answer later: they cannot do a step of the store in one go. */
export function checkSynchronous(db: SqliteDatabase, Database: unknown): void {
  const statement: unknown = db.prepare('SELECT 1 AS one')
  if (hasMethod(statement, 'run') && hasMethod(statement, 'all')) {
    const row = (statement as SqliteStatement).get()
    if (typeof row === 'object' && row !== null && 'one' in row) return
  }
  throw new InvalidArgumentError('Database', Database, EXPECTED)
}

const hasMethod = (value: unknown, name: string): boolean =>
  typeof value === 'object' && value !== null && typeof (value as Record<string, unknown>)[name] === 'function'

/** A row as the list of its columns, in the order of the SELECT. */
export type Cells = readonly unknown[]

/** A statement that reads: gives rows as lists. */
export interface Reader {
  first(...values: SqliteValue[]): Cells | undefined
  all(...values: SqliteValue[]): Cells[]
}

/** Prepares a statement that reads, in the mode that costs least. */
export function prepareReader(db: Pick<SqliteDatabase, 'prepare'>, sql: string): Reader {
  const statement = db.prepare(sql)
  statement.raw?.(true)
  statement.setReturnArrays?.(true)
  const cells = (row: unknown): Cells => (Array.isArray(row) ? row : Object.values(row as object))
  return {
    first(...values) {
      const row = statement.get(...values)
      return row === undefined || row === null ? undefined : cells(row)
    },
    all: (...values) => statement.all(...values).map(cells),
  }
}

/** Closes without a word: the connection is given up either way. */
export function closeQuietly(db: SqliteDatabase): void {
  try {
    db.close()
  } catch {
    // A connection that cannot be closed is left to the garbage collector.
  }
}

/** Undoes an open transaction, if SQLite has not done so already. */
export function rollbackQuietly(db: SqliteDatabase): void {
  try {
    db.exec('ROLLBACK')
  } catch {
    // After some errors SQLite has ended the transaction by itself.
  }
}
