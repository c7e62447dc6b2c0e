// What the Redis store does beyond the conformance suite: what it costs, what stays behind, and what bad input gets.
import { Cluster, Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createClient, createClientPool } from 'redis'
import { describe, expect, it } from 'vitest'
import { InvalidArgumentError, StoreError } from '../../src/lease/errors.js'
import { createLeases } from '../../src/lease/leases.js'
import { type RedisClient, redisStore } from '../../src/stores/redis/index.js'
import { slotOf, tagOf } from '../../src/stores/redis/slot.js'
import { clientKinds } from './clients.js'
import { Bench, fresh, granted, grantOf, HOUR_MS, request } from './harness.js'
import { cli, RedisServer, waitUntil } from './servers.js'

const bench = Bench.here()
const on = (...command: string[]) => cli(bench.port, ...command)

/** How often the server ran each command since the statistics were reset. */
async function commands(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const [, name = '', calls] of (await on('info', 'commandstats')).matchAll(/cmdstat_([a-z|]+):calls=(\d+)/g)) {
    if (!['info', 'config|resetstat', 'ping', 'command|docs'].includes(name)) counts[name] = Number(calls)
  }
  return counts
}

describe('what it costs', () => {
  it('a lease is two commands; its queue, its withdrawals and its wake-ups cost nothing while there are none', async () => {
    const store = await bench.store()
    await granted(store, fresh(), 'warm')
    await store.release(grantOf(fresh(), 'warm'))
    await on('config', 'resetstat')
    const key = fresh()
    await granted(store, key, 'a', { queue: { pollMs: 1_000 } })
    await store.release(grantOf(key, 'a'))
    expect(await commands()).toEqual({ evalsha: 2, get: 2, set: 1, setrange: 1, time: 2 })
  })

  it('a lease changes hands between processes by one command: the turn is told with its token (ADR 0025)', async () => {
    const stores = [await bench.store(), await bench.store()]
    const [one, other] = stores.map((store) => createLeases({ store, closeStore: false }))
    if (one === undefined || other === undefined) throw new Error('two clients')
    let commandsMin = Number.POSITIVE_INFINITY
    let held = await one.acquire(fresh())
    // On a busy machine a wake-up may come so late that the waiter had better ask: once is enough.
    for (let n = 0; n < 20 && commandsMin > 1; n++) {
      const next = (n % 2 === 0 ? other : one).acquire(held.key)
      await waitUntil('the next in line', async () => ((await stores[0]?.inspect(held.key))?.waiters.length ?? 0) > 0)
      await on('config', 'resetstat')
      await held.release()
      const before = held.token
      held = await next
      expect(held.token).toBeGreaterThan(before)
      commandsMin = Math.min(commandsMin, (await commands()).evalsha ?? 0)
    }
    expect(commandsMin).toBe(1)
    await held.release()
  })

  it('who was told a turn passes it on behind a PING in the same packet, so that the next is written to first', async () => {
    const stores = [await bench.store(), await bench.store()]
    const [one, other] = stores.map((store) => createLeases({ store, closeStore: false }))
    if (one === undefined || other === undefined) throw new Error('two clients')
    let pings = 0
    let held = await one.acquire(fresh())
    for (let n = 0; n < 20 && pings === 0; n++) {
      const next = (n % 2 === 0 ? other : one).acquire(held.key)
      await waitUntil('the next in line', async () => ((await stores[0]?.inspect(held.key))?.waiters.length ?? 0) > 0)
      await on('config', 'resetstat')
      await held.release()
      pings = Number(/cmdstat_ping:calls=(\d+)/.exec(await on('info', 'commandstats'))?.[1] ?? 0)
      // The first was granted by an answer: it has not waited, and probably nobody else does.
      if (n === 0) expect(pings).toBe(0)
      held = await next
    }
    expect(pings).toBe(1)
    await held.release()
  })

  it('what is asked for in one turn shares a command, up to 32 of those that a caller waits for', async () => {
    const store = await bench.store()
    await granted(store, fresh(), 'warm')
    await store.release(grantOf(fresh(), 'warm'))
    const keys = Array.from({ length: 64 }, () => fresh())
    await on('config', 'resetstat')
    const claimOf = (key: string) => `claim of ${key}`
    await Promise.all(keys.map((key) => granted(store, key, claimOf(key), { holder: 'this process' })))
    await Promise.all(keys.map((key) => store.release(grantOf(key, claimOf(key)))))
    expect((await commands()).evalsha).toBe(4)
  })

  it('each keeps its own holder, and only those of one holder share a command', async () => {
    const store = await bench.store()
    await granted(store, fresh(), 'warm')
    const keys = Array.from({ length: 20 }, () => fresh())
    await on('config', 'resetstat')
    const holderOf = (n: number) => (n % 2 === 0 ? 'an even one' : 'an odd one')
    await Promise.all(keys.map((key, n) => granted(store, key, 'a', { holder: holderOf(n) })))
    expect((await commands()).evalsha).toBe(2)
    const records = await Promise.all(keys.map((key) => store.inspect(key)))
    expect(records.map((record) => record?.holder)).toEqual(keys.map((_, n) => holderOf(n)))
  })

  it('clients of one process that share a store show each its own holder', async () => {
    const store = await bench.store()
    const names = ['first', 'second', 'third']
    const clients = names.map((holder) => createLeases({ store, holder, closeStore: false }))
    const keys = names.map(() => fresh())
    const leases = await Promise.all(clients.map((client, n) => client.acquire(keys[n] ?? '')))
    expect(await Promise.all(keys.map(async (key) => (await store.inspect(key))?.holder))).toEqual(names)
    expect(leases.map(({ grant }) => grant.holder)).toEqual(names)
    await Promise.all(leases.map((lease) => lease.release()))
    await Promise.all(clients.map((client) => client.close()))
  })

  it('renewals take one command for 128, whoever asks', async () => {
    const store = await bench.store()
    const keys = Array.from({ length: 1_000 }, () => fresh())
    await Promise.all(keys.map((key) => granted(store, key, 'a')))
    await store.renew([{ key: keys[0] ?? '', claim: 'a', ttlMs: HOUR_MS }])
    await on('config', 'resetstat')
    const outcomes = await store.renew(keys.map((key) => ({ key, claim: 'a', ttlMs: HOUR_MS })))
    expect(outcomes.every(({ is }) => is === 'renewed')).toBe(true)
    expect((await commands()).evalsha).toBe(8)
  })

  it('what differs in ttl or holder keeps its own, asked for in one turn', async () => {
    const store = await bench.store()
    const keys = [1, 2, 3].map((n) => [fresh(), n] as const)
    await Promise.all(keys.map(([key, n]) => granted(store, key, 'a', { holder: `h${n}`, ttlMs: n * 100_000 })))
    const left = async () => Promise.all(keys.map(([key]) => store.inspect(key)))
    expect((await left()).map((record) => [record?.holder, Math.ceil((record?.remainingMs ?? 0) / 50_000)])).toEqual([
      ['h1', 2],
      ['h2', 4],
      ['h3', 6],
    ])
    await store.renew(keys.map(([key, n]) => ({ key, claim: 'a', ttlMs: n * 1_000_000 })))
    expect((await left()).map((record) => Math.ceil((record?.remainingMs ?? 0) / 500_000))).toEqual([2, 4, 6])
  })

  it('one that is refused in a shared command leaves the others alone', async () => {
    const store = await bench.store()
    const [held, foreign, free] = [fresh(), fresh(), fresh()]
    await granted(store, held, 'a')
    await on('lpush', `holdfast:${foreign}`, 'x')
    const answers = await Promise.allSettled([held, foreign, free].map((key) => store.acquire(request(key, 'b'))))
    expect(answers[0]).toMatchObject({ value: { is: 'held' } })
    expect(answers[1]).toMatchObject({ reason: { outcome: 'none' } })
    expect(answers[2]).toMatchObject({ value: { is: 'granted' } })
    const renewals = await store.renew(
      [held, foreign, free].map((key, i) => ({ key, claim: 'aab'[i] ?? '', ttlMs: 1 })),
    )
    expect(renewals.map(({ is }) => is)).toEqual(['renewed', 'unknown', 'renewed'])
  })
})

