// Which stores make a quorum, who is refused, and what the whole can do.
import { describe, expect, it } from 'vitest'
import { InvalidArgumentError, type LeaseStore } from '../../src/index.js'
import { memoryCapabilities, memoryStore } from '../../src/stores/memory/index.js'
import { quorumStore } from '../../src/stores/quorum/index.js'
import { VirtualClock } from '../../src/testing/index.js'
import { isGranted, show, world } from './world.js'

const stores = (n: number) => Array.from({ length: n }, () => memoryStore())

describe('quorumStore refuses', () => {
  const one = memoryStore()
  it.each<[string, string, () => unknown]>([
    ['no list', 'stores', () => quorumStore(one as never)],
    ['an empty list', 'stores', () => quorumStore([])],
    ['what is no store', 'stores[1]', () => quorumStore([one, {} as never])],
    ['null', 'stores[0]', () => quorumStore([null as never])],
    ['the same store twice (C35)', 'stores[2]', () => quorumStore([one, memoryStore(), one])],
    [
      'a store without tokenFloor',
      'stores[1]',
      () => quorumStore([one, { ...memoryStore(), capabilities: { ...memoryCapabilities, tokenFloor: false } }]),
    ],
    [
      'a store that only observes expiry',
      'stores[0]',
      () => quorumStore([{ ...memoryStore(), capabilities: { ...memoryCapabilities, clock: 'observed' } }]),
    ],
    ['a time-out of 0', 'nodeTimeoutMs', () => quorumStore([one], { nodeTimeoutMs: 0 })],
    ['a time-out that is none', 'nodeTimeoutMs', () => quorumStore([one], { nodeTimeoutMs: Number.NaN })],
    ['a wait for stores that cannot tell', 'stores[0]', () => quorumStore([one], { waitAfterLossMs: 1_000 })],
    ['a wait that is none', 'waitAfterLossMs', () => quorumStore([one], { waitAfterLossMs: -1 })],
    ['closeStores that is no boolean', 'closeStores', () => quorumStore([one], { closeStores: 1 as never })],
  ])('%s', (_, option, make) => {
    expect(make).toThrow(InvalidArgumentError)
    expect(make).toThrow(option)
  })

  it('two nodes that are one server, at the first use, and never counts both (C35)', async () => {
    const { client, servers, holders, clock } = world(2)
    const one = client({ places: [0, 1, 0] })
    one.cut(1)
    const first = await one.acquire('a')
    expect(first, show(first)).toMatchObject({ code: 'INVALID_ARGUMENT', option: 'stores[2]' })
    expect(await one.acquire('b')).toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect((await one.ask(one.store.renew([{ key: 'k', claim: 'a', ttlMs: 1 }]))).answer).toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
    await clock.advance(1_000)
    expect(await holders()).toEqual([undefined, undefined])
    expect(servers).toHaveLength(2)
  })

  it('nobody because a node cannot be asked who it is: it has no vote until then', async () => {
    const { client } = world(3)
    const one = client()
    let down = true
    const to = one.to[2] as LeaseStore
    Object.assign(to, { serverId: async () => (down ? Promise.reject(new Error('down')) : 'server 2') })
    expect(isGranted(await one.acquire('a'))).toBe(true)
    expect(one.to[2]?.callsOf('acquire')).toHaveLength(0)
    down = false
    expect(await one.released('a')).toBe('released')
    expect(isGranted(await one.acquire('b'))).toBe(true)
    expect(one.to[2]?.callsOf('acquire')).toHaveLength(1)
  })
})

describe('members', () => {
  it('may differ by one between two clients: their majorities still meet (C35)', async () => {
    const { client } = world(4)
    const old = client({ places: [0, 1, 2] })
    const grown = client()
    expect(isGranted(await old.acquire('a'))).toBe(true)
    grown.cut(0)
    expect(isGranted(await grown.acquire('b'))).toBe(false)
    expect(isGranted(await grown.acquire('c'))).toBe(false)
  })
})

