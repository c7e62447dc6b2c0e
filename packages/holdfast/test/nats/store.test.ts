// What is the NATS store's own: which buckets it refuses, names, values that are not its, and what its errors say.
import { Kvm } from '@nats-io/kv'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLeases } from '../../src/index.js'
import { systemRandom } from '../../src/lease/random.js'
import { unfitness } from '../../src/stores/nats/bucket.js'
import { natsStore } from '../../src/stores/nats/index.js'
import { fromBucketKey, toBucketKey } from '../../src/stores/nats/names.js'
import { waitUntil } from '../redis/servers.js'
import { counted, NatsBench } from './harness.js'
import { NatsServer } from './servers.js'

const ask = (key: string, claim = systemRandom.claim()) => ({ key, claim, holder: `holder ${claim}`, ttlMs: 30_000 })

describe('on a server', () => {
  let bench: NatsBench
  beforeAll(async () => {
    bench = await NatsBench.start()
  })
  afterAll(() => bench?.stop())

  it.each([
    ['age', { ttl: 60_000 }, /forgets entries after 60000 ms/],
    ['memory', { storage: 'memory' }, /in memory/],
    ['small', { maxValueSize: 512 }, /512 bytes/],
  ])('a bucket that would break a promise is refused at the first call: %s', async (name, options, message) => {
    const store = natsStore(await bench.bucket(name, options))
    await expect(store.acquire(ask('k'))).rejects.toThrow(message)
    await expect(store.acquire(ask('k'))).rejects.toMatchObject({ code: 'STORE_ERROR', outcome: 'none' })
  })

  it('a lease longer than half of what the bucket remembers is refused before it is written', async () => {
    const bucket = await bench.bucket('aged', { ttl: 2 * 86_400_000 })
    const store = natsStore(bucket)
    const long = { ...ask('k'), ttlMs: 86_400_001 }
    await expect(store.acquire(long)).rejects.toMatchObject({
      outcome: 'none',
      message: expect.stringMatching(/twice/),
    })
    expect(await bucket.get('k')).toBeNull()
    expect(await store.acquire({ ...long, ttlMs: 86_400_000 })).toMatchObject({ is: 'granted' })
  })

  it('a bucket with history, or with a long max_age, keeps every promise and is taken', async () => {
    const store = natsStore(await bench.bucket('history', { history: 5, ttl: 3 * 86_400_000 }))
    const first = ask('k')
    const granted = await store.acquire(first)
    expect(granted).toMatchObject({ is: 'granted' })
    expect(await store.renew([first])).toEqual([{ is: 'renewed', ttlMs: 30_000 }])
    expect(await store.acquire(ask('k'))).toMatchObject({ is: 'held', because: 'held' })
    expect(await store.acquire(first)).toEqual(granted)
  })

  it('C06: names that a bucket does not take, or takes for a pattern, are leases of their own', async () => {
    const bucket = await bench.bucket('names')
    const store = natsStore(bucket)
    const names = ['a b', 'a.b', 'a.*', 'a.>', '>', '.a', 'a.', '{', 'é', '😀', 'a\nb', 'user:42']
    for (const name of names) expect(await store.acquire(ask(name))).toMatchObject({ is: 'granted' })
    for (const name of names) expect(await store.inspect(name)).toMatchObject({ key: name, state: 'held' })
    for (const name of ['a b', 'a.>', '>', '.a', 'a.', '😀']) {
      await expect(bucket.put(name, 'as it is')).rejects.toThrow() // what a lock meets that takes names as they are
    }
  })

  it('a value that Holdfast did not write is left alone and told', async () => {
    const bucket = await bench.bucket('foreign')
    await bucket.put('k', 'something else')
    const store = natsStore(bucket)
    await expect(store.acquire(ask('k'))).rejects.toThrow(/did not write/)
    await bucket.put('json', '{"claim":"","token":0}')
    await expect(store.acquire(ask('json'))).rejects.toThrow(/did not write/)
    const leases = createLeases({ store, closeStore: false })
    const waiting = leases.acquire('k', { waitMs: Number.POSITIVE_INFINITY }) // C50: it will not pass by itself
    await expect(waiting).rejects.toMatchObject({ code: 'STORE_ERROR', outcome: 'none', lasting: true })
    await leases.close()
    expect((await bucket.get('k'))?.string()).toBe('something else')
  })

  it('a closed connection is told, with what to do, and nothing was done', async () => {
    const connection = await bench.connection()
    const store = natsStore(await new Kvm(connection).create('closed'))
    await store.acquire(ask('before'))
    await connection.close()
    await expect(store.acquire(ask('k'))).rejects.toMatchObject({
      code: 'STORE_ERROR',
      outcome: 'none',
      message: expect.stringMatching(/close the store before the connection/),
    })
  })

  it('a token is the sequence of its grant, and rises over pruning', async () => {
    const bucket = await bench.bucket('tokens')
    const store = natsStore(bucket)
    const first = ask('k')
    const one = await store.acquire(first)
    expect((await bucket.get('k'))?.revision).toBe((one as { token: number }).token)
    await store.renew([first])
    expect((await store.inspect('k'))?.token).toBe((one as { token: number }).token)
    await store.release({ ...first, token: 1 })
    expect(await store.prune()).toBe(1)
    expect(await store.inspect('k')).toBeNull()
    const two = await store.acquire(ask('k'))
    expect((two as { token: number }).token).toBeGreaterThan((one as { token: number }).token)
  })

  it('what it wrote last itself is no answer: a lease that was granted elsewhere since, and passed on, is renewed (G3)', async () => {
    const bucket = await bench.bucket('passed')
    const [here, there] = [natsStore(bucket), natsStore(bucket)]
    const first = ask('k')
    await here.acquire(first)
    await here.release({ ...first, token: 1 })
    const passed = ask('k')
    await there.acquire(passed)
    expect(await here.renew([passed])).toEqual([{ is: 'renewed', ttlMs: 30_000 }])
  })

  it('a write whose answer is lost is read back in the same call (C49)', async () => {
    const bucket = await bench.bucket('readback')
    let lost = 0
    const store = natsStore({
      get: (key) => bucket.get(key),
      async put(key, data, options) {
        const revision = await bucket.put(key, data, options)
        if (lost++ === 0) throw Object.assign(new Error('timeout'), { name: 'TimeoutError' })
        return revision
      },
      delete: (key, options) => bucket.delete(key, options),
      keys: () => bucket.keys(),
      watch: (options) => bucket.watch(options),
      status: () => bucket.status(),
    })
    const mine = ask('k')
    expect(await store.acquire(mine)).toMatchObject({ is: 'granted' })
    expect(lost).toBeGreaterThan(0)
    expect(await natsStore(bucket).inspect('k')).toMatchObject({ claim: mine.claim, changes: 1 })
  })

  it('a pair costs two writes, a renewal one; only a key that this process has not seen is read, once', async () => {
    const { kv, asked } = counted(await bench.bucket('economy'))
    const store = natsStore(kv)
    const counts = () => [asked.reads, asked.writes]
    for (let pair = 1; pair <= 3; pair++) {
      const held = ask('k')
      await store.acquire(held)
      await store.release({ ...held, token: 1 })
      expect(counts()).toEqual([1, 2 * pair])
    }
    const held = ask('k')
    await store.acquire(held)
    for (let i = 0; i < 5; i++) await store.renew([held])
    await store.release({ ...held, token: 1 })
    expect(counts()).toEqual([1, 13])
    const leases = createLeases({ store })
    for (let pair = 0; pair < 3; pair++) await (await leases.acquire('k')).release()
    expect(counts()).toEqual([1, 19])
    await leases.close()
  })
})