describe('what stays behind', () => {
  it('one key a lease, named as it is, that goes a retention after the lease', async () => {
    const store = await bench.store({ retentionMs: 50_000 })
    const key = fresh('a {b} c')
    const before = Number(await on('dbsize'))
    await granted(store, key, 'a', { ttlMs: 10_000, queue: { pollMs: 100 } })
    expect(Number(await on('pttl', `holdfast:${key}`))).toBeGreaterThan(55_000)
    await store.acquire(request(key, 'b', { queue: { pollMs: 100 } }))
    await store.withdraw(key, 'c')
    expect(Number(await on('dbsize')) - before).toBe(1)
    await store.release(grantOf(key, 'a'))
    const left = Number(await on('pttl', `holdfast:${key}`))
    expect(left).toBeLessThanOrEqual(60_000)
    expect(left).toBeGreaterThan(40_000)
  })

  it('a withdrawn claim is remembered for its time, also when the retention is shorter (G6)', async () => {
    const store = await bench.store({ retentionMs: 1 })
    const key = fresh()
    await store.withdraw(key, 'a')
    expect(Number(await on('pttl', `holdfast:${key}`))).toBeGreaterThan(50_000)
    expect(await store.acquire(request(key, 'a'))).toMatchObject({ is: 'held', because: 'ended' })
  })

  it('the token rises when the record has gone', async () => {
    const store = await bench.store()
    const key = fresh()
    const first = await granted(store, key, 'a')
    await on('del', `holdfast:${key}`)
    expect(await store.renew([{ key, claim: 'a', ttlMs: 1_000 }])).toEqual([{ is: 'lost', reason: 'expired' }])
    expect(await granted(store, key, 'b')).toBeGreaterThan(first)
  })

  it('a token that is ahead of the clock keeps its record until the clock has passed it, through renewal, release and pruning (G2)', async () => {
    const store = await bench.store({ retentionMs: 60_000, prefix: 'ahead:' }) // pruning is for all of a prefix
    const key = fresh()
    const [seconds] = (await on('time')).split('\n')
    const ahead = (Number(seconds) + 3_600) * 1_000_000
    expect(await granted(store, key, 'a', { ttlMs: 1_000, tokenFloor: ahead })).toBe(ahead)
    const left = async () => Number(await on('pttl', `ahead:${key}`))
    expect(await left()).toBeGreaterThan(3_600_000)
    await store.renew([{ key, claim: 'a', ttlMs: 2_000 }])
    expect(await left()).toBeGreaterThan(3_600_000)
    await store.release(grantOf(key, 'a', ahead))
    expect(await left()).toBeGreaterThan(3_600_000)
    expect(await store.prune({ olderThanMs: 0 })).toBe(0)
    expect(await granted(store, key, 'b', { ttlMs: 1_000 })).toBe(ahead + 1)
    await store.release(grantOf(key, 'b', ahead + 1))
    expect(await left()).toBeGreaterThan(3_600_000)
  })

  it('the form of the record is what it has been since the first release', async () => {
    const store = await bench.store()
    const key = fresh()
    const written = [
      'f143f000000000000043198fe2b8d8a0004000000000000000000161000162',
      '43198fe2b8d8a0004 0dd4c0000000000'.replace(' ', ''),
      '000163',
    ].join('')
    // expires 2^64, token 1798668000000000, changes 2, claim a, last b, granted, ttl 30000, holder c
    const bytes = written.replaceAll(/../g, '\\x$&')
    await on(
      'eval',
      `return redis.call('set', KEYS[1], (string.gsub(ARGV[1], '..', function(h) return string.char(tonumber(h, 16)) end)))`,
      '1',
      `holdfast:${key}`,
      written,
    )
    expect(bytes.length).toBe(written.length * 2)
    expect(await store.inspect(key)).toMatchObject({
      state: 'held',
      claim: 'a',
      holder: 'c',
      changes: 2,
      ttlMs: 30_000,
    })
    expect(await store.acquire(request(key, 'b'))).toMatchObject({ because: 'ended' })
  })
})

