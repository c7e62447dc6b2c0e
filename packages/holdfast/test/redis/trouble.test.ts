// Clients that cannot be used at the moment, users who may not do what is needed, and a server that must not be flooded while it
// is in trouble: what is said, and how often is asked (C33, G13).
import { Redis } from 'ioredis'
import { createClient, createCluster, createSentinel } from 'redis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LeaseEvent } from '../../src/lease/events.js'
import { createLeases } from '../../src/lease/leases.js'
import { exponential } from '../../src/lease/retry.js'
import { failure } from '../../src/stores/redis/failure.js'
import { type RedisClient, redisStore } from '../../src/stores/redis/index.js'
import { slotOf } from '../../src/stores/redis/slot.js'
import { clientKind, clientKinds } from './clients.js'
import { Bench, fresh, granted, grantOf, HOUR_MS, request } from './harness.js'
import { cli, pass, RedisCluster, RedisServer, waitUntil } from './servers.js'

const bench = Bench.here()
const on = (...command: string[]) => cli(bench.port, ...command)
const host = '127.0.0.1'
const none = (message: RegExp) => ({ outcome: 'none', message: expect.stringMatching(message) })
const quiet = <Client extends { on(event: 'error', listener: () => void): unknown }>(client: Client): Client => {
  client.on('error', () => {})
  return client
}

describe('a client that cannot be used at the moment', () => {
  it('is not ready, and keeps no queue: ioredis', async () => {
    const client = quiet(new Redis({ port: bench.port, enableOfflineQueue: false }))
    await expect(redisStore(client).acquire(request('a', 'a'))).rejects.toMatchObject(none(/wait until it is ready/))
    await waitUntil('the connection', () => client.status === 'ready')
    await granted(redisStore(client), fresh(), 'a')
    client.disconnect()
  })

  it('is not ready, and keeps no queue: node-redis', async () => {
    const client = quiet(createClient({ socket: { host, port: 1 }, disableOfflineQueue: true }))
    const connecting = client.connect().catch(() => {})
    await expect(redisStore(client).acquire(request('a', 'a'))).rejects.toMatchObject(none(/client is not connected/))
    client.destroy()
    await connecting
  })

  it.each([
    ['client', () => createClient({ socket: { host, port: 1 } }) as RedisClient],
    ['cluster', () => createCluster({ rootNodes: [{ socket: { host, port: 1 } }] }) as RedisClient],
    [
      'sentinel',
      () => createSentinel({ name: 'holdfast', sentinelRootNodes: [{ host, port: 1 }] }) as unknown as RedisClient,
    ],
  ])('was never connected: the %s of node-redis', async (_, make) => {
    const store = redisStore(make())
    const refused = none(/await client\.connect\(\)/)
    await expect(store.acquire(request('a', 'a'))).rejects.toMatchObject(refused)
    await expect(store.renew([{ key: 'a', claim: 'a', ttlMs: 1_000 }])).rejects.toMatchObject(refused)
    await expect(store.list()[Symbol.asyncIterator]().next()).rejects.toMatchObject(refused)
    const ending = new AbortController()
    const waiting = store.watch?.('a', { claim: 'a', signal: ending.signal })[Symbol.asyncIterator]().next()
    ending.abort()
    expect(await waiting).toMatchObject({ done: true })
    await store.close()
  })

  it('has too many commands waiting: node-redis', async () => {
    const client = quiet(createClient({ socket: { host, port: bench.port }, commandsQueueMaxLength: 8 }))
    await client.connect()
    const store = redisStore(client)
    await granted(store, fresh(), 'a')
    const answers = await Promise.allSettled(
      Array.from({ length: 30 }, () => store.acquire(request(fresh(), fresh('claim')))),
    )
    const refused = answers.filter(({ status }) => status === 'rejected')
    expect(refused.length).toBeGreaterThan(0)
    for (const { reason } of refused as PromiseRejectedResult[]) {
      expect(reason).toMatchObject(none(/raise commandsQueueMaxLength/))
    }
    client.destroy()
  })

  it('is a monitor: ioredis', async () => {
    const client = quiet(new Redis({ port: bench.port }))
    await client.ping() // its first commands, seen by the monitor before ioredis takes it for one, would confuse ioredis
    const monitor = quiet(await client.monitor())
    await expect(redisStore(monitor).acquire(request('a', 'a'))).rejects.toMatchObject(none(/client\.duplicate\(\)/))
    monitor.disconnect()
    client.disconnect()
  })

  it('subscribes to something else, in RESP2: node-redis', async () => {
    const client = quiet(createClient({ RESP: 2, socket: { host, port: bench.port } }))
    await client.connect()
    const store = redisStore(client as unknown as RedisClient)
    await granted(store, fresh(), 'a')
    await client.subscribe('something', () => {})
    await expect(store.acquire(request(fresh(), 'a'))).rejects.toMatchObject(none(/client\.duplicate\(\)/))
    client.destroy()
  })

  it('is in the middle of a transaction', async () => {
    const client = quiet(new Redis({ port: bench.port }))
    const store = redisStore(client)
    await granted(store, fresh(), 'a')
    await client.multi({ pipeline: false })
    const refused = { outcome: 'unknown', message: expect.stringMatching(/MULTI.*client\.duplicate\(\)/) }
    await expect(store.acquire(request('a', 'a'))).rejects.toMatchObject(refused)
    await expect(store.release(grantOf('a', 'a'))).rejects.toMatchObject(refused)
    await expect(store.withdraw('a', 'a')).rejects.toMatchObject(refused)
    await expect(store.renew([{ key: 'a', claim: 'a', ttlMs: 1_000 }])).rejects.toMatchObject(refused)
    await expect(store.inspect('a')).rejects.toMatchObject(refused)
    client.disconnect()
  })
})

