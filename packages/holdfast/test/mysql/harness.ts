// What the tests of the MySQL store share: a server, pools, stores on tables of their own, and claims.
import type { Pool, PoolOptions } from 'mysql2/promise'
import { afterAll, afterEach, beforeAll } from 'vitest'
import type { LeaseStore } from '../../src/store/contract.js'
import { type MysqlStore, type MysqlStoreOptions, mysqlStore } from '../../src/stores/mysql/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import { MysqlServer, type MysqlServerOptions } from './servers.js'

export const HOUR_MS = 3_600_000

let names = 0
/** A name that no other test of this process uses. */
export const fresh = (what = 'key') => `${what}_${++names}`

export const request = (key: string, claim: string, more: object = {}) => ({
  key,
  claim,
  holder: `holder of ${claim}`,
  ttlMs: HOUR_MS,
  ...more,
})

export const grantOf = (key: string, claim: string, token = 1) => ({ key, claim, token, holder: `holder of ${claim}` })

/** Acquires what has to be granted. Gives the token. */
export async function granted(store: LeaseStore, key: string, claim: string, more: object = {}): Promise<number> {
  const answer = await store.acquire(request(key, claim, more))
  if (answer.is !== 'granted') throw new Error(`not granted: ${JSON.stringify(answer)}`)
  return answer.token
}

/** Why a promise rejected. */
export const reasonOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    (value) => {
      throw new Error(`should have rejected, but gave ${JSON.stringify(value)}`)
    },
    (error) => error,
  )

/** A server for the tests of one `describe`, and what is opened on it for each; all is cleared away afterwards. */
export class Bench {
  #server: MysqlServer | undefined
  #closing: (() => unknown)[] = []
  #shared: Pool | undefined

  static here(options: MysqlServerOptions = {}): Bench {
    const bench = new Bench()
    beforeAll(async () => {
      bench.#server = await MysqlServer.start(options)
    })
    afterEach(() => bench.closeOpened())
    afterAll(async () => {
      await bench.closeOpened()
      await bench.#server?.stop()
    })
    return bench
  }

  get server(): MysqlServer {
    if (this.#server === undefined) throw new Error('the server has not been started')
    return this.#server
  }

  pool(options: PoolOptions = {}): Pool {
    const pool = this.server.pool(options)
    this.#closing.push(() => pool.end().catch(() => {})) // some of its connections have been cut
    return pool
  }

  /** A pool that all have who need none of their own. */
  get shared(): Pool {
    this.#shared ??= this.pool()
    return this.#shared
  }

  /** A store; tables are those of all tests of the bench unless named. */
  store(options: MysqlStoreOptions = {}, pool = this.shared): MysqlStore {
    const store = mysqlStore(pool, options)
    this.#closing.push(() => store.close())
    return store
  }

  async proxy(): Promise<TcpProxy> {
    const proxy = await tcpProxy({ port: this.server.port })
    this.#closing.push(() => proxy.close())
    return proxy
  }

  async closeOpened(): Promise<void> {
    const closing = this.#closing.reverse()
    this.#closing = []
    this.#shared = undefined
    await Promise.all(closing.map(async (close) => close()))
  }
}

/** A session of one's own that sits on the row of a key. */
export async function lockRow(pool: Pool, key: string, table = 'holdfast_lease'): Promise<{ letGo(): Promise<void> }> {
  const connection = await pool.getConnection()
  await connection.beginTransaction()
  await connection.query(`SELECT * FROM \`${table}\` WHERE lease_key = ? FOR UPDATE`, [Buffer.from(key)])
  return {
    async letGo() {
      await connection.rollback()
      connection.release()
    },
  }
}
