// The fence of what an application keeps in Redis: check and write are one step, for every client, also in a Cluster.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { InvalidArgumentError, StaleTokenError } from '../../src/lease/errors.js'
import { type RedisFence, redisFence, redisStore } from '../../src/stores/redis/index.js'
import { clientKinds } from './clients.js'
import { Bench, fresh, granted, grantOf } from './harness.js'
import { cli, RedisCluster } from './servers.js'

const bench = Bench.here()
const on = (...command: string[]) => cli(bench.port, ...command)

/** Tokens of the clock, so that the birth mark is below them. */
const base = Date.now() * 1000 + 3_600_000_000

describe.each(clientKinds)('$name', (kind) => {
  let fence: RedisFence
  beforeAll(async () => {
    fence = redisFence(await bench.client(kind))
    await fence.install()
  })

  it('admits a bigger token, and the same one of the same claim; refuses a smaller one, and an equal one of another (G7)', async () => {
    const key = fresh()
    const write = (token: number, claim: string) =>
      fence.set(grantOf(key, claim, base + token), key, `${token}${claim}`)
    await write(9, 'a')
    await write(9, 'a')
    await expect(write(9, 'b')).rejects.toBeInstanceOf(StaleTokenError)
    await write(10, 'b') // not as text (C54)
    await expect(write(9, 'a')).rejects.toMatchObject({ code: 'STALE_TOKEN', token: base + 9, admitted: base + 10 })
    await write(100, 'c')
    await expect(write(99, 'd')).rejects.toBeInstanceOf(StaleTokenError)
    expect(await on('get', key)).toBe('100c')
    expect(await on('ttl', `holdfast-fence:of:${key}`)).toBe('-1')
  })

  it('del, a ttl, and the script of the user are behind the same check', async () => {
    const key = fresh()
    const grant = grantOf(key, 'a', base)
    await fence.set(grant, key, 1, { ttlMs: 60_000 })
    expect(Number(await on('pttl', key))).toBeGreaterThan(50_000)
    expect(
      await fence.run(grant, { script: "return redis.call('INCRBY', KEYS[1], ARGV[1])", keys: [key], args: [41] }),
    ).toBe(42)
    expect(await fence.run(grant, { script: 'return nil' })).toBe(null)
    expect(await fence.run(grant, { script: 'return #KEYS + #ARGV' })).toBe(0)
    await on('script', 'flush')
    expect(await fence.del(grant, [key, fresh()])).toBe(1)
    await fence.set(grantOf(key, 'b', base + 1), key, 'b')
    await expect(fence.del(grant, key)).rejects.toBeInstanceOf(StaleTokenError)
    await expect(fence.run(grant, { script: "redis.call('SET', KEYS[1], 'x')", keys: [key] })).rejects.toBeInstanceOf(
      StaleTokenError,
    )
    expect(await on('get', key)).toBe('b')
  })

  it("an error of the user's script reaches the caller; whether it wrote before is unknown", async () => {
    const grant = grantOf(fresh(), 'a', base)
    for (const script of ["return redis.call('NO SUCH')", 'error("mine")', "return redis.error_reply('MINE no')"]) {
      await expect(fence.run(grant, { script }), script).rejects.toMatchObject({
        outcome: 'unknown',
        message: expect.stringContaining('broke off a fenced write'),
      })
    }
    await expect(fence.run(grant, { script: 'return (' })).rejects.toMatchObject({ code: 'STORE_ERROR' })
  })

  it('any number of keys is deleted, none as well', async () => {
    const [key, held] = [fresh(), fresh()]
    const grant = grantOf(held, 'a', base)
    const keys = Array.from({ length: 9_000 }, (_, i) => `${key}:${i}`)
    await fence.set(grant, keys[8_999] ?? '', 'x')
    expect(await fence.del(grant, keys)).toBe(1)
    expect(await fence.del(grant, [])).toBe(0)
    await fence.set(grantOf(held, 'b', base + 1), key, 'b')
    await expect(fence.del(grant, [])).rejects.toBeInstanceOf(StaleTokenError)
  })

  it('a foreign value in the place of a fence or of the birth mark is an error of its own, and stays', async () => {
    const prefix = `${fresh('fences')}:`
    const own = redisFence(await bench.client(kind), { prefix })
    const key = fresh()
    const write = () => own.set(grantOf(key, 'a', base), key, 'a')
    for (const [name, ...command] of [
      ['birth', 'set', 'somebody else'],
      ['birth', 'rpush', 'somebody else'],
      [`of:${key}`, 'set', 'somebody else'],
      [`of:${key}`, 'rpush', 'somebody else'],
    ]) {
      const full = `${prefix}${name}`
      await on(command[0] ?? '', full, command[1] ?? '')
      await expect(write(), full).rejects.toMatchObject({
        outcome: 'none',
        lasting: true,
        message: expect.stringContaining(`"${full}" has a value in Redis that Holdfast did not write`),
      })
      expect(await on('type', full)).toBe(command[0] === 'set' ? 'string' : 'list')
      expect(await on('exists', key)).toBe('0')
      await on('del', full)
    }
    await write()
  })

  it('a thousand writes of two holders at once never leave the older on top (C54)', async () => {
    const key = fresh()
    const writes = Array.from({ length: 1_000 }, (_, i) => {
      const token = base + ((i * 7_919) % 1_000)
      return fence.set(grantOf(key, `claim ${token}`, token), key, String(token)).catch(() => {})
    })
    await Promise.all(writes)
    expect(await on('get', key)).toBe(String(base + 999))
  })
})

