// Fences for the application's own tables in MySQL or MariaDB: check and write are one step, since both stand in the application's
// transaction (G7). The row of the resource stays locked until that ends, so that admissions of one resource follow each other.
import { type AdmitOptions, checkGrant, resourceOf } from '../../fence/fence.js'
import { InvalidArgumentError, LeaseLostError, StaleTokenError, StoreError } from '../../lease/errors.js'
import type { Grant } from '../../store/contract.js'
import { textOf } from './client.js'
import { errnoOf } from './failure.js'
import { identifier, type MysqlNames, namesOf } from './names.js'
import { bytesOf } from './wire.js'

/** The application's connection, of `mysql2/promise`: only what is called. */
export interface MysqlFenceConnection {
  query(sql: string, values?: (string | number | null | Uint8Array)[]): Promise<[unknown, ...unknown[]]>
}

/** What `mysqlFence` takes. */
export interface MysqlFenceOptions {
  /** The database of the fence's table. Default: that of the connection. */
  readonly database?: string
  /** Where the fence keeps what it admitted. Default `holdfast_fence`. */
  readonly table?: string
  /** Where the leases are, for `whileHeld`. Default: as of `mysqlStore`. */
  readonly leases?: MysqlNames
}

/** A statement for a query builder, or any code that runs its SQL itself. */
export interface MysqlFenceStatement {
  readonly sql: string
  readonly params: readonly (string | number | Uint8Array)[]
}

/** The fence as a column of the user's own table. */
export interface MysqlFencePredicate {
  /** For the SET of an UPDATE. */
  readonly set: string
  /** For its WHERE: a comparison of numbers even in a column of text. */
  readonly where: string
  /** What to bind in both places: the token. */
  readonly value: number
  /**
   * Says what became of the UPDATE, given its affected rows and how to read the fence column of the row as it is now (undefined: no
   * such row). Throws StaleTokenError when the row has seen a bigger token (G7). `unchanged`: the row has this very token, and no value
   * changed, or another condition of the WHERE did not hold; `not matched`: another condition did not hold.
   */
  verify(
    affectedRows: number | bigint,
    read: () => Promise<number | bigint | string | null | undefined>,
  ): Promise<'written' | 'unchanged' | 'no such row' | 'not matched'>
}

/** A fence in an application's MySQL or MariaDB database. */
export interface MysqlFence {
  /** The text that creates the fence's table, if it is not there. */
  readonly schema: string
  /** Creates the fence's table. Not within a transaction: MySQL would commit it. */
  install(connection: MysqlFenceConnection): Promise<void>
  /**
   * Admits the grant's writes for the rest of this transaction, or throws StaleTokenError when a bigger token, or an equal one of
   * another claim, was admitted before (G7): let it roll the transaction back. Throws InvalidArgumentError outside a transaction,
   * for a pool, and for what is no grant.
   */
  admit(tx: MysqlFenceConnection, grant: Grant, options?: AdmitOptions): Promise<void>
  /** The same check as two statements: run both in the transaction of the writes, and give the rows of `read` to `verify`. */
  statements(
    grant: Grant,
    options?: AdmitOptions,
  ): { readonly raise: MysqlFenceStatement; readonly read: MysqlFenceStatement }
  /** The verdict on the rows of `read`: throws StaleTokenError when the grant was refused (G7). */
  verify(rows: readonly unknown[]): void
  /**
   * The check as parts of an UPDATE of the user's own row, which keeps the token in a column. One column holds no claim: of two
   * claims with one token both are admitted.
   */
  predicate(grant: Grant, options?: { readonly column?: string }): MysqlFencePredicate
  /** The text of a trigger that refuses any UPDATE of `table` that lowers its fence column, whoever sends it. */
  trigger(options: { readonly table: string; readonly column?: string }): string
  /**
   * Where the leases are in the same server: makes the commit depend on the lease. From here to the end of the transaction nobody
   * else is granted it; renewals and the release are not held up. Throws LeaseLostError when another has been granted it already,
   * and InvalidArgumentError outside a transaction. (That a term has run out, and nobody came, is for the lease's own deadline.)
   */
  whileHeld(tx: MysqlFenceConnection, grant: Grant): Promise<void>
}

/** A flag of the server's answer. */
const IN_TRANSACTION = 1

/**
 * A fence for the database that the application writes.
 *
 * @example
 * ```ts no-run
 * const fence = mysqlFence()
 * await leases.hold('reports/daily', async ({ grant }) => {
 *   await connection.beginTransaction()
 *   await fence.admit(connection, grant)
 *   await connection.query("UPDATE reports SET body = 'all is well' WHERE id = 'daily'")
 *   await connection.commit()
 * })
 * ```
 */
