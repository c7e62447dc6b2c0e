// What people write in Postgres instead of a store of leases, with the habits that the cases of failures tell of. Each test of such a
// case runs against one of these as well, where it must fail.
import type pg from 'pg'

/** A row that says until when, as found in many code bases: a name of fixed length, and the holder's name as the claim. */
export class NaiveRowLock {
  readonly #pool: pg.Pool

  constructor(pool: pg.Pool) {
    this.#pool = pool
  }

  static async install(pool: pg.Pool): Promise<void> {
    await pool.query('create table naive_lock (name char(64) primary key, holder text, until_at timestamptz)')
  }

  /** Whether it was granted. Who holds it by the same name has it again. */
  async acquire(name: string, holder: string, ttlMs: number): Promise<boolean> {
    const { rowCount } = await this.#pool.query(
      `insert into naive_lock as l values ($1, $2, now() + $3 * interval '1 ms') on conflict (name) do update
       set holder = excluded.holder, until_at = excluded.until_at where l.until_at <= now() or l.holder = excluded.holder`,
      [name, holder, ttlMs],
    )
    return rowCount === 1
  }

  async release(name: string, holder: string): Promise<boolean> {
    const { rowCount } = await this.#pool.query('delete from naive_lock where name = $1 and holder = $2', [
      name,
      holder,
    ])
    return rowCount === 1
  }
}

/** Advisory locks through a pool: the lock belongs to whatever session the pool gave, under 32 bits of the name. */
export class NaiveSessionLock {
  readonly #pool: pg.Pool

  constructor(pool: pg.Pool) {
    this.#pool = pool
  }

  /** Whether it was granted; with `withinMs` it waits that long for it. */
  async acquire(name: string, withinMs?: number): Promise<boolean> {
    if (withinMs === undefined) {
      const { rows } = await this.#pool.query('select pg_try_advisory_lock(hashtext($1)) as ok', [name])
      return rows[0].ok
    }
    const late = new Promise<false>((resolve) => setTimeout(resolve, withinMs, false))
    return Promise.race([late, this.#pool.query('select pg_advisory_lock(hashtext($1))', [name]).then(() => true)])
  }

  async release(name: string): Promise<boolean> {
    const { rows } = await this.#pool.query('select pg_advisory_unlock(hashtext($1)) as ok', [name])
    return rows[0].ok
  }
}
