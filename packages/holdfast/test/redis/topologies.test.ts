// What goes wrong with several servers: a fail-over during a hold, a slot that moves while its lease is held, a shard that is
// down. Cases of the field by number.
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLeases } from '../../src/lease/leases.js'
import type { LeaseStore } from '../../src/store/contract.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { slotOf } from '../../src/stores/redis/slot.js'
import { type ClientKind, type Connected, clientKind, clientKinds } from './clients.js'
import { fresh, granted, grantOf, HOUR_MS, request } from './harness.js'
import { cli, RedisCluster, RedisReplication, RedisServer, waitUntil } from './servers.js'

describe('in a Cluster', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await RedisCluster.start()
  })
  afterAll(() => cluster?.stop())

  describe.each(clientKinds)('$name', (kind) => {
    let connected: Connected
    let store: LeaseStore
    beforeAll(async () => {
      connected = await kind.cluster(cluster)
      store = redisStore(connected.client)
    })
    afterAll(async () => {
      await store?.close()
      await connected?.close()
    })

    it('C14: a slot that moves while its lease is held loses nothing: renewal, refusal, wake-up, release', async () => {
      const key = fresh()
      const waiter = redisStore(connected.client)
      const first = await granted(store, key, 'a')
      await cluster.moveSlot(slotOf(`holdfast:${key}`), async () => {
        // The key is on the other node already, which does not own the slot yet: ASK.
        expect(await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
      })
      expect(await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
      expect(await store.acquire(request(key, 'b', { queue: { pollMs: 60_000 } }))).toMatchObject({ because: 'held' })
      const leases = createLeases({ store: waiter })
      const waiting = leases.acquire(key, { waitMs: 20_000 })
      await store.withdraw(key, 'b')
      expect(await store.release(grantOf(key, 'a'))).toEqual({ is: 'released' })
      const lease = await waiting
      expect(lease.token).toBeGreaterThan(first)
      await lease.release()
      await leases.close()
    })

    it.each([
      ['no key', 0],
      ['half of its keys', 4],
      ['all of its keys', 100],
    ])('C14: a slot of which %s has moved yet: every verb works on every lease in it', async (_, moved) => {
      const prefix = `{${fresh()}}:`
      const together = redisStore(connected.client, { prefix })
      const keys = Array.from({ length: 8 }, () => fresh())
      const tokens = await Promise.all(keys.map((key) => granted(together, key, 'a', { holder: 'me' })))
      const all = keys.map((key) => ({ key, claim: 'a', ttlMs: HOUR_MS }))
      const verbs = async () => {
        expect((await together.renew(all)).map(({ is }) => is)).toEqual(all.map(() => 'renewed'))
        const again = await Promise.all(keys.map((key) => granted(together, key, 'a', { holder: 'me' })))
        expect(again).toEqual(tokens)
        for (const key of keys) {
          expect(await together.inspect(key)).toMatchObject({ claim: 'a' })
          expect(await together.acquire(request(key, 'b'))).toMatchObject({ because: 'held' })
        }
        await granted(together, fresh(), 'a') // of a key that is not there yet
        const first = keys[0] ?? ''
        tokens[0] = await granted(together, first, 'c', { replaces: 'a' })
        tokens[0] = await granted(together, first, 'a2', { replaces: 'c' })
        all[0] = { key: first, claim: 'a2', ttlMs: HOUR_MS }
        expect((await together.renew(all)).map(({ is }) => is)).toEqual(all.map(() => 'renewed'))
        const listed: string[] = []
        for await (const { key } of together.list()) listed.push(key)
        expect(listed).toEqual(expect.arrayContaining(keys))
        await together.withdraw(first, 'a2')
        expect(await together.release(grantOf(keys[1] ?? '', 'a'))).toEqual({ is: 'released' })
        await together.revoke(keys[2] ?? '', { force: true })
        const released = await Promise.all(keys.slice(3).map((key) => together.release(grantOf(key, 'a'))))
        expect(released.map(({ is }) => is)).toEqual(released.map(() => 'released'))
      }
      await cluster.moveSlot(slotOf(prefix), verbs, moved)
      const after = await Promise.all(keys.map((key) => granted(together, key, 'z', { holder: 'me' })))
      expect(after.every((token, i) => token > (tokens[i] ?? 0))).toBe(true)
    })

    it('C14: any name works, and what is asked for together goes to its own slot', async () => {
      const names = ['{', '}', '{}', '{a}b', '}{', '{{x}}y', 'a{b}c{d}', 'ä{ö}', ' ', '{ }']
      const keys = [...names, ...Array.from({ length: 200 }, () => fresh())].map((name) => `${fresh()}/${name}`)
      const tokens = await Promise.all(keys.map((key) => granted(store, key, `claim of ${key}`)))
      expect(tokens.every(Number.isSafeInteger)).toBe(true)
      const outcomes = await store.renew(keys.map((key) => ({ key, claim: `claim of ${key}`, ttlMs: HOUR_MS })))
      expect(outcomes.every(({ is }) => is === 'renewed')).toBe(true)
      const released = await Promise.all(keys.map((key) => store.release(grantOf(key, `claim of ${key}`))))
      expect(released.every(({ is }) => is === 'released')).toBe(true)
    })

    it('C32: SCRIPT FLUSH on one shard is not noticed', async () => {
      for (const port of cluster.ports) {
        await cli(port, 'script', 'flush')
        await Promise.all(Array.from({ length: 10 }, () => granted(store, fresh(), 'a')))
      }
    })
  })

  it('a prefix with a part in braces keeps all in one slot, where renewals share commands', async () => {
    const { client, close } = await clientKind('ioredis 6').cluster(cluster)
    const store = redisStore(client, { prefix: '{billing}:' })
    const keys = Array.from({ length: 256 }, () => fresh())
    await Promise.all(keys.map((key) => granted(store, key, 'a')))
    const { port } = await cluster.ownerOf(slotOf('{billing}:'))
    await cli(port, 'config', 'resetstat')
    await store.renew(keys.map((key) => ({ key, claim: 'a', ttlMs: 2 * HOUR_MS })))
    expect(await cli(port, 'info', 'commandstats')).toContain('cmdstat_evalsha:calls=2,')
    await store.close()
    await close()
  })

  it('a client of one node only is told that it talks to a Cluster', async () => {
    const key = fresh()
    const owner = await cluster.ownerOf(slotOf(`holdfast:${key}`))
    const client = new Redis({ port: cluster.ports.find((port) => port !== owner.port) ?? 0 })
    await expect(redisStore(client).acquire(request(key, 'a'))).rejects.toMatchObject({
      outcome: 'none',
      message: expect.stringContaining('this client talks to one node of a Cluster'),
    })
    client.disconnect()
  })
})