describe('bad input', () => {
  it.each([
    ['nothing', undefined],
    ['a URL', 'redis://127.0.0.1'],
    ['an object of another kind', { get: () => {} }],
    ['a pipeline', new Redis({ lazyConnect: true }).pipeline(), /and not a pipeline/],
    ['a pool', createClientPool(), /and not a pool: give it the client of createClient/],
  ])('%s is no client', (_name, client, more: RegExp = /./) => {
    expect(() => redisStore(client as unknown as RedisClient)).toThrow(more)
    expect(() => redisStore(client as unknown as RedisClient)).toThrow(InvalidArgumentError)
    expect(() => redisStore(client as unknown as RedisClient)).toThrow(/client must be a client of ioredis 5 or 6/)
  })

  it.each([
    ['retentionMs', { retentionMs: -1 }],
    ['endedRetentionMs', { endedRetentionMs: Number.NaN }],
    ['replicas', { replicas: 1.5 }],
    ['replicasTimeoutMs', { replicasTimeoutMs: 0 }],
    ['prefix', { prefix: '' }],
  ])('%s is checked before any command', (option, options) => {
    const client = new Redis({ lazyConnect: true })
    expect(() => redisStore(client, options)).toThrow(new RegExp(`^${option} must`))
  })

  it('a client with a keyPrefix is refused, and told where the prefix goes', () => {
    const client = new Redis({ lazyConnect: true, keyPrefix: 'app:' })
    expect(() => redisStore(client)).toThrow("redisStore(client, { prefix: 'app:' })")
    const cluster = new Cluster([], { lazyConnect: true, keyPrefix: 'app:' })
    expect(() => redisStore(cluster)).toThrow('must have no keyPrefix')
    const nodes = new Cluster([], { lazyConnect: true, redisOptions: { keyPrefix: 'app:' } })
    expect(() => redisStore(nodes)).toThrow("redisStore(client, { prefix: 'app:' })")
    expect(() => redisStore(createClient({ keyPrefix: 'app:' }))).toThrow('must have no keyPrefix')
  })

  it('a server older than 6.2 is told at the first use, and nothing is sent to it', async () => {
    const client = new Redis({ port: bench.port })
    const sent: string[] = []
    const { call } = client
    client.call = (async (name: string, ...args: string[]) => {
      sent.push(name)
      const answer = await Reflect.apply(call, client, [name, ...args])
      return name === 'info' ? String(answer).replace(/redis_version:.*/, 'redis_version:6.0.16') : answer
    }) as typeof client.call
    await expect(redisStore(client).acquire(request(fresh(), 'a'))).rejects.toMatchObject({
      outcome: 'none',
      lasting: true,
      message: expect.stringContaining('this server is Redis 6.0, and Holdfast needs 6.2 or newer'),
    })
    expect(sent).toEqual(['info'])
    client.disconnect()
  })

  it('a client that was never connected, or was closed, is told at once', async () => {
    const never = redisStore(createClient())
    await expect(never.acquire(request('a', 'a'))).rejects.toMatchObject({
      outcome: 'none',
      message: expect.stringContaining('await client.connect()'),
    })
    for (const kind of clientKinds) {
      const { client, close } = await kind.standalone(bench.port)
      const store = redisStore(client)
      await granted(store, fresh(), 'a')
      await close()
      const error = await store.acquire(request('a', 'a')).catch((thrown: unknown) => thrown)
      expect(error, kind.name).toBeInstanceOf(StoreError)
      expect(error, kind.name).toMatchObject({
        outcome: 'none',
        message: expect.stringMatching(/closed|not connected/),
      })
    }
  })

  it.each([
    ['ioredis 6', () => new Redis({ port: bench.port, protocol: 2 })],
    ['ioredis 5', () => new Redis5({ port: bench.port })],
  ])('a client in subscriber mode is told to be duplicated: %s', async (_, make) => {
    const client = make() as Redis
    bench.closing({ close: () => client.disconnect() })
    const store = redisStore(client)
    await granted(store, fresh(), 'a')
    await client.subscribe('something')
    await expect(store.acquire(request(fresh(), 'a'))).rejects.toMatchObject({
      outcome: 'none',
      message: expect.stringContaining('client.duplicate()'),
    })
  })

  it('with RESP3 a connection can do both: ioredis 6', async () => {
    const client = new Redis({ port: bench.port, protocol: 3 })
    bench.closing({ close: () => client.disconnect() })
    await client.subscribe('something')
    await granted(redisStore(client), fresh(), 'a')
  })

  it.each(['string', 'list', 'hash'])(
    'a foreign %s under the key is an error of its own, and stays (G13)',
    async (type) => {
      const store = await bench.store()
      const key = fresh()
      const full = `holdfast:${key}`
      if (type === 'string') await on('set', full, 'somebody else')
      if (type === 'list') await on('rpush', full, 'somebody else')
      if (type === 'hash') await on('hset', full, 'a', 'somebody else')
      const message = expect.stringContaining(`(a ${type})`)
      const refused = { outcome: 'none', message }
      await expect(store.acquire(request(key, 'a'))).rejects.toMatchObject(refused)
      await expect(store.release(grantOf(key, 'a'))).rejects.toMatchObject(refused)
      await expect(store.withdraw(key, 'a')).rejects.toMatchObject(refused)
      await expect(store.revoke(key)).rejects.toMatchObject(refused)
      await expect(store.inspect(key)).rejects.toMatchObject(refused)
      for await (const record of store.list({ prefix: key, free: true })) expect(record.key).not.toBe(key)
      expect(await on('type', full)).toBe(type)
    },
  )
})

