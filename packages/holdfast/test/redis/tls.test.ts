// Leases over TLS: through Sentinel and in a Cluster, with both drivers. The connection for wake-ups is a duplicate of the
// client, and has to speak TLS too.
import { Cluster, Redis } from 'ioredis'
import { createCluster, createSentinel } from 'redis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLeases } from '../../src/lease/leases.js'
import { type RedisClient, redisStore } from '../../src/stores/redis/index.js'
import type { Connected } from './clients.js'
import { fresh } from './harness.js'
import { waitUntil } from './servers.js'
import { Authority, type TlsServers, tlsCluster, tlsSentinels } from './tls-servers.js'

const host = '127.0.0.1'
let authority: Authority
beforeAll(async () => {
  authority = await Authority.make()
})
afterAll(() => authority?.remove())

const quiet = <Client extends { on(event: 'error', listener: () => void): unknown }>(client: Client): Client => {
  client.on('error', () => {})
  return client
}

type Connect = (ports: readonly number[], tls: { ca: Buffer }) => Promise<Connected>

const ioredisCluster: Connect = async (ports, tls) => {
  const client = quiet(
    new Cluster(
      ports.map((port) => ({ host, port })),
      { redisOptions: { tls }, dnsLookup: (address, callback) => callback(null, address) },
    ),
  )
  return { client, close: () => client.disconnect() }
}

const ioredisSentinel: Connect = async (ports, tls) => {
  const sentinels = ports.map((port) => ({ host, port }))
  const client = quiet(
    new Redis({ name: 'holdfast', sentinels, enableTLSForSentinelMode: true, tls, sentinelTLS: tls }),
  )
  return { client, close: () => client.disconnect() }
}

const nodeRedisCluster: Connect = async (ports, tls) => {
  const rootNodes = ports.map((port) => ({ socket: { host, port, tls: true as const, ...tls } }))
  const client = quiet(createCluster({ rootNodes, defaults: { socket: { tls: true, ...tls } } }))
  await client.connect()
  return { client: client as RedisClient, close: () => client.destroy() }
}

const nodeRedisSentinel: Connect = async (ports, tls) => {
  const options = { socket: { tls: true as const, ...tls } }
  const client = quiet(
    createSentinel({
      name: 'holdfast',
      sentinelRootNodes: ports.map((port) => ({ host, port })),
      nodeClientOptions: options,
      sentinelClientOptions: options,
    }),
  )
  await client.connect()
  return { client: client as unknown as RedisClient, close: () => client.destroy() }
}

describe.each([
  ['through Sentinel', () => tlsSentinels(authority), ioredisSentinel, nodeRedisSentinel],
  ['in a Cluster', () => tlsCluster(authority), ioredisCluster, nodeRedisCluster],
] as const)('%s', (_, start, ioredis, nodeRedis) => {
  let servers: TlsServers
  beforeAll(async () => {
    servers = await start()
  })
  afterAll(() => servers?.stop())

  it.each([
    ['ioredis', ioredis],
    ['node-redis', nodeRedis],
  ] as const)('acquire, renew, wait, be woken, release: %s', async (_name, connect) => {
    const { client, close } = await connect(servers.ports, authority.tls)
    const [one, two] = [1, 2].map(() => createLeases({ store: redisStore(client) }))
    if (one === undefined || two === undefined) throw new Error('two clients')
    const keys = Array.from({ length: 6 }, () => fresh()) // on each shard some
    for (const key of keys) {
      const lease = await one.acquire(key, { ttlMs: 60_000 })
      await lease.renew()
      const waiting = two.acquire(key, { waitMs: 50_000, retry: () => 40_000 }) // by its wake-up, not by asking
      const look = redisStore(client)
      await waitUntil('its place in the queue', async () => (await look.inspect(key))?.waiters.length === 1)
      await lease.release()
      const next = await waiting
      expect(next.token).toBeGreaterThan(lease.token)
      await next.release()
    }
    await Promise.all([one.close(), two.close()])
    await close()
  })
})
