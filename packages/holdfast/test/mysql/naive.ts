// What people write in MySQL instead of a store of leases, with the habits that the cases of failures tell of. Each test of such a case
// runs against one of these as well, where it must fail.
import type { Pool, ResultSetHeader, RowDataPacket } from 'mysql2/promise'

/** A row that says until when, as found in many code bases: the client's clock or the session's, text as key, row counts as verdict. */
export class NaiveRowLock {
  readonly #pool: Pool
  readonly #nowMs: (() => number) | undefined

  /** `nowMs`: the client's own clock decides; else NOW() of the session. */
  constructor(pool: Pool, nowMs?: () => number) {
    this.#pool = pool
    this.#nowMs = nowMs
  }

  static async install(pool: Pool): Promise<void> {
    await pool.query(`CREATE TABLE IF NOT EXISTS naive_lock (name VARCHAR(190) CHARACTER SET utf8mb4 COLLATE
      utf8mb4_general_ci PRIMARY KEY, owner VARCHAR(64), until_at DATETIME, token BIGINT NOT NULL DEFAULT 0)`)
  }

  #now(): string {
    return this.#nowMs === undefined ? 'NOW()' : `FROM_UNIXTIME(${this.#nowMs() / 1000})`
  }

  /** The token, or undefined. */
  async acquire(name: string, owner: string, ttlS: number): Promise<number | undefined> {
    await this.#pool.query('INSERT IGNORE INTO naive_lock (name) VALUES (?)', [name])
    return this.take(name, owner, ttlS)
  }

  /** The same for a row that is there. */
  async take(name: string, owner: string, ttlS: number): Promise<number | undefined> {
    const [{ affectedRows }] = await this.#pool.query<ResultSetHeader>(
      `UPDATE naive_lock SET owner = ?, until_at = ${this.#now()} + INTERVAL ? SECOND, token = token + 1
       WHERE name = ? AND (owner IS NULL OR until_at <= ${this.#now()})`,
      [owner, ttlS, name],
    )
    if (affectedRows !== 1) return undefined
    const [[row]] = await this.#pool.query<RowDataPacket[]>('SELECT token FROM naive_lock WHERE name = ?', [name])
    return Number(row?.token)
  }

  async renew(name: string, owner: string, ttlS: number): Promise<boolean> {
    const [{ affectedRows }] = await this.#pool.query<ResultSetHeader>(
      `UPDATE naive_lock SET until_at = ${this.#now()} + INTERVAL ? SECOND WHERE name = ? AND owner = ?`,
      [ttlS, name, owner],
    )
    return affectedRows === 1
  }
}

/** As taught for decades: in a transaction, look, insert if missing, update. */
export async function naiveTransaction(pool: Pool, name: string, owner: string): Promise<void> {
  const connection = await pool.getConnection()
  try {
    await connection.beginTransaction()
    const [rows] = await connection.query<RowDataPacket[]>('SELECT owner FROM naive_lock WHERE name = ? FOR UPDATE', [
      name,
    ])
    if (rows.length === 0) await connection.query('INSERT INTO naive_lock (name, owner) VALUES (?, ?)', [name, owner])
    else await connection.query('UPDATE naive_lock SET owner = ?, token = token + 1 WHERE name = ?', [owner, name])
    await connection.query('DELETE FROM naive_lock WHERE name = ?', [name])
    await connection.commit()
  } catch (error) {
    await connection.rollback()
    throw error
  } finally {
    connection.release()
  }
}

/** GET_LOCK through a pool: the lock belongs to whatever session the pool gave. */
export class NaiveSessionLock {
  readonly #pool: Pool
  held = false

  constructor(pool: Pool) {
    this.#pool = pool
  }

  async acquire(name: string, waitS = 0): Promise<boolean> {
    const [[row]] = await this.#pool.query<RowDataPacket[]>('SELECT GET_LOCK(?, ?) AS ok', [name, waitS])
    this.held = row?.ok === 1
    return this.held
  }

  async release(name: string): Promise<boolean> {
    const [[row]] = await this.#pool.query<RowDataPacket[]>('SELECT RELEASE_LOCK(?) AS ok', [name])
    this.held = false
    return row?.ok === 1
  }
}