export function mysqlFence({ database, table = 'holdfast_fence', leases }: MysqlFenceOptions = {}): MysqlFence {
  const inDatabase = database === undefined ? '' : `${identifier('database', database)}.`
  const name = `${inDatabase}${identifier('table', table)}`
  const names = namesOf(leases)
  const schema = `CREATE TABLE IF NOT EXISTS ${name} (
  resource VARBINARY(512) NOT NULL,
  token BIGINT NOT NULL,
  claim VARBINARY(255) NOT NULL,
  admissions BIGINT NOT NULL DEFAULT 1,
  PRIMARY KEY (resource)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`

  // (resource, token, claim). Each admission changes the row, so that 2 affected rows are one, whether the connection counts the rows
  // that changed or those that were found. 1 may be a new row, or a refusal: then the row itself says.
  const raiseText = `INSERT INTO ${name} (resource, token, claim) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE
  admissions = admissions + (VALUES(token) > token OR (VALUES(token) = token AND VALUES(claim) = claim)),
  claim = IF(VALUES(token) > token, VALUES(claim), claim), token = GREATEST(token, VALUES(token))`

  // (token, token, claim, resource) → resource, admitted, asked, ok
  const readText = `SELECT resource, CAST(token AS CHAR) AS admitted, CAST(? AS CHAR) AS asked, (token = ? AND claim = ?) AS ok
  FROM ${name} WHERE resource = ? FOR UPDATE`

  // (key, token): locks the entry of the index that a change of hands replaces, and not the row, which a renewal writes.
  const heldText = `SELECT token INTO @holdfast_token FROM ${names.leases} FORCE INDEX (by_token)
  WHERE lease_key = ? AND token = ? LOCK IN SHARE MODE`

  function statements(grant: Grant, options?: AdmitOptions) {
    checkGrant(grant)
    const { token } = grant
    const [resource, claim] = [bytesOf(resourceOf(grant, options)), bytesOf(grant.claim)]
    return {
      raise: { sql: raiseText, params: [resource, token, claim] },
      read: { sql: readText, params: [token, token, claim, resource] },
    }
  }

  return {
    schema,
    statements,
    verify,

    async install(connection) {
      await connection.query(schema)
    },

    async admit(tx, grant, options) {
      const { raise, read } = statements(grant, options)
      const header = await run(tx, raise)
      checkInTransaction(tx, header)
      if (header.affectedRows === 2) return
      const [rows] = await tx.query(read.sql, [...read.params])
      verify(rows as unknown[])
    },

    predicate(grant, { column = 'fence' } = {}) {
      checkGrant(grant)
      const quoted = identifier('column', column)
      const { key, token } = grant
      return {
        set: `${quoted} = ?`,
        where: `(${quoted} IS NULL OR CAST(${quoted} AS SIGNED) <= ?)`,
        value: token,
        async verify(affectedRows, read) {
          if (Number(affectedRows) > 0) return 'written'
          const seen = await read()
          if (seen === undefined) return 'no such row'
          if (seen === null || Number(seen) < token) return 'not matched'
          if (Number(seen) > token) throw new StaleTokenError(key, token, Number(seen))
          return 'unchanged'
        },
      }
    },

    trigger({ table: guarded, column = 'fence' }) {
      const [on, fence] = [identifier('table', guarded), identifier('column', column)]
      const triggerName = identifier('table', `${guarded}_holdfast_fence`)
      return `CREATE TRIGGER ${triggerName} BEFORE UPDATE ON ${on} FOR EACH ROW
BEGIN
  IF OLD.${fence} IS NOT NULL AND (NEW.${fence} IS NULL OR CAST(NEW.${fence} AS SIGNED) < CAST(OLD.${fence} AS SIGNED)) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stale token: this row has been written under a bigger one';
  END IF;
END`
    },

    async whileHeld(tx, grant) {
      checkGrant(grant)
      const header = await run(tx, { sql: heldText, params: [bytesOf(grant.key), grant.token] })
      checkInTransaction(tx, header)
      if (header.affectedRows !== 1) throw new LeaseLostError(grant.key, grant.token, 'taken')
    },
  }

  async function run(tx: MysqlFenceConnection, { sql, params }: MysqlFenceStatement): Promise<Header> {
    checkConnection(tx)
    try {
      const [header] = await tx.query(sql, [...params])
      return header as Header
    } catch (error) {
      if (errnoOf(error) !== 1146) throw error
      throw new StoreError(
        'the table of the fence, or of the leases, is missing: run fence.install(connection) once at the start, outside of a transaction; for whileHeld give the option leases',
        { outcome: 'none', lasting: true, cause: error },
      )
    }
  }
}

interface Header {
  readonly affectedRows: number
  readonly serverStatus?: number
}

function verify(rows: readonly unknown[]): void {
  const row = Array.isArray(rows) && rows.length === 1 ? (rows[0] as unknown) : undefined
  const cells = Array.isArray(row)
    ? row
    : ['resource', 'admitted', 'asked', 'ok'].map((column) => (row as Record<string, unknown> | undefined)?.[column])
  const [resource, admitted, asked, ok] = cells
  if (resource === undefined || ok === undefined) {
    throw new InvalidArgumentError('rows', rows, 'must be the one row that the read of fence.statements returned')
  }
  if (Number(textOf(ok)) === 1) return
  throw new StaleTokenError(textOf(resource), Number(textOf(asked)), Number(textOf(admitted)))
}

const EXPECTED =
  'must be a connection of mysql2/promise on which a transaction has begun, so that the check and your writes are one step'

function checkConnection(tx: unknown): void {
  const methods = typeof tx === 'object' && tx !== null ? (tx as Record<string, unknown>) : {}
  const isPool = typeof methods.getConnection === 'function'
  const hasCallbacks = typeof methods.promise === 'function'
  if (typeof methods.query !== 'function' || isPool || hasCallbacks) throw new InvalidArgumentError('tx', tx, EXPECTED)
}

function checkInTransaction(tx: unknown, { serverStatus }: Header): void {
  if (serverStatus === undefined || (serverStatus & IN_TRANSACTION) !== 0) return
  throw new InvalidArgumentError('tx', tx, EXPECTED)
}