describe('a Cluster whose shards have replicas', () => {
  /** A lease that is held and waited for, in a shard whose master is killed then, and replaced. */
  async function takenOver(kind: ClientKind, ttlMs: number) {
    const cluster = await RedisCluster.start({ replicas: true })
    const { client, close } = await kind.cluster(cluster)
    const holds = createLeases({ store: redisStore(client) })
    const waits = createLeases({ store: redisStore(client) })
    const key = fresh()
    const full = `holdfast:${key}`
    const { node, replica } = await cluster.shardOf(slotOf(full))
    const lease = await holds.acquire(key, { ttlMs, renewEveryMs: 200 })
    const waiting = waits.acquire(key, { waitMs: 60_000 })
    await waitUntil('the record on the replica', async () => (await readOf(replica, 'exists', full)) === '1')
    await node.kill()
    await waitUntil('the fail-over', async () => /role:master/.test(await cli(replica.port, 'info', 'replication')))
    const end = async () => {
      for (const leases of [holds, waits]) await leases.close({ drainMs: 0 }).catch(() => {})
      await close()
      await cluster.stop()
    }
    return { lease, waiting, replica, full, waits, end }
  }

  /** As a replica of a Cluster answers it. */
  const readOf = async ({ port }: RedisServer, ...command: string[]) => {
    const client = new Redis({ port, readOnly: true })
    const answer = String(await client.call(...(command as [string, ...string[]])))
    client.disconnect()
    return answer
  }

  it.each(clientKinds.filter(({ name }) => name !== 'node-redis 5'))(
    'C33: one that takes over during a hold keeps its leases, and wakes who waits: $name',
    async (kind) => {
      const { lease, waiting, replica, full, end } = await takenOver(kind, 60_000)
      let before = Number.POSITIVE_INFINITY
      await waitUntil('a renewal on the new master', async () => {
        const left = Number(await cli(replica.port, 'pttl', full))
        const isRenewed = left > before
        before = left
        return isRenewed
      })
      expect(lease.held).toBe(true)
      await lease.release()
      const next = await waiting
      expect(next.token).toBeGreaterThan(lease.token)
      await next.release()
      await end()
    },
  )

  it('one that takes over is not found by node-redis 5: the holder is told at its deadline, others that nobody answers', async () => {
    const { lease, waiting, waits, end } = await takenOver(clientKind('node-redis 5'), 10_000)
    waiting.catch(() => {})
    await waitUntil('the loss', () => lease.signal.aborted)
    expect(lease.signal.reason).toMatchObject({ reason: 'deadline' })
    await expect(waits.tryAcquire(lease.key)).rejects.toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' })
    await end()
  })
})

