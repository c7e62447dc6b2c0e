// What the Redis store does beyond the conformance suite: what it costs, what stays behind, and what bad input gets.
import { Cluster, Redis } from 'ioredis'
import { createClient, createClientPool } from 'redis'
import { describe, expect, it } from 'vitest'
import { InvalidArgumentError, StoreError } from '../../src/lease/errors.js'
import { type RedisClient, redisStore } from '../../src/stores/redis/index.js'
import { slotOf, tagOf } from '../../src/stores/redis/slot.js'
import { clientKinds } from './clients.js'
import { Bench, fresh, granted, grantOf, HOUR_MS, request } from './harness.js'
import { cli, RedisServer } from './servers.js'

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
    expect(await commands()).toEqual({ evalsha: 2, get: 2, set: 2, time: 2 })
  })

  it('what is asked for in one turn shares a command', async () => {
    const store = await bench.store()
    await granted(store, fresh(), 'warm')
    await store.release(grantOf(fresh(), 'warm'))
    const keys = Array.from({ length: 100 }, () => fresh())
    await on('config', 'resetstat')
    const claimOf = (key: string) => `claim of ${key}`
    await Promise.all(keys.map((key) => granted(store, key, claimOf(key), { holder: 'this process' })))
    await Promise.all(keys.map((key) => store.release(grantOf(key, claimOf(key)))))
    expect((await commands()).evalsha).toBe(2)
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
    ['a pipeline', new Redis({ lazyConnect: true }).pipeline()],
    ['a pool', createClientPool()],
  ])('%s is no client', (_name, client) => {
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

  it('a client in subscriber mode is told to be duplicated', async () => {
    const client = new Redis({ port: bench.port, protocol: 2 } as object)
    bench.closing({ close: () => client.disconnect() })
    const store = redisStore(client)
    await granted(store, fresh(), 'a')
    await client.subscribe('something')
    const error = await store.acquire(request(fresh(), 'a')).catch((thrown: unknown) => thrown)
    if (error instanceof StoreError) expect(error).toMatchObject({ outcome: 'none', message: /client\.duplicate\(\)/ })
    else expect(error).toMatchObject({ is: 'granted' }) // with RESP3 a connection can do both
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