describe('a dataset that was lost', () => {
  it('with its fences lets no token in that is older than itself', async () => {
    const client = await bench.client()
    const fence = redisFence(client)
    const store = redisStore(client)
    await fence.install()
    const [old, key] = [fresh(), fresh()]
    const token = await granted(store, old, 'a')
    await fence.set(grantOf(old, 'a', token), key, 'a')
    await on('flushall')
    await expect(fence.set(grantOf(old, 'a', token), key, 'a')).rejects.toBeInstanceOf(StaleTokenError)
    const next = await granted(store, old, 'b')
    await fence.set(grantOf(old, 'b', next), key, 'b')
    expect(await on('get', key)).toBe('b')
  })

  it('is not noticed where tokens follow no clock', async () => {
    const fence = redisFence(await bench.client(), { birthMark: false })
    const key = fresh()
    await fence.set(grantOf(key, 'a', 1), key, 'a')
    await expect(fence.set(grantOf(key, 'b', 1), key, 'b')).rejects.toBeInstanceOf(StaleTokenError)
  })
})

describe('bad input', () => {
  it('is refused before any command', async () => {
    const fence = redisFence(await bench.client())
    const grant = grantOf('a', 'a', 7)
    const wrong = [
      () => fence.set({ ...grant, token: Number.NaN }, 'k', 'v'),
      () => fence.set({ ...grant, token: '7' as never }, 'k', 'v'),
      () => fence.set({ ...grant, claim: '' }, 'k', 'v'),
      () => fence.set(undefined as never, 'k', 'v'),
      () => fence.set(grant, '', 'v'),
      () => fence.set(grant, 'k', 'v', { ttlMs: 0 }),
      () => fence.set(grant, 'k', 'v', { resource: '' }),
      () => fence.run(grant, { script: undefined as never }),
      () => fence.run(grant, undefined as never),
    ]
    for (const call of wrong) await expect(call()).rejects.toBeInstanceOf(InvalidArgumentError)
    expect(() => redisFence({} as never)).toThrow(InvalidArgumentError)
  })

  it('names what is wrong: what would be written as something else, and what is no list', async () => {
    const client = await bench.client()
    const fence = redisFence(client)
    const grant = grantOf(fresh(), 'a', base)
    const script = 'return 1'
    const wrong: [option: string, call: () => Promise<unknown>][] = [
      ...[undefined, null, Number.NaN, true, 1n, {}, Buffer.from('v')].map(
        (value): [string, () => Promise<unknown>] => ['value', () => fence.set(grant, 'k', value as never)],
      ),
      ['args[1]', () => fence.run(grant, { script, args: ['a', undefined as never] })],
      ['args', () => fence.run(grant, { script, args: 'abc' as never })],
      ['keys', () => fence.run(grant, { script, keys: 'abc' as never })],
      ['keys', () => fence.del(grant, undefined as never)],
      ['key', () => fence.del(grant, ['k', 7 as never])],
    ]
    for (const [option, call] of wrong)
      await expect(call(), option).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option })
    expect(await on('exists', `holdfast-fence:of:${grant.key}`)).toBe('0')
    expect(() => redisFence(client, { birthMark: 'no' as never })).toThrow('birthMark must be true or false')
  })
})

describe('in a Cluster', () => {
  let cluster: RedisCluster
  beforeAll(async () => {
    cluster = await RedisCluster.start()
  })
  afterAll(() => cluster?.stop())

  it.each(clientKinds)('fence, mark and data are in one slot, whatever the name: $name', async (kind) => {
    const { client, close } = await kind.cluster(cluster)
    const fence = redisFence(client)
    await fence.install()
    for (const name of ['invoice', 'a}b', '{', '{}', '{x}y', 'ä']) {
      const resource = fresh(name)
      const key = /[{}]/.test(resource) ? resource : `{${resource}}:paid`
      await fence.set(grantOf(resource, 'a', base), key, 'a')
      await fence.set(grantOf(resource, 'b', base + 1), key, 'b')
      await expect(fence.set(grantOf(resource, 'a', base), key, 'a')).rejects.toBeInstanceOf(StaleTokenError)
    }
    await expect(fence.set(grantOf('invoice', 'a', base), 'elsewhere', 'a')).rejects.toThrow(
      'must be in the slot of its resource',
    )
    await close()
  })
})