describe('what does not pass ends a wait at once (StoreError.lasting)', () => {
  const endless = { waitMs: Number.POSITIVE_INFINITY }

  it.each(clientKinds)('a right that is missing: $name', async (kind) => {
    const user = fresh('user')
    await on('acl', 'setuser', user, 'reset', 'on', '>pw', '~*', '&*', '+@all', '-evalsha')
    const { client, close } = await kind.standalone(bench.port, { username: user, password: 'pw' })
    const leases = createLeases({ store: redisStore(client) })
    const refused = { lasting: true, message: expect.stringContaining('the user lacks rights') }
    await expect(leases.acquire(fresh(), endless)).rejects.toMatchObject(refused)
    await leases.close()
    await close()
  })

  it('a right that is missing for one of the keys that share a call: who waits for another gets in', async () => {
    const user = fresh('user')
    await on('acl', 'setuser', user, 'reset', 'on', '>pw', '~holdfast:mine*', '&*', '+@all')
    const { client, close } = await clientKind('ioredis 6').standalone(bench.port, { username: user, password: 'pw' })
    const leases = createLeases({ store: redisStore(client), prefix: '' })
    const [theirs, mine] = [leases.acquire('theirs', endless), leases.acquire('mine', endless)]
    await expect(theirs).rejects.toMatchObject({ lasting: true })
    await (await mine).release()
    await leases.close()
    await close()
  })

  it('a client that has not authenticated', async () => {
    const user = fresh('user')
    await on('acl', 'setuser', user, 'reset', 'on', '>pw', '~*', '&*', '+@all')
    const client = quiet(new Redis({ port: bench.port, username: user, password: 'pw' }))
    await client.ping()
    await on('acl', 'setuser', 'default', 'off')
    try {
      await client.call('reset')
      const leases = createLeases({ store: redisStore(client) })
      const refused = { lasting: true, message: expect.stringContaining('the client has not authenticated') }
      await expect(leases.acquire(fresh(), endless)).rejects.toMatchObject(refused)
      await leases.close()
    } finally {
      client.disconnect()
      const admin = quiet(new Redis({ port: bench.port, username: user, password: 'pw' }))
      await admin.acl('SETUSER', 'default', 'on')
      admin.disconnect()
    }
  })

  it('a value that Holdfast did not write', async () => {
    const key = fresh()
    await on('set', `holdfast:${key}`, 'somebody else')
    const leases = createLeases({ store: await bench.store() })
    await expect(leases.acquire(key, endless)).rejects.toMatchObject({ lasting: true, outcome: 'none' })
    await leases.close()
  })

  it.each([
    ['WRONGPASS invalid username-password pair or user is disabled.', true],
    ['DENIED Redis is running in protected mode', true],
    ['LOADING Redis is loading the dataset in memory', false],
    ['OOM command not allowed when used memory > maxmemory.', false],
    ['MOVED 3999 127.0.0.1:6381', false],
    ['Connection is closed.', false],
  ])('of what servers and clients say: %s', (said, lasting) => {
    expect(failure(new Error(said), 'an acquire')).toMatchObject({ lasting })
  })
})

