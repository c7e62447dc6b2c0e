// Which stores make a quorum, who is refused, and what the whole can do.
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'libsql'
import { describe, expect, it } from 'vitest'
import { InvalidArgumentError, type LeaseStore } from '../../src/index.js'
import { memoryCapabilities, memoryStore } from '../../src/stores/memory/index.js'
import { quorumStore } from '../../src/stores/quorum/index.js'
import { sqliteStore } from '../../src/stores/sqlite/index.js'
import { faultyStore, VirtualClock } from '../../src/testing/index.js'
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

describe('which server a node is', () => {
  /** Three memory nodes, each of which may be told to lead elsewhere, or to say nothing of itself. */
  const named = () => {
    const clock = new VirtualClock()
    const ids = ['a', 'b', 'c']
    const asked = [0, 0, 0]
    const hung = new Set<number>()
    const nodes = ids.map((_, place) => {
      const to = faultyStore(memoryStore({ clock }), { clock })
      return Object.assign(to, {
        serverId: () => {
          asked[place] = (asked[place] ?? 0) + 1
          return hung.has(place) ? new Promise<string>(() => {}) : Promise.resolve(ids[place] ?? '')
        },
      })
    })
    const store = quorumStore(nodes, { clock, nodeTimeoutMs: 100 })
    const acquire = (key: string) =>
      clock.advanceUntil(
        store.acquire({ key, claim: `claim of ${key}`, holder: 'h', ttlMs: 10_000 }).catch((error: unknown) => error),
      )
    return { clock, ids, asked, hung, nodes, store, acquire }
  }

  it('is asked once, however many requests begin at the same moment', async () => {
    const { acquire, asked } = named()
    await Promise.all(['k1', 'k2', 'k3'].map(acquire))
    await acquire('k4')
    expect(asked).toEqual([1, 1, 1])
  })

  it('is asked again after a failure: one that leads to the server of another has no vote from then on (C35)', async () => {
    const { acquire, ids, nodes } = named()
    await acquire('k1')
    ids[2] = 'a'
    for (const node of nodes.slice(1)) node.next('acquire', { dropBefore: 'error' })
    expect(await acquire('k2')).toMatchObject({ code: 'STORE_ERROR' })
    nodes[1]?.hang('acquire')
    const refused = await acquire('k3')
    expect(refused).toMatchObject({ code: 'STORE_ERROR' })
    expect(String(refused)).toContain('node 2 leads to the server of node 0 now')
    nodes[1]?.heal()
    expect(await acquire('k4')).toMatchObject({ is: 'granted' })
    expect(nodes[2]?.callsOf('acquire')).toHaveLength(2)
  })

  it('is all that a node which hangs is asked, and one question at a time', async () => {
    const { acquire, asked, hung, nodes, clock } = named()
    await acquire('warm-up')
    nodes[2]?.hang()
    hung.add(2)
    await acquire('k0') // is sent, and found to hang
    await clock.advance(200)
    const before = nodes[2]?.calls.length
    for (let i = 1; i <= 50; i++) expect(await acquire(`k${i}`)).toMatchObject({ is: 'granted' })
    expect(asked[2]).toBe(2)
    await clock.advance(150)
    await acquire('k51')
    expect(asked[2]).toBe(3) // the answer may have been lost
    expect(nodes[2]?.calls).toHaveLength(before ?? 0)
    hung.delete(2)
    await clock.advance(150)
    nodes[2]?.heal()
    await acquire('k52')
    expect(nodes[2]?.callsOf('acquire').at(-1)?.request.key).toBe('k52')
  })

  it('is not asked for each request when its answers are so slow that one request has no time for both', async () => {
    const { acquire, nodes, clock, asked, store } = named()
    for (const node of nodes) {
      const tell = node.serverId
      node.serverId = () =>
        new Promise((resolve) => {
          clock.setTimer(60, () => resolve(tell()))
        })
      node.always('acquire', { delayAfterMs: 60 })
    }
    expect(await acquire('k1')).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' })
    await store.withdraw('k1', 'claim of k1')
    expect(await acquire('k2')).toMatchObject({ is: 'granted' })
    expect(asked).toEqual([1, 1, 1])
  })

  it('is told by memory stores and SQLite files, also through a faulty network', async () => {
    const [one, two] = [memoryStore(), memoryStore()]
    const through = faultyStore(one)
    expect(await through.serverId?.()).toBe(await one.serverId())
    expect(await two.serverId()).not.toBe(await one.serverId())
    const doubled = quorumStore([one, through])
    const acquired = doubled.acquire({ key: 'k', claim: 'a', holder: 'a', ttlMs: 1_000 })
    await expect(acquired).rejects.toMatchObject({ option: 'stores[1]' })
    expect(faultyStore({ ...one, serverId: undefined } as never).serverId).toBeUndefined()
    expect(await faultyStore({ ...one, keptForMs: async () => 7 }).keptForMs?.()).toBe(7)

    const folder = mkdtempSync(join(tmpdir(), 'holdfast-quorum-'))
    const file = sqliteStore({ path: join(folder, 'a.db'), Database })
    symlinkSync(join(folder, 'a.db'), join(folder, 'same.db'))
    const same = sqliteStore({ path: join(folder, 'same.db'), Database })
    const other = sqliteStore({ path: join(folder, 'b.db'), Database })
    expect(await same.serverId()).toBe(await file.serverId())
    expect(await other.serverId()).not.toBe(await file.serverId())
    for (const store of [file, same, other]) await store.close()
    rmSync(folder, { recursive: true })
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