it.each([
  [{ discard: 'old', max_bytes: 1_000_000 }, /throws its oldest entries away/],
  [{ discard: 'old', max_msgs: 1_000 }, /throws its oldest entries away/],
  [{ discard: 'new', max_bytes: 1_000_000 }, undefined],
  [{ discard: 'old', max_bytes: -1, max_msgs: -1 }, undefined],
])('a bucket that forgets when it is full is refused: %j', (given, why) => {
  const said = unfitness({ bucket: 'full', streamInfo: { config: { storage: 'file', num_replicas: 1, ...given } } })
  if (why === undefined) expect(said).toBeUndefined()
  else expect(said).toMatch(why)
})

it('a mirror is refused', () => {
  const config = { mirror: { name: 'KV_other' }, storage: 'file', num_replicas: 1 }
  expect(unfitness({ bucket: 'copy', streamInfo: { config } })).toMatch(/is a mirror/)
})

it('what is no bucket is refused, before anything is sent', () => {
  for (const none of [undefined, null, {}, 'leases', { get() {} }])
    expect(() => natsStore(none as never)).toThrow(/must be a bucket of @nats-io\/kv/)
})

it('every name is a key of its own that a bucket takes, and comes back', () => {
  const key = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
    .filter((text) => !/\p{Surrogate}/u.test(text))
  fc.assert(
    fc.property(key, key, (a, b) => {
      const name = toBucketKey(a)
      expect(name).toMatch(/^[-/=\w]+$/)
      expect(fromBucketKey(name)).toBe(a)
      if (a !== b) expect(toBucketKey(b)).not.toBe(name)
    }),
  )
  expect(fromBucketKey('=61')).toBeUndefined() // a plain letter is never written so
  expect(fromBucketKey('=FF')).toBeUndefined()
})

