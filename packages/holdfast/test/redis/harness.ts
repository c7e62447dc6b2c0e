// What the tests of the Redis store share: a server, clients of each kind, and claims.
import { afterAll, beforeAll } from 'vitest'
import type { LeaseStore } from '../../src/store/contract.js'
import { type RedisStoreOptions, redisStore } from '../../src/stores/redis/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import { type ClientKind, type Connected, clientKind } from './clients.js'
import { RedisServer } from './servers.js'

export const HOUR_MS = 3_600_000

let names = 0
/** A name that no other test of this process uses. */
export const fresh = (what = 'key') => `${what}-${++names}`

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

/** A server and what is opened on it, for the tests of one `describe`; all is cleared away afterwards. */
export class Bench {
  #server: RedisServer | undefined
  readonly #closing: (() => unknown)[] = []

  static here(...args: string[]): Bench {
    const bench = new Bench()
    beforeAll(async () => {
      bench.#server = await RedisServer.start(...args)
    })
    afterAll(() => bench.close())
    return bench
  }

  get server(): RedisServer {
    if (this.#server === undefined) throw new Error('the server has not been started')
    return this.#server
  }

  get port(): number {
    return this.server.port
  }

  /** Clears something away when the tests are over. */
  closing<T extends { close(): unknown }>(thing: T): T {
    this.#closing.push(() => thing.close())
    return thing
  }

  async client(kind: ClientKind = clientKind('ioredis 6'), port = this.port): Promise<Connected['client']> {
    return this.closing(await kind.standalone(port)).client
  }

  async store(options: RedisStoreOptions = {}, kind?: ClientKind): Promise<ReturnType<typeof redisStore>> {
    return this.closing(redisStore(await this.client(kind), options))
  }

  async proxy(): Promise<TcpProxy> {
    return this.closing(await tcpProxy({ port: this.port }))
  }

  async close(): Promise<void> {
    for (const close of this.#closing.reverse()) await close()
    await this.#server?.stop()
  }
}
