// What the tests of the Postgres store share: a server, clients of each kind, and claims.
import type pg from 'pg'
import { afterAll, beforeAll } from 'vitest'
import type { LeaseStore } from '../../src/store/contract.js'
import { type PostgresClient, type PostgresStoreOptions, postgresStore } from '../../src/stores/postgres/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import { pgPool } from './clients.js'
import { PostgresServer, type ServerOptions } from './servers.js'

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

/** What a promise is rejected with; undefined when it is not. */
export const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

/** A server and what is opened on it, for the tests of one `describe`; all is cleared away afterwards. */
export class Bench {
  #server: PostgresServer | undefined
  readonly #closing: (() => unknown)[] = []

  static here(options: ServerOptions = {}): Bench {
    const bench = new Bench()
    beforeAll(async () => {
      bench.#server = await PostgresServer.start(options)
    })
    afterAll(() => bench.close())
    return bench
  }

  get server(): PostgresServer {
    if (this.#server === undefined) throw new Error('the server has not been started')
    return this.#server
  }

  /** Clears something away when the tests are over. */
  closing<T extends { close(): unknown }>(thing: T): T {
    this.#closing.push(() => thing.close())
    return thing
  }

  pool(options: pg.PoolConfig = {}, url = this.server.url): pg.Pool {
    const pool = pgPool(url, options)
    this.#closing.push(() => pool.end())
    return pool
  }

  /** A connection of its own. */
  async session(): Promise<pg.PoolClient> {
    const session = await this.pool({ max: 1 }).connect()
    session.on('error', () => {})
    this.#closing.push(() => session.release(true))
    return session
  }

  store(options: PostgresStoreOptions = {}, client: PostgresClient = this.pool()): ReturnType<typeof postgresStore> {
    return this.closing(postgresStore(client, options))
  }

  async proxy(): Promise<TcpProxy> {
    return this.closing(await tcpProxy({ port: this.server.port }))
  }

  /** The address of the server by way of a proxy. */
  by(proxy: Pick<TcpProxy, 'port'>): string {
    return this.server.url.replace(`:${this.server.port}`, `:${proxy.port}`)
  }

  async close(): Promise<void> {
    for (const close of this.#closing.reverse()) await close()
    await this.#server?.stop()
  }
}
