// The application's own transaction, as fences and records of its own database use it: of pg, of postgres.js, or whatever wraps one.
import { InvalidArgumentError } from '../../lease/errors.js'

/** What runs a statement in the application's transaction: a client of pg, the `tx` of postgres.js, or whatever wraps one. */
export type PostgresTransaction =
  | { query(text: string, values: unknown[]): PromiseLike<{ rows: unknown[] }> }
  | { unsafe(text: string, values: never[]): PromiseLike<readonly unknown[]> }

export const outside = (option: string, value: unknown): InvalidArgumentError =>
  new InvalidArgumentError(
    option,
    value,
    'must be of a transaction that is open (begin), so that the check and your writes are one step: on a pool, or without a transaction, nothing was checked',
  )

export async function rowsOf(
  tx: PostgresTransaction,
  text: string,
  values: (string | number | boolean)[],
): Promise<readonly unknown[]> {
  if (typeof tx === 'object' || typeof tx === 'function') {
    if (tx !== null && 'query' in tx && typeof tx.query === 'function') return (await tx.query(text, values)).rows
    if (tx !== null && 'unsafe' in tx && typeof tx.unsafe === 'function') return tx.unsafe(text, values as never[])
  }
  throw new InvalidArgumentError(
    'tx',
    tx,
    "must be a client of pg inside a transaction, or the tx of postgres.js's sql.begin; others give statements of their own",
  )
}