describe('a user who may not do what is needed', () => {
  const noRight = none(/the ACL needs \+evalsha/)
  const withoutRight = async (kind: (typeof clientKinds)[number], ...rules: string[]) => {
    const user = fresh('user')
    await on('acl', 'setuser', user, 'reset', 'on', '>pw', '~*', '&*', '+@all', ...rules)
    const store = redisStore(
      bench.closing(await kind.standalone(bench.port, { username: user, password: 'pw' })).client,
    )
    return bench.closing(store)
  }

  it.each(clientKinds)('EVALSHA, TIME, a key, PUBLISH, SUBSCRIBE, a channel: $name', async (kind) => {
    for (const rule of ['-evalsha', '-time', '-get', '-set']) {
      const store = await withoutRight(kind, rule)
      await expect(store.acquire(request(fresh(), 'a')), rule).rejects.toMatchObject(noRight)
    }
    const elsewhere = await withoutRight(kind, 'resetkeys', '~other:*')
    await expect(elsewhere.acquire(request(fresh(), 'a'))).rejects.toMatchObject(noRight)
    for (const rules of [['-publish'], ['resetchannels', '&other:*']]) {
      const key = fresh()
      const store = await withoutRight(kind, ...rules)
      await granted(store, key, 'a')
      await store.acquire(request(key, 'b', { queue: { pollMs: 60_000 } }))
      await expect(store.release(grantOf(key, 'a')), rules[0]).rejects.toMatchObject(noRight)
      expect(await store.inspect(key)).toMatchObject({ state: 'held', claim: 'a' }) // nothing was done
    }
    for (const rules of [['-subscribe'], ['resetchannels', '&other:*']]) {
      const deaf = await withoutRight(kind, ...rules)
      const hints = deaf.watch(fresh(), { claim: 'b', signal: new AbortController().signal })[Symbol.asyncIterator]()
      await expect(hints.next(), rules[0]).rejects.toMatchObject(noRight)
    }
    for (const rule of ['-info', '-scan']) await granted(await withoutRight(kind, rule), fresh(), 'a') // needs neither
    const blind = await withoutRight(kind, '-scan')
    await expect(blind.list()[Symbol.asyncIterator]().next()).rejects.toMatchObject(noRight)
  })

  it.each(clientKinds)('the rights that the error names are enough for every verb: $name', async (kind) => {
    const refused = await withoutRight(kind, '-evalsha')
    const { message } = (await refused.acquire(request(fresh(), 'a')).catch((error) => error)) as Error
    const rights = /the ACL needs (.*), and/.exec(message)?.[1]?.split(' ') ?? []
    const store = await withoutRight(kind, '-@all', ...rights)
    const [lone, busy] = [fresh(), fresh()]
    for (const key of [lone, busy]) await granted(store, key, 'a')
    await store.acquire(request(busy, 'b', { queue: { pollMs: 60_000 } }))
    expect(await store.renew([{ key: lone, claim: 'a', ttlMs: 60_000 }])).toMatchObject([{ is: 'renewed' }])
    for (const key of [lone, busy]) expect(await store.release(grantOf(key, 'a'))).toEqual({ is: 'released' })
    await store.withdraw(busy, 'b')
    await granted(store, busy, 'c')
    expect(await store.revoke(busy, { force: true })).toMatchObject({ claim: 'c' })
    const listed: string[] = []
    for await (const { key } of store.list({ free: true })) listed.push(key)
    expect(listed).toEqual(expect.arrayContaining([lone, busy]))
    const hints = store.watch(lone, { claim: 'd', signal: new AbortController().signal })[Symbol.asyncIterator]()
    expect((await hints.next()).done).toBe(false)
    expect(await store.prune({ olderThanMs: 0 })).toBeGreaterThan(0)
  })

  it.each(clientKinds)('SUBSCRIBE: who waits is told by an event, and gets in by asking: $name', async (kind) => {
    const events: LeaseEvent[] = []
    const key = fresh()
    const holder = createLeases({ store: await bench.store({}, kind), closeStore: false })
    const deaf = createLeases({ store: await withoutRight(kind, '-subscribe'), onEvent: (event) => events.push(event) })
    const lease = await holder.acquire(key)
    const waiting = deaf.acquire(key, { waitMs: 20_000 })
    await waitUntil('the event', () => events.some(({ type }) => type === 'watch-failed'))
    expect(events.find(({ type }) => type === 'watch-failed')).toMatchObject({ key, cause: noRight })
    await lease.release()
    await (await waiting).release()
    await deaf.close()
    await holder.close()
  })
})

