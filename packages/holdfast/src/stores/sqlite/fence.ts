// Fences for the application's own SQLite database: check and write are one step, since both stand in the application's
// transaction (G7). The drivers are synchronous and so is `admit`; an async body would commit at its first `await`, and a
// check outside a transaction would protect nothing: it throws.
import { type AdmitOptions, checkGrant, resourceOf } from '../../fence/fence.js'
import { InvalidArgumentError, StaleTokenError } from '../../lease/errors.js'
import type { Grant } from '../../store/contract.js'
import { identifier, inTransaction, type SqliteTransactionDatabase } from './application.js'
import type { SqliteStatement } from './client.js'

/** The application's connection, of any of the three drivers: only what is called. */
export type SqliteFenceDatabase = SqliteTransactionDatabase

/** What `sqliteFence` takes. */
export interface SqliteFenceOptions {
  /** Where the fence keeps what it admitted. Default `holdfast_fence`. */
  readonly table?: string
}

/** A statement for a query builder, or any code that runs its SQL itself. */
export interface SqliteFenceStatement {
  readonly sql: string
  readonly params: readonly (string | number)[]
}

/** The fence as a column of the user's own table. */
export interface SqliteFencePredicate {
  /** For the SET of an UPDATE: `"fence" = ?`. */
  readonly set: string
  /** For its WHERE: `("fence" IS NULL OR CAST("fence" AS INTEGER) <= ?)`, a comparison of numbers even in a column of text. */
  readonly where: string
  /** What to bind in both places: the token. */
  readonly value: number
  /**
   * Says what became of the UPDATE, given how many rows it changed and how to read the fence column of the row (undefined: there
   * is no such row). Throws StaleTokenError when the row has seen a bigger token (G7); `not matched`: another condition of the
   * WHERE did not hold.
   */
  verify(
    changes: number | bigint,
    read: () => number | bigint | null | undefined,
  ): 'written' | 'no such row' | 'not matched'
}

/** A fence in an application's SQLite database. */
export interface SqliteFence {
  /** The text that creates the fence's table, if it is not there. */
  readonly schema: string
  /** Creates the fence's table. `admit` does so too, at its first use. */
  install(db: SqliteFenceDatabase): void
  /**
   * Admits the grant's writes for the rest of this transaction, or throws StaleTokenError when a bigger token, or an equal one
   * of another claim, was admitted before (G7): let it roll the transaction back. Throws InvalidArgumentError outside a
   * transaction, and for what is no grant.
   */
  admit(db: SqliteFenceDatabase, grant: Grant, options?: AdmitOptions): void
  /** The same check as a statement: run it in the transaction of the writes, and give its rows to `verify`. */
  statement(grant: Grant, options?: AdmitOptions): SqliteFenceStatement
  /** The verdict on the rows of `statement`: throws StaleTokenError when the grant was refused (G7). */
  verify(rows: readonly unknown[]): void
  /**
   * The check as parts of an UPDATE of the user's own row, which keeps the token in a column. One column holds no claim: of two
   * claims with one token both are admitted.
   */
  predicate(grant: Grant, options?: { readonly column?: string }): SqliteFencePredicate
  /** The text of a trigger that refuses any UPDATE of `table` that lowers its fence column, whoever sends it. */
  trigger(options: { readonly table: string; readonly column?: string }): string
}

/**
 * A fence for the database that the application writes.
 *
 * @example
 * ```ts
 * const fence = sqliteFence()
 * await leases.hold('reports/daily', ({ grant }) => {
 *   const write = db.transaction(() => {
 *     fence.admit(db, grant)
 *     db.prepare("UPDATE reports SET body = 'all is well' WHERE id = 'daily'").run()
 *   })
 *   write.immediate()
 * })
 * ```
 */
