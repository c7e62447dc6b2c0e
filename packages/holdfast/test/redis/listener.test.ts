// The connection for wake-ups, of every kind of client, on one server, in a Cluster and through Sentinel, behind proxies of its own:
// it is cut, it dies without a word, it is kept while it works. What is lost with it is asked for again (C12).
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RedisClient, redisStore } from '../../src/stores/redis/index.js'
import { VirtualClock } from '../../src/testing/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import { type ClientKind, clientKind, clientKinds } from './clients.js'
import { Bench, fresh, granted, grantOf, request } from './harness.js'
import { cli, RedisCluster, RedisReplication, waitUntil } from './servers.js'

interface Way {
  readonly client: RedisClient
  /** What the connections for wake-ups go through. */
  readonly proxies: readonly TcpProxy[]
  /** How many messages came that way. */
  readonly heard: { count: number }
  close(): Promise<void>
}

/** A store that listens through proxies, and who watches it. */
class Listening {
  readonly clock: VirtualClock | undefined
  readonly store: ReturnType<typeof redisStore>
  hints = 0
  readonly #way: Way
  readonly #ending = new AbortController()
  readonly #watching: Promise<void>[] = []

  constructor(way: Way, clock?: VirtualClock) {
    this.#way = way
    this.clock = clock
    this.store = redisStore(way.client, clock === undefined ? {} : { clock })
  }

