// Options are checked where they come in: each bad one is refused by its name, with its value, before anything is sent.
import { describe, expect, it } from 'vitest'
import { createLeases, InvalidArgumentError } from '../../src/index.js'
import { checkHolder, checkKey } from '../../src/lease/keys.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { setUp } from './world.js'

function refusal(run: () => unknown): InvalidArgumentError {
  try {
    run()
  } catch (error) {
    if (error instanceof InvalidArgumentError) return error
    throw error
  }
  throw new Error('it was not refused')
}

const durations = ['ttlMs', 'marginMs', 'renewEveryMs', 'callTimeoutMs', 'maxHoldMs', 'minHoldMs', 'waitMs']
const nonsense = [Number.NaN, -1, Number.NEGATIVE_INFINITY, '1000', null, true, {}, 5n]
const zeroIsWrong = ['ttlMs', 'renewEveryMs', 'callTimeoutMs', 'maxHoldMs']
const endlessIsWrong = ['ttlMs', 'marginMs', 'renewEveryMs', 'callTimeoutMs', 'minHoldMs']

const badOptions: [string, unknown][] = [
  ...durations.flatMap((option) => nonsense.map((value): [string, unknown] => [option, value])),
  ...zeroIsWrong.map((option): [string, unknown] => [option, 0]),
  ...endlessIsWrong.map((option): [string, unknown] => [option, Number.POSITIVE_INFINITY]),
  ['ttlMs', 1e15],
  ['minHoldMs', 1e15],
  ['renew', 'no'],
  ['renew', null],
  ['retry', null],
  ['retry', { delayMs: 5 }],
  ['meta', () => 1],
  ['meta', 5n],
  ['meta', 'x'.repeat(4_096)],
]

describe('a bad option', () => {
  it.each(badOptions)('%s: %s is refused for a client', (option, value) => {
    const error = refusal(() => createLeases({ store: memoryStore(), [option]: value }))
    expect(error).toMatchObject({ option, value, code: 'INVALID_ARGUMENT' })
    expect(error.message.startsWith(`${option} `)).toBe(true)
  })

  it.each(badOptions)('%s: %s is refused for a call, before anything is sent', async (option, value) => {
    const { net, client } = setUp()
    const leases = client()
    const options = { [option]: value }
    const calls = [
      () => leases.acquire('k', options),
      () => leases.hold('k', options, () => 1),
      () => leases.coalesce('k', options, () => 1),
      ...(option === 'waitMs' || option === 'retry'
        ? []
        : [
            () => leases.tryAcquire('k', options),
            () => leases.tryHold('k', options, () => 1),
            () => leases.adopt({ key: 'k', token: 1, claim: 'c', holder: 'h' }, options),
          ]),
    ]
    for (const call of calls) await expect(call()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option, value })
    expect(net.calls).toEqual([])
  })

  it.each([
    ['signal', 'stop'],
    ['signal', null],
    ['signal', {}],
  ])('%s: %s is refused for a call', async (option, value) => {
    const { net, client } = setUp()
    await expect(client().acquire('k', { [option]: value })).rejects.toMatchObject({ option, value })
    expect(net.calls).toEqual([])
  })

  it.each([
    ['store', undefined],
    ['store', null],
    ['store', {}],
    ['store', 'sqlite:leases.db'],
    ['prefix', 5],
    ['prefix', null],
    ['prefix', 'a\0b'],
    ['prefix', '\ud800'],
    ['prefix', 'x'.repeat(513)],
    ['holder', ''],
    ['holder', null],
    ['holder', 5],
    ['holder', 'x'.repeat(257)],
    ['holder', 'a\0b'],
    ['onEvent', 'log'],
    ['onEvent', null],
    ['maxLocalWaiters', -1],
    ['maxLocalWaiters', 1.5],
    ['maxLocalWaiters', null],
    ['maxHandovers', Number.NaN],
    ['maxHandovers', '16'],
    ['drainMs', -1],
    ['drainMs', null],
    ['drainMs', Number.POSITIVE_INFINITY],
    ['closeStore', 'false'],
    ['closeStore', null],
    ['clock', null],
    ['clock', Date],
    ['random', Math],
  ])('%s: %s is refused for a client', (option, value) => {
    expect(refusal(() => createLeases({ store: memoryStore(), [option]: value }))).toMatchObject({ option, value })
  })

  it('a store of another contract is refused', () => {
    const store = { ...memoryStore(), contract: 2 as never }
    expect(refusal(() => createLeases({ store }))).toMatchObject({ option: 'store' })
  })

  it.each([5_000, 'options', null])('options that are none (%s) are refused', async (options) => {
    const { net, client } = setUp()
    const leases = client()
    for (const call of [
      leases.acquire('k', options as never),
      leases.tryAcquire('k', options as never),
      leases.hold('k', options as never, () => 1),
    ])
      await expect(call).rejects.toMatchObject({ option: 'options', value: options })
    expect(refusal(() => createLeases(options as never))).toMatchObject({ option: 'options' })
    expect(net.calls).toEqual([])
  })

  it.each([undefined, 'work', {}])('work that cannot be called (%s) is refused', async (work) => {
    const { net, client } = setUp()
    const leases = client()
    await expect(leases.hold('k', work as never)).rejects.toMatchObject({ option: 'work', value: work })
    await expect(leases.tryHold('k', {}, work as never)).rejects.toMatchObject({ option: 'work' })
    await expect(leases.coalesce('k', {}, work as never)).rejects.toMatchObject({ option: 'work' })
    expect(net.calls).toEqual([])
  })
})