describe('what the server refuses is told with what to do, and was not applied', () => {
  const refused = (advice: string | RegExp) => ({ outcome: 'none', message: expect.stringMatching(advice) })

  it.each(clientKinds)('READONLY, OOM: $name', async (kind) => {
    const store = await bench.store({}, kind)
    const key = fresh()
    await granted(store, key, 'a')
    await on('replicaof', '127.0.0.1', '1')
    await expect(store.acquire(request(fresh(), 'b'))).rejects.toMatchObject(
      refused('is a replica, as after a fail-over'),
    )
    await expect(store.renew([{ key, claim: 'a', ttlMs: 2 * HOUR_MS }])).rejects.toMatchObject(refused('is a replica'))
    await on('replicaof', 'no', 'one')
    await on('config', 'set', 'maxmemory', '1')
    await expect(store.acquire(request(fresh(), 'b'))).rejects.toMatchObject(refused('has reached maxmemory'))
    await on('config', 'set', 'maxmemory', '0')
    expect(await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
  })

  it('NOAUTH', async () => {
    const server = await RedisServer.start('--requirepass', 'secret')
    const client = new Redis({ port: server.port })
    client.on('error', () => {})
    await expect(redisStore(client).acquire(request('a', 'a'))).rejects.toMatchObject(refused('has not authenticated'))
    client.disconnect()
    await server.stop()
  })

  it('NOPERM: an ACL without EVALSHA, without TIME, without PUBLISH, without SUBSCRIBE', async () => {
    const acl = (...rules: string[]) => on('acl', 'setuser', 'app', 'reset', 'on', '>pw', '~*', '&*', '+@all', ...rules)
    const ask = async (...rules: string[]) => {
      await acl(...rules)
      const client = new Redis({ port: bench.port, username: 'app', password: 'pw' })
      bench.closing({ close: () => client.disconnect() })
      return bench.closing(redisStore(client))
    }
    const noRight = refused('the ACL needs \\+evalsha')
    await expect((await ask('-evalsha')).acquire(request(fresh(), 'a'))).rejects.toMatchObject(noRight)
    await expect((await ask('-time')).acquire(request(fresh(), 'a'))).rejects.toMatchObject(noRight)
    const key = fresh()
    const store = await ask('-publish')
    await granted(store, key, 'a')
    await store.acquire(request(key, 'b', { queue: { pollMs: 60_000 } }))
    await expect(store.release(grantOf(key, 'a'))).rejects.toMatchObject(noRight)
    const deaf = await ask('-subscribe')
    const hints = deaf.watch(key, { claim: 'b', signal: new AbortController().signal })[Symbol.asyncIterator]()
    await expect(hints.next()).rejects.toMatchObject(noRight)
  })
})

describe('which server it is', () => {
  it('is the same for two stores on one server, also through another client, and another elsewhere', async () => {
    const other = await RedisServer.start()
    const [one, two] = [await bench.store(), await bench.store({ prefix: 'other:' }, clientKinds[2])]
    const client = new Redis({ port: other.port })
    expect(await two.serverId()).toBe(await one.serverId())
    expect(await redisStore(client).serverId()).not.toBe(await one.serverId())
    expect(await redisStore(client).keptForMs()).toBeLessThanOrEqual(60_000)
    expect(await one.keptForMs()).toBeGreaterThanOrEqual(0)
    client.disconnect()
    await other.stop()
  })
})

describe('slots', () => {
  it('are those of the server', async () => {
    const server = await RedisServer.start('--cluster-enabled', 'yes')
    for (const key of ['', 'a', 'ä', '{a}b', '{}b', '{b', 'a}b{c}d', '{{a}}', '}{a', 'x'.repeat(500)]) {
      if (key !== '') expect(slotOf(key), key).toBe(Number(await cli(server.port, 'cluster', 'keyslot', key)))
    }
    await server.stop()
  })

  it('each has a tag, one no other has', () => {
    const tags = Array.from({ length: 16_384 }, (_, slot) => tagOf(slot))
    expect(tags.every((tag, slot) => slotOf(`{${tag}}x`) === slot)).toBe(true)
    expect(new Set(tags).size).toBe(16_384)
  })
})