  each(fault: (proxy: TcpProxy) => void): void {
    for (const proxy of this.#way.proxies) fault(proxy)
  }

  /** The sum of a count over all proxies. */
  count(what: 'accepted' | 'open'): number {
    return this.#way.proxies.reduce((sum, { counts }) => sum + counts[what], 0)
  }

  get heard(): number {
    return this.#way.heard.count
  }

  /** A key that `a` holds and `b` waits for, which has had its first hint. */
  async waitedFor(): Promise<string> {
    const key = fresh()
    await granted(this.store, key, 'a')
    await this.store.acquire(request(key, 'b', { queue: { pollMs: 60_000 } }))
    this.watch(key, 'b')
    const before = this.hints
    await waitUntil('the first hint', () => this.hints > before)
    return key
  }

  watch(key: string, claim: string): void {
    const watch = async () => {
      for await (const _ of this.store.watch(key, { claim, signal: this.#ending.signal })) this.hints++
    }
    this.#watching.push(watch())
  }

  /** Waits for something, while the store's own time goes on. */
  async comes(what: string, condition: () => boolean): Promise<void> {
    await waitUntil(what, async () => {
      await this.clock?.advance(250)
      return condition()
    })
  }

  leave(): void {
    this.#ending.abort()
  }

  async end(): Promise<void> {
    this.leave()
    await Promise.all(this.#watching)
    await this.store.close()
    await this.#way.close()
  }
}

const bench = Bench.here()
let cluster: RedisCluster
let replication: RedisReplication
beforeAll(async () => {
  cluster = await RedisCluster.start()
  replication = await RedisReplication.start()
})
afterAll(async () => {
  await cluster?.stop()
  await replication?.stop()
})

const topologies = ['on one server', 'in a Cluster', 'through Sentinel'] as const

/** The ports of all servers, and a client of them. */
async function reach(kind: ClientKind, topology: (typeof topologies)[number], sentinels = replication) {
  if (topology === 'in a Cluster') return { ports: cluster.ports, ...(await kind.cluster(cluster)) }
  if (topology === 'on one server') return { ports: [bench.port], ...(await kind.standalone(bench.port)) }
  return { ports: sentinels.servers.map(({ port }) => port), ...(await kind.sentinel(sentinels)) }
}

async function wayOf(
  kindName: string,
  topology: (typeof topologies)[number],
  sentinels?: RedisReplication,
): Promise<Way> {
  const kind = clientKind(kindName)
  const { client, close, ports } = await reach(kind, topology, sentinels)
  const proxies = await Promise.all(ports.map((port) => tcpProxy({ port })))
  const places = new Map(ports.map((port, i) => [port, proxies[i]?.port ?? 0]))
  const heard = { count: 0 }
  const way = topology === 'on one server' ? (proxies[0]?.port ?? 0) : places
  kind.listenThrough(client, way, () => heard.count++)
  return {
    client,
    proxies,
    heard,
    async close() {
      await close()
      for (const proxy of proxies) await proxy.close()
    },
  }
}

const everyWay = clientKinds.flatMap(({ name }) => topologies.map((topology) => [name, topology] as const))

describe.each(everyWay)('%s, %s: the connection for wake-ups', (kind, topology) => {
  const listening = async (clock?: VirtualClock) => new Listening(await wayOf(kind, topology), clock)

  it('that is cut comes back, subscribes again and looks again', async () => {
    const here = await listening(new VirtualClock())
    const key = await here.waitedFor()
    here.each((proxy) => {
      proxy.refuse()
      proxy.cut()
    })
    await here.store.release(grantOf(key, 'a')) // nobody hears this
    here.each((proxy) => proxy.heal())
    const before = here.hints
    await here.comes('a hint after the reconnection', () => here.hints > before)
    await granted(here.store, key, 'b')
    await here.store.acquire(request(key, 'c', { queue: { pollMs: 60_000 } }))
    here.watch(key, 'c')
    const then = here.hints
    await here.store.release(grantOf(key, 'b'))
    await here.comes('a hint by the new subscription', () => here.hints > then)
    await here.end()
  })

  it('that dies without a word is found out and replaced', async () => {
    const here = await listening(new VirtualClock())
    const key = await here.waitedFor()
    const before = here.count('accepted')
    here.each((proxy) => proxy.halfOpen('server'))
    await here.store.release(grantOf(key, 'a')) // nobody hears this
    const hints = here.hints
    await here.comes('another connection', () => here.count('accepted') > before)
    await here.comes('a hint by the new connection', () => here.hints > hints)
    await here.end()
  })

  it('that works is put to the test and kept, and closed when nobody waits any more', async () => {
    const clock = new VirtualClock()
    const here = await listening(clock)
    await here.waitedFor()
    const accepted = here.count('accepted')
    for (let probe = 0; probe < 3; probe++) {
      const before = here.heard
      await clock.advance(2_500) // no time for an answer goes by in between, so not all at once
      await clock.advance(2_500)
      await waitUntil('the answer to a probe', () => here.heard > before)
    }
    expect(here.count('accepted')).toBe(accepted)
    here.leave()
    await clock.advance(60_000)
    await waitUntil('the end of the connection', () => here.count('open') === 0)
    await here.end()
  })

  it('is not opened while nobody waits', async () => {
    const here = await listening()
    const key = fresh()
    await granted(here.store, key, 'a')
    await here.store.release(grantOf(key, 'a'))
    expect(here.count('accepted')).toBe(0)
    await here.end()
  })
})

const ioredisWays = everyWay.filter(([kind, topology]) => kind.startsWith('ioredis') && topology !== 'through Sentinel')

describe.each(ioredisWays)('%s, %s: a client whose commands have a time-out', (kind, topology) => {
  it('has a connection for wake-ups that takes its time, and is kept', async () => {
    const way = await wayOf(kind, topology)
    const options = (way.client as unknown as { options: Record<string, unknown> }).options
    if (topology === 'on one server') options.commandTimeout = 700
    else Object.assign(options, { redisOptions: { commandTimeout: 700 }, slotsRefreshTimeout: 20_000 })
    const here = new Listening(way)
    here.each((proxy) => proxy.slow(1_000, 'toClient'))
    const key = await here.waitedFor() // had the subscription a time-out, there would be no first hint
    const accepted = here.count('accepted')
    const before = here.hints
    await here.store.release(grantOf(key, 'a'))
    await here.comes('a hint', () => here.hints > before)
    expect(here.count('accepted')).toBe(accepted)
    await here.end()
  })
})

describe.each(clientKinds)('$name: the connection for wake-ups, through Sentinel', ({ name }) => {
  it('follows a fail-over, and every waiter looks again', async () => {
    const failing = await RedisReplication.start()
    const clock = new VirtualClock()
    const here = new Listening(await wayOf(name, 'through Sentinel', failing), clock)
    /** So little of the store's own time goes by that no probe can find it out. */
    const comes = (what: string, condition: () => boolean) =>
      waitUntil(what, async () => {
        await clock.advance(2)
        return condition()
      })
    const startMs = clock.monoMs()
    const key = await here.waitedFor()
    const [primary, replica] = failing.servers
    await waitUntil(
      'the record on the replica',
      async () => (await cli(replica?.port ?? 0, 'exists', `holdfast:${key}`)) === '1',
    )
    const before = here.hints
    await primary?.kill()
    await comes('a hint after the fail-over', () => here.hints > before)
    const then = here.hints
    await waitUntil('the release', () => here.store.release(grantOf(key, 'a')).catch(() => undefined))
    await comes('a hint from the new primary', () => here.hints > then)
    expect(clock.monoMs() - startMs).toBeLessThan(5_000)
    await here.end()
    await failing.stop()
  })
})

describe('a wake-up', () => {
  const bench = Bench.here()

  it('that overtakes the answer which put its claim in the queue is not lost (C12)', async () => {
    const proxy = await bench.proxy()
    const straight = bench.port
    const client = (await bench.client(clientKind('ioredis 6'), proxy.port)) as unknown as Redis
    client.duplicate = () => {
      const own = new Redis({ port: straight, autoResubscribe: false })
      own.on('error', () => {})
      return own
    }
    const store = bench.closing(redisStore(client))
    const other = await bench.store()
    const key = fresh()
    const ending = new AbortController()
    const hinted = (claim: string) => store.watch(key, { claim, signal: ending.signal })[Symbol.asyncIterator]().next()
    await granted(other, key, 'a')
    await store.acquire(request(key, 'b', { queue: { pollMs: 60_000 } }))
    await hinted('b') // the channel is open from now on
    await store.withdraw(key, 'b')

    proxy.hang('toClient')
    const refused = store.acquire(request(key, 'c', { queue: { pollMs: 60_000 } }))
    await waitUntil('the place in the queue', async () => (await other.inspect(key))?.waiters.length === 1)
    await other.release(grantOf(key, 'a'))
    const listener = new Redis({ port: straight })
    await listener.publish(`holdfast:${key}`, '?') // what was published before this has been delivered
    listener.disconnect()
    proxy.heal()
    expect(await refused).toMatchObject({ is: 'held' })
    await hinted('c')
    ending.abort()
  })
})
