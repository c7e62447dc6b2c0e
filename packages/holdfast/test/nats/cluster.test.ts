// Three servers: what the death of each costs, and why a bucket with replicas is refused.
import { type KV, Kvm } from '@nats-io/kv'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLeases } from '../../src/index.js'
import { natsStore } from '../../src/stores/nats/index.js'
import { waitUntil } from '../redis/servers.js'
import { NatsServer } from './servers.js'

const TTL_MS = 3_000

describe('nats, three servers', () => {
  let servers: NatsServer[] = []
  const connections: NatsConnection[] = []
  beforeAll(async () => {
    servers = await NatsServer.cluster()
  })
  afterAll(async () => {
    for (const connection of connections) await connection.close().catch(() => {})
    await Promise.all(servers.map((server) => server.stop()))
  })

  async function kvm(of: readonly NatsServer[] = servers): Promise<Kvm> {
    const options = { reconnectTimeWait: 100, maxReconnectAttempts: -1, pingInterval: 500, maxPingOut: 2 }
    const connection = await connect({ ...options, servers: of.map(({ url }) => url) })
    connections.push(connection)
    return new Kvm(connection)
  }

  /** A bucket, once the cluster has agreed on who keeps it. */
  async function create(name: string, replicas: number): Promise<KV> {
    const all = await kvm()
    return await waitUntil('a bucket', () => all.create(name, { replicas }).catch(() => undefined))
  }

  /** The server that keeps the bucket. */
  async function keeperOf(bucket: KV): Promise<NatsServer> {
    const { streamInfo } = await bucket.status()
    const keeper = servers.find(({ port }) => `n${port}` === streamInfo.cluster?.leader)
    if (keeper === undefined) throw new Error('nobody keeps the bucket')
    return keeper
  }

  it('with three replicas the server tells several that they wrote over one revision: so such a bucket is refused (G1)', async () => {
    const bucket = await create('replicated', 3)
    const kvs: KV[] = []
    for (let i = 0; i < 12; i++) kvs.push(await (await kvm([servers[i % 3] as NatsServer])).open('replicated'))
    const winners = async (key: string, previousSeq: number) => {
      const outcomes = await Promise.all(kvs.map((kv) => kv.put(key, 'mine', { previousSeq }).catch(() => 0)))
      return outcomes.filter((seq) => seq > 0).length
    }
    let round = 0
    await waitUntil('two who were told yes', async () => {
      const key = `k${round++}`
      expect(await winners(key, 0)).toBeLessThan(2) // a creation is looked at again when it is applied
      return (await winners(key, (await bucket.get(key))?.revision ?? 0)) > 1
    })
    const ask = { key: 'k', claim: 'a', holder: 'h', ttlMs: TTL_MS }
    await expect(natsStore(bucket).acquire(ask)).rejects.toThrow(/has 3 replicas/)
  })

  it('C33, C45: the server that keeps the bucket is killed: nobody is granted, the holder stops in time, no token falls', async () => {
    const keeper = await keeperOf(await create('killed', 1))
    const others = servers.filter((server) => server !== keeper)
    const [holder, waiter] = [await kvm(others), await kvm(others)]
    const client = createLeases({ store: natsStore(await holder.open('killed')), ttlMs: TTL_MS, callTimeoutMs: 300 })
    const store = natsStore(await waiter.open('killed'))
    const ask = { key: 'k', claim: 'other', holder: 'h', ttlMs: TTL_MS }
    const lease = await client.acquire('k')
    expect(await store.acquire(ask)).toMatchObject({ is: 'held', token: lease.token })
    await keeper.kill()
    try {
      await expect(store.acquire(ask, { timeoutMs: 400 })).rejects.toMatchObject({ code: 'STORE_ERROR' })
      await waitUntil('the loss', () => lease.signal.aborted)
      expect(lease.signal.reason).toMatchObject({ reason: 'deadline' })
    } finally {
      await keeper.begin()
    }
    const next = await waitUntil('the next grant', async () => {
      const answer = await store.acquire(ask).catch(() => undefined)
      return answer?.is === 'granted' ? answer : undefined
    })
    expect(next.token).toBeGreaterThan(lease.token)
    await client.close({ drainMs: 0 }).catch(() => {})
  })

  it('two that campaign while servers are killed and come back are never leaders at once, nor after a later one (C38)', async () => {
    const keeper = await keeperOf(await create('campaign', 1))
    const others = servers.filter((server) => server !== keeper)
    const ended = new AbortController()
    const terms: { token: number; beganMs: number; endedMs: number }[] = []
    /** Leads as long as it is let, again and again. */
    const campaign = async (of: NatsServer[]) => {
      const kv = await (await kvm(of)).open('campaign')
      const client = createLeases({ store: natsStore(kv), ttlMs: TTL_MS, callTimeoutMs: 300 })
      while (!ended.signal.aborted) {
        const lease = await client.acquire('k', { waitMs: 1_000 }).catch(() => undefined)
        if (lease === undefined) continue
        const term = { token: lease.token, beganMs: performance.now(), endedMs: Number.POSITIVE_INFINITY }
        terms.push(term)
        const end = () => {
          term.endedMs = Math.min(term.endedMs, performance.now())
        }
        lease.signal.addEventListener('abort', end)
        const isLong = terms.length % 2 === 0
        await waitUntil('the end of a term', () => {
          const isOver = performance.now() > term.beganMs + (isLong ? 2 * TTL_MS : 200)
          return !lease.held || ended.signal.aborted || isOver
        })
        end()
        await lease.release()
      }
      await client.close({ drainMs: 0 }).catch(() => {})
    }
    const both = [campaign(others), campaign([keeper, ...others])]
    const grown = async (what: string) => {
      const before = terms.length
      await waitUntil(what, () => terms.length > before + 2)
    }
    await grown('terms')
    for (const server of [others[0] as NatsServer, keeper, keeper]) {
      await server.kill()
      await server.begin()
      await grown('terms after a restart')
    }
    ended.abort()
    await Promise.all(both)
    for (const [i, { token, beganMs }] of terms.entries()) {
      const before = terms[i - 1]
      if (before === undefined) continue
      expect(token).toBeGreaterThan(before.token)
      expect(beganMs).toBeGreaterThanOrEqual(before.endedMs)
    }
  }, 180_000)

  it('the others may die or hang: the lease goes on', async () => {
    const keeper = await keeperOf(await create('stays', 1))
    const [one, two] = servers.filter((server) => server !== keeper)
    const kv = await (await kvm([keeper])).open('stays')
    const client = createLeases({ store: natsStore(kv), ttlMs: TTL_MS })
    const lease = await client.acquire('k')
    await one?.kill()
    two?.signal('SIGSTOP')
    try {
      for (let i = 0; i < 3; i++) await lease.renew()
      expect(lease.held).toBe(true)
    } finally {
      two?.signal('SIGCONT')
      await one?.begin()
    }
    await lease.release()
    await client.close()
  })
})