describe('a Cluster with a shard down', () => {
  it('gives StoreError with outcome none for CLUSTERDOWN', async () => {
    const alone = await RedisServer.start('--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf')
    const client = new Redis({ port: alone.port })
    await expect(redisStore(client).acquire(request('a', 'a'))).rejects.toMatchObject({
      outcome: 'none',
      message: expect.stringContaining('CLUSTER INFO'),
    })
    client.disconnect()
    await alone.stop()
  })
})

describe('through Sentinel', () => {
  it.each(clientKinds)('C33: a fail-over during a hold keeps it, and waiters get in after it: $name', async (kind) => {
    const replication = await RedisReplication.start()
    const connected = await kind.sentinel(replication)
    const store = redisStore(connected.client)
    const leases = createLeases({ store })
    const key = fresh()
    const lease = await leases.acquire(key, { ttlMs: 60_000, renewEveryMs: 200 })
    const [primary, replica] = replication.servers
    await waitUntil(
      'the record on the replica',
      async () => (await cli(replica?.port ?? 0, 'exists', `holdfast:${key}`)) === '1',
    )
    await primary?.kill()
    await waitUntil('the fail-over', async () => (await replication.primary()) === replica?.port)
    await waitUntil('a renewal on the new primary', async () => {
      const record = await store.inspect(key).catch(() => null)
      return record !== null && record.remainingMs > 59_000
    })
    expect(lease.held).toBe(true)
    const waiting = leases.acquire(`${key}/other`, { waitMs: 20_000 })
    expect((await waiting).held).toBe(true)
    await (await waiting).release()
    await lease.release()
    await leases.close()
    await connected.close()
    await replication.stop()
  })

  it('with replicas, each grant and renewal waits for the one that there is, whatever the client', async () => {
    const replication = await RedisReplication.start()
    const [, replica] = replication.servers
    for (const kind of clientKinds) {
      const { client, close } = await kind.sentinel(replication)
      const store = redisStore(client, { replicas: 1, replicasTimeoutMs: 10_000 })
      const keys = Array.from({ length: 12 }, () => fresh())
      await Promise.all(keys.map((key) => granted(store, key, 'a')))
      for (const key of keys) expect(await cli(replica?.port ?? 0, 'exists', `holdfast:${key}`), kind.name).toBe('1')
      const renewals = await store.renew(keys.map((key) => ({ key, claim: 'a', ttlMs: HOUR_MS })))
      expect(renewals.every(({ is }) => is === 'renewed')).toBe(true)
      const impatient = redisStore(client, { replicas: 2, replicasTimeoutMs: 50 })
      await expect(impatient.acquire(request(fresh(), 'a')), kind.name).rejects.toMatchObject({
        outcome: 'unknown',
        message: expect.stringContaining('2 replicas were to confirm it within 50 ms, and 1 did'),
      })
      for (const key of keys) expect(await store.release(grantOf(key, 'a'))).toEqual({ is: 'released' })
      await close()
    }
    await replication.stop()
  })

  it('a promoted replica that lacks the last writes: tokens still rise, the holder is told', async () => {
    const primary = await RedisServer.start()
    const replica = await RedisServer.start('--replicaof', `127.0.0.1 ${primary.port}`)
    await waitUntil('the replica', async () =>
      (await cli(primary.port, 'info', 'replication')).includes('state=online'),
    )
    const client = new Redis({ port: primary.port })
    await cli(replica.port, 'replicaof', 'no', 'one') // from now on it hears nothing
    const token = await granted(redisStore(client), 'a', 'a')
    const promoted = new Redis({ port: replica.port })
    const after = redisStore(promoted)
    expect(await after.renew([{ key: 'a', claim: 'a', ttlMs: 1_000 }])).toEqual([{ is: 'lost', reason: 'expired' }])
    expect(await granted(after, 'a', 'b')).toBeGreaterThan(token)
    client.disconnect()
    promoted.disconnect()
    await Promise.all([primary.stop(), replica.stop()])
  })
})
