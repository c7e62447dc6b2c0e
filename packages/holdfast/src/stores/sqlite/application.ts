// The application's own connection, as fences and records of its own database use it: within its transaction, never beside it.
import { InvalidArgumentError } from '../../lease/errors.js'
import type { SqliteDatabase } from './client.js'

/** The application's connection, of any of the three drivers: only what is called. */
export type SqliteTransactionDatabase = Omit<SqliteDatabase, 'close'>

/** Quotes a name so that it is only that. */
export function identifier(option: string, name: unknown): string {
  if (typeof name !== 'string' || name === '' || name.includes('\0') || /^sqlite_/i.test(name)) {
    throw new InvalidArgumentError(
      option,
      name,
      'must be a name that SQLite accepts: not empty, not starting with sqlite_',
    )
  }
  return `"${name.replaceAll('"', '""')}"`
}

/** Asked of a closed connection, libsql would end the process: so that comes first. */
export function inTransaction(db: SqliteTransactionDatabase): boolean {
  if (db.open === false || db.isOpen === false) throw new InvalidArgumentError('db', db, 'must be an open connection')
  const answer = db.inTransaction ?? db.isTransaction
  if (answer !== undefined) return answer
  try {
    db.exec('BEGIN') // a node:sqlite that cannot be asked refuses this one inside a transaction
  } catch {
    return true
  }
  db.exec('ROLLBACK')
  return false
}