describe('options among each other', () => {
  it.each([
    ['marginMs', { ttlMs: 1_000, marginMs: 1_000 }],
    ['ttlMs', { ttlMs: 20 }],
    ['ttlMs', { ttlMs: 1e-3 }],
    ['ttlMs', { ttlMs: 50 }],
    ['ttlMs', { ttlMs: 1_000, renewEveryMs: 900 }],
    ['ttlMs', { ttlMs: 1_000, callTimeoutMs: 400 }],
    ['ttlMs', { ttlMs: 1_000, marginMs: 400 }],
    ['minHoldMs', { minHoldMs: 2_000, maxHoldMs: 1_000 }],
  ])('%s is refused in %j', (option, options) => {
    expect(refusal(() => createLeases({ store: memoryStore(), ...options }))).toMatchObject({ option })
  })

  it('those of a call are checked against those of its client', async () => {
    const { net, client } = setUp()
    const leases = client({ ttlMs: 10_000, marginMs: 3_500 })
    await expect(leases.acquire('k', { ttlMs: 3_000 })).rejects.toMatchObject({ option: 'marginMs', value: 3_500 })
    await expect(leases.acquire('k', { renewEveryMs: 6_000 })).rejects.toMatchObject({ option: 'ttlMs' })
    expect(net.calls).toEqual([])
  })

  it('where the caller renews, the renewal need not fit', async () => {
    const { client } = setUp()
    expect((await client().acquire('k', { ttlMs: 50, renew: false })).remainingMs).toBe(30)
  })

  it('the ttl must be one that the store can keep', () => {
    const memory = memoryStore()
    const store = { ...memory, capabilities: { ...memory.capabilities, ttlMsMin: 1_000 } }
    expect(refusal(() => createLeases({ store, ttlMs: 999 }))).toMatchObject({ option: 'ttlMs', value: 999 })
  })
})