describe('capabilities', () => {
  it('are what every node can, and the loss of a minority from three on', () => {
    const three = quorumStore(stores(3)).capabilities
    expect(three).toMatchObject({
      tokens: 'microseconds',
      fair: false,
      tokenFloor: true,
      wakeUp: 'push',
      clock: 'injected',
    })
    expect(three.holdSurvives).toEqual(['client restart', 'fail-over'])
    expect(three.tokensSurvive).toEqual(['pruning', 'fail-over'])
    expect(quorumStore(stores(2)).capabilities.holdSurvives).toEqual(['client restart'])
  })

  it('take the worst of the nodes, and watch when a majority can', () => {
    const { watch: _, ...mute } = memoryStore()
    const slow = {
      ...mute,
      capabilities: {
        ...memoryCapabilities,
        ttlMsMin: 50,
        ttlMsGrain: 1_000,
        keyBytesMax: 100,
        wakeUp: 'poll' as const,
        clock: 'server' as const,
        tokensSurvive: ['pruning', 'data loss'] as const,
      },
    }
    const mixed = quorumStore([memoryStore(), slow, memoryStore()])
    expect(mixed.capabilities).toMatchObject({ ttlMsMin: 50, ttlMsGrain: 1_000, keyBytesMax: 100, wakeUp: 'push' })
    expect(mixed.capabilities.tokensSurvive).toEqual(['pruning', 'fail-over'])
    expect(mixed.watch).toBeDefined()
    expect(quorumStore([memoryStore(), slow]).watch).toBeUndefined()
  })
})

describe('records', () => {
  it('show a key as held only when a majority keeps it, and list it once', async () => {
    const { client, servers } = world(3)
    const one = client()
    await servers[0]?.connect().acquire(one.request('x', { key: 'minority' }))
    await one.granted('a', { key: 'held' })
    const look = async (key: string) => (await one.ask(one.store.inspect(key))).answer
    expect(await look('minority')).toMatchObject({ state: 'free', remainingMs: 0 })
    expect(await look('held')).toMatchObject({ state: 'held', claim: 'a' })
    expect(await look('never')).toBeNull()
    const listed = async (free = false) => {
      const keys: string[] = []
      for await (const { key } of one.store.list({ free })) keys.push(key)
      return keys
    }
    expect((await one.ask(listed())).answer).toEqual(['held'])
    expect((await one.ask(listed(true))).answer).toEqual(['held', 'minority'])
    one.cut(2)
    expect((await one.ask(listed())).answer).toEqual(['held', 'minority']) // node 2 may have it
    one.cut(1)
    expect((await one.ask(listed())).answer).toMatchObject({ code: 'STORE_ERROR' })
  })

  it('tell until when a majority keeps it', async () => {
    const clock = new VirtualClock()
    const nodes = Array.from({ length: 3 }, () => memoryStore({ clock }))
    for (const [i, node] of nodes.entries())
      await node.acquire({ key: 'k', claim: 'a', holder: 'a', ttlMs: 1_000 * (i + 1) })
    const store = quorumStore(nodes, { clock })
    expect(await store.inspect('k')).toMatchObject({ state: 'held', remainingMs: 1_000 })
    await clock.advance(1_500)
    expect(await store.inspect('k')).toMatchObject({ state: 'held' })
    await clock.advance(1_000)
    expect(await store.inspect('k')).toMatchObject({ state: 'free' })
  })
})

describe('close', () => {
  it('closes the nodes, or leaves them to others', async () => {
    const kept = stores(3)
    await quorumStore(kept, { closeStores: false }).close()
    expect(await kept[0]?.inspect('k')).toBeNull()
    await quorumStore(kept).close()
    await expect(kept[2]?.inspect('k')).rejects.toMatchObject({ code: 'STORE_ERROR' })
  })
})