describe('nothing floods a server in trouble (C33)', () => {
  it('waiters spread their questions, further apart each time; without jitter they march in step', async () => {
    const server = await RedisServer.start()
    const client = quiet(new Redis({ port: server.port }))
    const leases = createLeases({ store: redisStore(client) })
    await (await leases.acquire('warm')).release()
    await cli(server.port, 'replicaof', host, '1')
    const looking = quiet(new Redis({ port: server.port }))
    await looking.ping() // its first commands, seen by the monitor before ioredis takes it for one, would confuse ioredis
    const monitor = quiet(await looking.monitor())
    const asked = new Map<string, number[]>()
    monitor.on('monitor', (time: string, [command = '', , count = '', ...rest]: string[]) => {
      if (command.toLowerCase() !== 'evalsha') return
      for (const key of rest.slice(0, Number(count))) asked.set(key, [...(asked.get(key) ?? []), Number(time) * 1_000])
    })
    const inStep = exponential({ minMs: 50, maxMs: 2_000, jitter: 0 })
    const waiting = (name: string, more: object) =>
      Array.from({ length: 20 }, (_, i) => leases.acquire(`${name}${i}`, { waitMs: 4_000, ...more }).catch(() => {}))
    await Promise.all([...waiting('spread', {}), ...waiting('naive', { retry: inStep })])
    monitor.disconnect()
    looking.disconnect()
    const timesOf = (name: string) => [...asked].flatMap(([key, times]) => (key.includes(name) ? [times] : []))
    expect([timesOf('spread').length, timesOf('naive').length]).toEqual([20, 20])
    for (const times of timesOf('spread')) {
      const gaps = times.slice(1).map((time, i) => time - (times[i] ?? 0))
      expect(gaps.length).toBeLessThan(14)
      expect(Math.max(...gaps)).toBeGreaterThan(250) // 50, 100, 200, 400, 800, each shortened by up to a half
    }
    // The first three come at once: the question, the look of the watch that begins then, and one question more since that look
    // fails. The eighth are due within 800 ms.
    const moments = (name: string) => new Set(timesOf(name).map((times) => Math.floor((times[7] ?? 0) / 25))).size
    expect(moments('spread')).toBeGreaterThan(7)
    expect(moments('naive')).toBeLessThan(5)
    await leases.close()
    client.disconnect()
    await server.stop()
  })

  it.each(clientKinds)(
    'an outage is one reconnection at a time, and one question for each waiter: $name',
    async (kind) => {
      const proxy = await bench.proxy()
      const { client, close } = await kind.standalone(proxy.port)
      const leases = createLeases({ store: redisStore(client) })
      await (await leases.acquire(fresh())).release()
      const held = await leases.acquire(fresh(), { ttlMs: 60_000 })
      const waiting = Array.from({ length: 50 }, () => leases.acquire(held.key, { waitMs: 30_000 }))
      const others = Array.from({ length: 50 }, () => fresh())
      proxy.refuse()
      proxy.cut()
      const before = proxy.counts.accepted
      const asking = others.map((key) => leases.acquire(key, { waitMs: 30_000 }))
      await pass(2_000)
      expect(proxy.counts.accepted - before).toBeLessThan(60)
      const sentBefore = proxy.counts.bytesToServer
      proxy.heal()
      for (const lease of await Promise.all(asking)) expect(lease.held).toBe(true)
      expect(proxy.counts.bytesToServer - sentBefore).toBeLessThan(50 * 20 * 500)
      expect(held.held).toBe(true)
      for (const lease of await Promise.all(asking)) await lease.release()
      await held.release()
      for (const one of waiting) await (await one).release()
      await leases.close()
      await close()
    },
  )
})

describe('replicas, in a Cluster', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await RedisCluster.start({ replicas: true })
  })
  afterAll(() => cluster?.stop())

  it.each(clientKinds)('a grant waits for the replica of its own shard: $name', async (kind) => {
    const { client, close } = await kind.cluster(cluster)
    const store = redisStore(client, { replicas: 1, replicasTimeoutMs: 10_000 })
    const keys = Array.from({ length: 12 }, () => fresh())
    await Promise.all(keys.map((key) => granted(store, key, 'a')))
    const renewals = await store.renew(keys.map((key) => ({ key, claim: 'a', ttlMs: HOUR_MS })))
    expect(renewals.every(({ is }) => is === 'renewed')).toBe(true)
    for (const replica of cluster.replicas) replica.freeze()
    const impatient = redisStore(client, { replicas: 1, replicasTimeoutMs: 100 })
    await expect(impatient.acquire(request(fresh(), 'a'))).rejects.toMatchObject({
      outcome: 'unknown',
      message: expect.stringContaining('1 replicas were to confirm it'),
    })
    for (const replica of cluster.replicas) replica.thaw()
    await close()
  })

  it.each(clientKinds)('C14: they confirm what is asked while a slot moves, and afterwards: $name', async (kind) => {
    const { client, close } = await kind.cluster(cluster)
    const prefix = `{${fresh()}}:`
    const store = redisStore(client, { prefix, replicas: 1, replicasTimeoutMs: 10_000 })
    const key = fresh()
    const token = await granted(store, key, 'a')
    const works = async () => {
      expect(await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
      expect(await granted(store, key, 'a')).toBe(token)
      await granted(store, fresh(), 'a')
    }
    await cluster.moveSlot(slotOf(prefix), works) // the key has moved, its slot has not: ASK
    await works() // MOVED
    await close()
  })
})
