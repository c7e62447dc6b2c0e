// What the tests of a quorum on real masters share: each client reaches each master over a proxy of its own.
import { afterAll, beforeAll, expect } from 'vitest'
import { createLeases, type Grant, HoldfastError, type LeaseStore, systemClock } from '../../src/index.js'
import { type QuorumStoreOptions, quorumStore } from '../../src/stores/quorum/index.js'
import { type RedisFence, redisFence, redisStore } from '../../src/stores/redis/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import {
  believedAtOnce,
  type Grant as Granting,
  overwritten,
  type Term,
  tokensThatFell,
  type Written,
} from '../faults/checkers.js'
import { type Connected, clientKind } from '../redis/clients.js'
import { HOUR_MS, request } from '../redis/harness.js'
import { cli, pass, RedisServer } from '../redis/servers.js'
import { connectAll, Masters } from './masters.js'
import type { MakeQuorum } from './world.js'

/** One process's way to the quorum: a proxy and a store for each node. */
export interface Reach {
  readonly store: LeaseStore
  readonly nodes: readonly LeaseStore[]
  readonly proxies: readonly TcpProxy[]
}

/** Masters and what is opened on them, for the tests of one `describe`; all is cleared away afterwards. */
export class Quorums {
  #masters: Masters | undefined
  readonly #closing: (() => unknown)[] = []

  /** `count` masters for all tests of this `describe`. */
  static here(count: number): Quorums {
    const quorums = new Quorums()
    beforeAll(async () => {
      quorums.#masters = await Masters.start(count)
    })
    afterAll(async () => {
      for (const close of quorums.#closing.reverse()) await close()
      await quorums.#masters?.stop()
    })
    return quorums
  }

  get masters(): Masters {
    if (this.#masters === undefined) throw new Error('the masters have not been started')
    return this.#masters
  }

  /**
   * A quorum over all masters (or those of `ports`), each reached through a proxy. A node may take long, since on a busy machine
   * each does: a test that is about the time-out gives its own.
   */
  async reach(options: QuorumStoreOptions = {}, ports = this.masters.ports, make: MakeQuorum = quorumStore) {
    const proxies = await Promise.all(ports.map((port) => tcpProxy({ port })))
    const connected = await connectAll(
      clientKind('ioredis 6'),
      proxies.map(({ port }) => port),
    )
    const nodes = connected.map(({ client }) => redisStore(client))
    const store = make(nodes, { nodeTimeoutMs: 10_000, ...options })
    this.#closing.push(async () => {
      await store.close()
      await Promise.all(connected.map(({ close }) => close()))
      await Promise.all(proxies.map((proxy) => proxy.close()))
    })
    return { store, nodes, proxies } satisfies Reach
  }

  /** The masters' own stores, straight: what they say that they keep. */
  async straight(ports = this.masters.ports): Promise<LeaseStore[]> {
    const connected = await connectAll(clientKind('ioredis 6'), ports)
    this.#closing.push(() => Promise.all(connected.map(({ close }) => close())))
    return connected.map(({ client }) => redisStore(client))
  }
}

/** Two registers on a server of their own: one behind a fence, one that takes whatever comes. */
export class Registers {
  readonly #server: RedisServer
  readonly #connected: Connected
  readonly #fence: RedisFence

  private constructor(server: RedisServer, connected: Connected) {
    this.#server = server
    this.#connected = connected
    this.#fence = redisFence(connected.client)
  }

  static async start(): Promise<Registers> {
    const server = await RedisServer.start()
    const registers = new Registers(server, await clientKind('ioredis 6').standalone(server.port))
    await registers.#fence.install()
    return registers
  }

  /** Writes to both. The fence may refuse: then it throws, after the plain register was written. */
  async write(grant: Grant): Promise<void> {
    const line = `${grant.token} ${grant.holder}`
    await cli(this.#server.port, 'rpush', `plain of ${grant.key}`, line)
    const script = "return redis.call('RPUSH', KEYS[1], ARGV[1])"
    await this.#fence.run(grant, { script, keys: [`fenced of ${grant.key}`], args: [line] })
  }

  /** What was written, in order. */
  async written(key: string): Promise<Written[]> {
    const all: Written[] = []
    for (const register of ['plain', 'fenced']) {
      const lines = (await cli(this.#server.port, 'lrange', `${register} of ${key}`, '0', '-1')).split('\n')
      for (const line of lines.filter(Boolean)) {
        const [token = '', holder = ''] = line.split(/ (.*)/)
        all.push({ register, token: Number(token), holder })
      }
    }
    return all
  }

  async stop(): Promise<void> {
    await this.#connected.close()
    await this.#server.stop()
  }
}

/** What several processes did with one key, for the checkers. */
export interface Work {
  readonly terms: Term[]
  readonly grants: Granting[]
}

/** One process that takes the key again and again until the signal aborts, writes under it, and notes when it believed. */
export async function workOn(
  key: string,
  holder: string,
  store: LeaseStore,
  registers: Registers,
  work: Work,
  signal: AbortSignal,
  options: { ttlMs: number; holdMs: number },
): Promise<void> {
  const leases = createLeases({ store, closeStore: false, holder, ttlMs: options.ttlMs })
  const nowUs = () => systemClock.monoMs() * 1_000
  while (!signal.aborted) {
    const askedUs = nowUs()
    try {
      const lease = await leases.acquire(key, { waitMs: 2_000, signal })
      const { token } = lease
      work.grants.push({ granted: key, token, holder, askedUs, answeredUs: nowUs() })
      const fromUs = nowUs()
      await registers.write(lease.grant)
      const untilMs = systemClock.monoMs() + options.holdMs
      let untilUs = fromUs
      while (lease.held && systemClock.monoMs() < untilMs) {
        untilUs = nowUs()
        await pass(1)
      }
      work.terms.push({ term: key, token, holder, fromUs, untilUs })
      await lease.release()
    } catch (error) {
      if (!(error instanceof HoldfastError) && !signal.aborted) throw error
    }
  }
  await leases.close({ drainMs: 1_000 })
}

/** Nothing wrong in what was done: no two believed at once, tokens rose, the fenced register took no smaller one. */
export async function expectSound(key: string, { terms, grants }: Work, registers: Registers): Promise<void> {
  expect(believedAtOnce(terms)).toEqual([])
  expect(tokensThatFell(grants)).toEqual([])
  const written = await registers.written(key)
  for (const register of ['fenced', 'plain']) expect(overwritten(written, register), register).toEqual([])
}

/** Acquires what has to be granted. Gives the token. */
export async function granted(store: LeaseStore, key: string, claim: string, ttlMs = HOUR_MS): Promise<number> {
  const answer = await store.acquire(request(key, claim, { ttlMs }))
  if (answer.is !== 'granted') throw new Error(`not granted: ${JSON.stringify(answer)}`)
  return answer.token
}

/** The claims that the nodes keep for a key, by place. */
export const claimsOf = (nodes: readonly LeaseStore[], key: string): Promise<(string | undefined)[]> =>
  Promise.all(
    nodes.map(async (node) => {
      const record = await node.inspect(key)
      return record?.state === 'held' ? record.claim : undefined
    }),
  )
