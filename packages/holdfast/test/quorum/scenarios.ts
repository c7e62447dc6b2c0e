// What a quorum is for, each as a story that some naive quorum gets wrong: run with the real one, and with the naive ones.
import { expect } from 'vitest'
import { expectStoreError, isGranted, type MakeQuorum, NODE_TIMEOUT_MS, TTL_MS, tokenAt, world } from './world.js'

export interface Scenario {
  readonly title: string
  run(make: MakeQuorum): Promise<void>
}

export const scenarios = {
  'C35.1': {
    title: 'five nodes, client 1 starts without two of them, then the net splits: one holder at most (C35)',
    async run(make) {
      const { client, majorityHolds, clock } = world(5, make)
      const one = client()
      const two = client()
      one.cut(3, 4)
      await one.acquire('warm-up', { key: 'other' })
      one.cut(2)
      two.cut(0, 1)
      const first = await one.acquire('a')
      const second = await two.acquire('b')
      expectStoreError(first, 'unknown')
      expect(second).toMatchObject({ is: 'granted' })
      expect(await majorityHolds()).toEqual(['b'])
      await clock.advance(1)
    },
  },
  'C35.3 two': {
    title: 'one of two nodes is no majority (C35)',
    async run(make) {
      const { client } = world(2, make)
      const one = client()
      const two = client()
      one.cut(1)
      two.cut(0)
      expectStoreError(await one.acquire('a'), 'unknown')
      expectStoreError(await two.acquire('b'), 'unknown')
    },
  },
  'C35.3 four': {
    title: 'two of four nodes are no majority, three are (C35)',
    async run(make) {
      const { client } = world(4, make)
      const one = client()
      const two = client()
      one.cut(2, 3)
      two.cut(0, 1)
      const answers = [await one.acquire('a'), await two.acquire('b')]
      expect(answers.filter(isGranted)).toEqual([])
      const three = client({ places: [0, 1, 2, 3] })
      await one.ask(one.store.withdraw('k', 'a').catch(() => undefined))
      await two.ask(two.store.withdraw('k', 'b').catch(() => undefined))
      three.cut(0)
      expect(await three.acquire('c')).toMatchObject({ is: 'granted' })
    },
  },
  'C10.4': {
    title: 'a majority that answers after 120 % of the ttl: a failure, never a lease, and nothing is left of it (C10)',
    async run(make) {
      const { client, clock, holders } = world(3, make, { nodeTimeoutMs: 60_000 })
      const one = client()
      for (const place of [1, 2]) one.to[place]?.next('acquire', { delayBeforeMs: 1.2 * TTL_MS })
      expectStoreError(await one.acquire('a'), 'unknown') // it was granted
      await clock.advance(1)
      expect(await holders()).toEqual([undefined, undefined, undefined])
    },
  },
  withdrawal: {
    title: 'what was given to one who got no majority is taken back on every node, also where it arrives later (C08)',
    async run(make) {
      const { client, clock, servers, holders } = world(5, make)
      const one = client()
      const two = client()
      two.cut(0, 1)
      await two.granted('b') // on 2, 3 and 4
      one.cut(1)
      one.to[0]?.always('acquire', { delayAfterMs: 1 })
      const refused = await one.acquire('a')
      expect(refused).toMatchObject({ is: 'held', holder: 'holder of b' })
      await clock.advance(10 * NODE_TIMEOUT_MS)
      one.heal(1)
      await clock.advance(10_000 - 11 * NODE_TIMEOUT_MS)
      expect(await servers[0]?.holder()).toBeUndefined()
      expect(await servers[1]?.holder()).toBeUndefined()
      expect((await holders()).filter((claim) => claim === 'a')).toEqual([])
    },
  },
  'split vote': {
    title: 'contenders who split the vote of three nodes: one of them is in at once, not after a ttl',
    async run(make) {
      const { client, clock } = world(3, make)
      const contenders = [0, 1, 2].map((place) => {
        const one = client()
        // Each is quick to a node of its own.
        for (const [node, to] of one.to.entries())
          if (node !== place) to.next('acquire', { delayBeforeMs: 5, delayAfterMs: 5 })
        return one
      })
      const asked = contenders.map((one, i) => one.store.acquire(one.request(`c${i}`)))
      const answers = await clock.advanceUntil(
        Promise.all(asked.map((answer) => answer.catch((error) => error))),
        1_000,
      )
      expect(answers.filter(isGranted)).toHaveLength(1)
    },
  },
  'even split': {
    title: 'two of four nodes each: both are answered, one of them is in, nobody waits for ever',
    async run(make) {
      const { client, clock } = world(4, make)
      const contenders = [0, 2].map((place) => {
        const one = client()
        for (const [node, to] of one.to.entries())
          if (node !== place && node !== place + 1) to.next('acquire', { delayBeforeMs: 5, delayAfterMs: 5 })
        return one
      })
      const asked = contenders.map((one, i) => one.store.acquire(one.request(`c${i}`)))
      const answers = await clock.advanceUntil(
        Promise.all(asked.map((answer) => answer.catch((error) => error))),
        1_000,
      )
      expect(answers.filter(isGranted)).toHaveLength(1)
    },
  },
  'write-back': {
    title: 'nodes that disagree about the token: the greatest is written back, and the next is greater still (C54)',
    async run(make) {
      const { client, servers } = world(3, make)
      const one = client()
      const far = 2 ** 52
      await servers[0]?.connect().acquire(one.request('x', { tokenFloor: far }))
      await servers[0]?.connect().withdraw('k', 'x')
      // Node 0 has seen a greater token than the others: a is granted by 0 and 1.
      one.cut(2)
      const first = await one.granted('a')
      expect(first.token).toBeGreaterThan(far)
      expect(await tokenAt(servers[0])).toBe(first.token)
      expect(await tokenAt(servers[1])).toBe(first.token)
      await one.released('a')
      one.heal(2)
      const two = client()
      two.cut(0)
      expect((await two.granted('b')).token).toBeGreaterThan(first.token)
    },
  },
  'hung node': {
    title: 'one hung node of three delays neither yes nor no, neither renewal nor release',
    async run(make) {
      const { client } = world(3, make)
      const one = client()
      one.cut(1)
      expect(await one.ask(one.store.acquire(one.request('a')))).toMatchObject({ answer: { is: 'granted' }, tookMs: 0 })
      expect(await one.ask(one.store.acquire(one.request('b')))).toMatchObject({ answer: { is: 'held' }, tookMs: 0 })
      const renewal = one.store.renew([{ key: 'k', claim: 'a', ttlMs: TTL_MS }])
      expect(await one.ask(renewal)).toMatchObject({ answer: [{ is: 'renewed' }], tookMs: 0 })
      const release = one.store.release({ key: 'k', claim: 'a', token: 1, holder: 'a' })
      expect(await one.ask(release)).toMatchObject({ answer: { is: 'released' }, tookMs: 0 })
    },
  },
  'revival by healing': {
    title:
      'a lease whose majority lost it is not given back to anybody: it is lost, and the next gets a bigger token (C34)',
    async run(make) {
      const { client, servers, clock, holders } = world(3, make)
      const one = client()
      const first = await one.granted('a')
      servers[0]?.restartEmpty()
      servers[1]?.restartEmpty()
      expect(await one.renewed('a')).toBe('lost: expired')
      await clock.advance(10 * NODE_TIMEOUT_MS)
      expect(await holders()).toEqual([undefined, undefined, undefined])
      expect((await client().granted('b')).token).toBeGreaterThan(first.token)
    },
  },
} satisfies Record<string, Scenario>

export type ScenarioName = keyof typeof scenarios