it('C50: a user without the right to watch is told which rights are needed, and gets in by asking from time to time', async () => {
  const users = `authorization { users: [
    { user: all, password: p },
    { user: blind, password: p, permissions: { publish: { deny: ["$JS.API.CONSUMER.>"] } } }
  ] }`
  const server = await NatsServer.start(users)
  const { connect } = await import('@nats-io/transport-node')
  const open = (user: string) => connect({ servers: server.url, user, pass: 'p' })
  const [all, blind] = [await open('all'), await open('blind')]
  try {
    const store = natsStore(await new Kvm(all).create('leases', { replicas: 1 }))
    const held = ask('k')
    await store.acquire(held)
    const told: unknown[] = []
    const leases = createLeases({
      store: natsStore(await new Kvm(blind).open('leases')),
      onEvent: (event) => event.type === 'watch-failed' && told.push(event.cause),
    })
    const waiting = leases.acquire('k', { waitMs: 60_000 })
    await waitUntil('it is told', () => told.length > 0)
    expect(told[0]).toMatchObject({
      code: 'STORE_ERROR',
      outcome: 'none',
      message: expect.stringMatching(/^a watch in NATS failed: .*needs to publish/),
    })
    await store.release({ ...held, token: 1 })
    await (await waiting).release()
    await leases.close()
  } finally {
    await all.close()
    await blind.close()
    await server.stop()
  }
})

it('C50: a user without the right to write is told which rights are needed, and nothing was done', async () => {
  const users = `authorization { users: [
    { user: all, password: p },
    { user: reader, password: p, permissions: { publish: { deny: ["$KV.>"] } } }
  ] }`
  const server = await NatsServer.start(users)
  const { connect } = await import('@nats-io/transport-node')
  const open = (user: string) => connect({ servers: server.url, user, pass: 'p' })
  const [all, reader] = [await open('all'), await open('reader')]
  try {
    await new Kvm(all).create('leases', { replicas: 1 })
    const store = natsStore(await new Kvm(reader).open('leases'))
    await expect(store.acquire(ask('k'))).rejects.toMatchObject({
      code: 'STORE_ERROR',
      outcome: 'none',
      lasting: true,
      message: expect.stringMatching(/needs to publish/),
    })
  } finally {
    await all.close()
    await reader.close()
    await server.stop()
  }
})