describe('what is left out', () => {
  it('is 30 s of ttl, a tenth of margin, renewed at half, called for at most 2 s', async () => {
    const { clock, net, client } = setUp()
    const leases = client()
    const lease = await leases.acquire('k')
    expect(net.callsOf('acquire')[0]?.request.ttlMs).toBe(30_000)
    expect(lease.remainingMs).toBe(27_000)
    await clock.advance(15_000)
    expect(net.callsOf('renew')).toHaveLength(1)
  })

  it('is taken from the client, and undefined counts as left out', async () => {
    const { net, client } = setUp()
    const given = { ttlMs: 8_000, meta: { by: 'client' } }
    const leases = client(given)
    given.ttlMs = 1
    await leases.acquire('a')
    await leases.acquire('b', { ttlMs: undefined })
    await leases.acquire('c', { ttlMs: 4_000, meta: null })
    const sent = net.callsOf('acquire').map(({ request }) => [request.ttlMs, request.meta])
    expect(sent).toEqual([
      [8_000, { by: 'client' }],
      [8_000, { by: 'client' }],
      [4_000, null],
    ])
  })

  it('a fraction of a ttl is rounded up, and that is what the store keeps', async () => {
    const { memory, client } = setUp()
    await client().acquire('k', { ttlMs: 1_234.5 })
    expect(await memory.inspect('k')).toMatchObject({ ttlMs: 1_235, remainingMs: 1_235 })
  })

  it('the holder is the host and the process', async () => {
    const { memory, net } = setUp()
    const leases = createLeases({ store: net, closeStore: false })
    await leases.acquire('k', { ttlMs: 1_000, renew: false })
    expect((await memory.inspect('k'))?.holder).toMatch(new RegExp(`^.+:${process.pid}$`))
  })
})

describe('names', () => {
  const good = [
    ' ',
    'a b',
    'user:42',
    'a.b.*.>',
    '{',
    '}{a',
    '{}a',
    '{a}b{c}',
    'é'.repeat(33),
    '😀',
    'a\nb',
    '__proto__',
  ]
  const long = ['x'.repeat(64), 'x'.repeat(65), 'x'.repeat(256), 'x'.repeat(512), 'é'.repeat(256), '😀'.repeat(128)]
  const bad = [
    '',
    'a\0b',
    '\0',
    'x'.repeat(513),
    'é'.repeat(257),
    `${'😀'.repeat(128)}x`,
    '\ud83d',
    'a\ude00',
    'x'.repeat(5_000),
  ]

  it.each([...good, ...long])('%j is a key, and comes back as it was asked', async (key) => {
    const { memory, client } = setUp()
    const leases = client()
    const lease = await leases.acquire(key)
    expect([lease.key, lease.grant.key, (await memory.inspect(key))?.key]).toEqual([key, key, key])
    expect(await leases.tryAcquire(`${key.slice(0, 4)}.`)).not.toBeNull()
    await lease.renew()
    expect(await lease.release()).toEqual({ is: 'released' })
  })

  it.each([...bad, undefined, null, 5, {}, ['k']])('%j is refused before anything is sent', async (key) => {
    const { net, client } = setUp()
    const leases = client()
    for (const call of [
      leases.acquire(key as string),
      leases.tryAcquire(key as string),
      leases.hold(key as string, () => 1),
      leases.tryHold(key as string, () => 1),
      leases.coalesce(key as string, () => 1),
    ])
      await expect(call).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option: 'key', value: key })
    expect(net.calls).toEqual([])
  })

  it('count with their prefix, and are not changed by it', async () => {
    const { net, client } = setUp()
    const leases = client({ prefix: 'p'.repeat(500) })
    expect((await leases.acquire('x'.repeat(12))).key).toBe('x'.repeat(12))
    await expect(leases.acquire('x'.repeat(13))).rejects.toMatchObject({ option: 'key' })
    expect(net.callsOf('acquire')).toHaveLength(1)
  })

  it('must fit the store', async () => {
    const memory = memoryStore()
    const store = { ...memory, capabilities: { ...memory.capabilities, keyBytesMax: 63 } }
    const leases = createLeases({ store })
    expect((await leases.acquire('x'.repeat(63), { renew: false })).held).toBe(true)
    await expect(leases.acquire('x'.repeat(64))).rejects.toMatchObject({ option: 'key' })
  })

  it('checkKey and checkHolder take what they should', () => {
    expect(() => checkKey('key', 'k')).not.toThrow()
    expect(() => checkKey('key', 'xxxx', 3)).toThrow(/at most 3 bytes/)
    expect(() => checkHolder('host:1')).not.toThrow()
    expect(() => checkHolder('\ud800')).toThrow(InvalidArgumentError)
  })
})