export function sqliteFence({ table = 'holdfast_fence' }: SqliteFenceOptions = {}): SqliteFence {
  const name = identifier('table', table)
  const schema = `CREATE TABLE IF NOT EXISTS ${name} (
  resource TEXT NOT NULL COLLATE BINARY PRIMARY KEY,
  token INTEGER NOT NULL,
  claim TEXT NOT NULL
) WITHOUT ROWID, STRICT`

  // (resource, token, claim): changes a row if the grant is admitted.
  const admitText = `INSERT INTO ${name} (resource, token, claim) VALUES (?, ?, ?)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token, claim = excluded.claim
WHERE excluded.token > token OR (excluded.token = token AND excluded.claim = claim)`

  // (resource, token, claim, token, token, claim) → resource, admitted, asked, ok: a row in any case.
  const statementText = `INSERT INTO ${name} (resource, token, claim) VALUES (?, ?, ?)
ON CONFLICT (resource) DO UPDATE SET token = max(token, excluded.token),
  claim = CASE WHEN excluded.token > token THEN excluded.claim ELSE claim END
RETURNING resource, token AS admitted, ? AS asked, token = ? AND claim = ? AS ok`

  const statements = new WeakMap<SqliteFenceDatabase, SqliteStatement>()

  function prepared(db: SqliteFenceDatabase): SqliteStatement {
    const known = statements.get(db)
    if (known !== undefined) return known
    const statement = db.prepare(admitText)
    statements.set(db, statement)
    return statement
  }

  /** The table is made at the first use, and again when the transaction that made it was rolled back. */
  function raise(db: SqliteFenceDatabase, resource: string, { token, claim }: Grant): boolean {
    try {
      return Number(prepared(db).run(resource, token, claim).changes) > 0
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('no such table')) throw error
      db.exec(schema)
      return Number(prepared(db).run(resource, token, claim).changes) > 0
    }
  }

  return {
    schema,

    install(db) {
      db.exec(schema)
    },

    admit(db, grant, options) {
      checkGrant(grant)
      const resource = resourceOf(grant, options)
      if (!inTransaction(db)) {
        throw new InvalidArgumentError(
          'db',
          db,
          'must be inside a transaction, so that the check and your writes are one step (and a body without await: the transaction of a synchronous driver ends at the first)',
        )
      }
      if (raise(db, resource, grant)) return
      const row = db.prepare(`SELECT token FROM ${name} WHERE resource = ?`).get(resource) as
        | { token: number }
        | undefined
      throw new StaleTokenError(resource, grant.token, row === undefined ? undefined : Number(row.token))
    },

    statement(grant, options) {
      checkGrant(grant)
      const { token, claim } = grant
      return { sql: statementText, params: [resourceOf(grant, options), token, claim, token, token, claim] }
    },

    verify(rows) {
      const row = Array.isArray(rows) && rows.length === 1 ? (rows[0] as unknown) : undefined
      if (typeof row !== 'object' || row === null) {
        throw new InvalidArgumentError('rows', rows, 'must be the one row that fence.statement returned')
      }
      const [resource, admitted, asked, ok] = Array.isArray(row)
        ? row
        : ['resource', 'admitted', 'asked', 'ok'].map((column) => (row as Record<string, unknown>)[column])
      if (typeof resource !== 'string' || ok === undefined) {
        throw new InvalidArgumentError('rows', rows, 'must be the one row that fence.statement returned')
      }
      if (Number(ok) !== 1) throw new StaleTokenError(resource, Number(asked), Number(admitted))
    },

    predicate(grant, { column = 'fence' } = {}) {
      checkGrant(grant)
      const quoted = identifier('column', column)
      const { key, token } = grant
      return {
        set: `${quoted} = ?`,
        where: `(${quoted} IS NULL OR CAST(${quoted} AS INTEGER) <= ?)`,
        value: token,
        verify(changes, read) {
          if (Number(changes) > 0) return 'written'
          const seen = read()
          if (seen === undefined) return 'no such row'
          if (seen !== null && seen > token) throw new StaleTokenError(key, token, Number(seen))
          return 'not matched'
        },
      }
    },

    trigger({ table: guarded, column = 'fence' }) {
      const [on, fence] = [identifier('table', guarded), identifier('column', column)]
      const triggerName = identifier('table', `holdfast_fence_of_${guarded}`)
      return `CREATE TRIGGER IF NOT EXISTS ${triggerName} BEFORE UPDATE ON ${on}
WHEN OLD.${fence} IS NOT NULL AND (NEW.${fence} IS NULL OR CAST(NEW.${fence} AS INTEGER) < CAST(OLD.${fence} AS INTEGER))
BEGIN
  SELECT RAISE(ABORT, 'stale token: this row has been written under a bigger one');
END`
    },
  }
}
