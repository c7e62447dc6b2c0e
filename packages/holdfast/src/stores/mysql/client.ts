// The user's client: a promise pool of mysql2, as far as it is called here. No types of theirs are imported, so that nobody needs a
// client that he does not use. What only looks like one is refused, with a word on what to give instead.
import { InvalidArgumentError } from '../../lease/errors.js'

/** A statement as mysql2 takes it; the options say how its answer is read, whatever those of the pool are. */
export interface MysqlStatement {
  sql: string
  values?: (string | number | null | Uint8Array)[]
  rowsAsArray?: boolean
  nestTables?: boolean
  typeCast?: boolean
}

/** Called back with what became of a statement. */
export type Answered = (error: unknown, answer: unknown) => void

/** A connection of the pool: only what is called. */
export interface MysqlConnection {
  query(statement: MysqlStatement, answered: Answered): unknown
  execute(statement: MysqlStatement, answered: Answered): unknown
  execute(sql: string, values: NonNullable<MysqlStatement['values']>, answered: Answered): unknown
  release(): void
  destroy(): void
}

/**
 * A pool of `mysql2/promise` 3: only what is called. That is the pool within it, which answers through callbacks: its promises would
 * make half of the work of a short statement.
 */
export interface MysqlPool {
  readonly pool: {
    getConnection(answered: (error: unknown, connection: unknown) => void): void
  }
}

const EXPECTED = "must be a pool of mysql2/promise: createPool of 'mysql2/promise'"

/** Refuses what is no promise pool of mysql2. */
export function checkPool(pool: unknown): asserts pool is MysqlPool {
  if (typeof pool !== 'object' || pool === null) throw new InvalidArgumentError('pool', pool, EXPECTED)
  const refuse = (why: string): never => {
    throw new InvalidArgumentError('pool', pool, `${EXPECTED}; ${why}`)
  }
  if (has(pool, 'promise')) refuse('this one answers through callbacks: give pool.promise(), or import mysql2/promise')
  if (has(pool, 'of', 'add')) refuse('this is a PoolCluster: give one pool, of the primary')
  if (has(pool, 'idleConnections', 'activeConnections')) refuse('this is a pool of the mariadb package: use mysql2')
  if (!has(pool, 'getConnection')) {
    if (has(pool, 'query')) {
      refuse('this is one connection: a transaction that the application opens on it would take the leases in')
    }
    refuse('this is something else')
  }
  const { pool: within } = pool as { pool?: unknown }
  if (typeof within !== 'object' || within === null || !has(within, 'getConnection')) {
    refuse('this one has no pool of mysql2 within it')
  }
}

/** A connection of the pool. */
export function connectionOf({ pool }: MysqlPool, given: (error: unknown, connection: MysqlConnection) => void): void {
  pool.getConnection(given as (error: unknown, connection: unknown) => void)
}

const has = (client: object, ...methods: string[]) =>
  methods.every((name) => typeof (client as Record<string, unknown>)[name] === 'function')

/** Rows as objects and types as they are, whatever the pool was told. */
export const PLAIN_ROWS = { rowsAsArray: false, nestTables: false, typeCast: true } as const

/** A text of the server as such, whether the driver gives text or bytes. */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  return value instanceof Uint8Array ? decoder.decode(value) : String(value ?? '')
}

const decoder = new TextDecoder()
