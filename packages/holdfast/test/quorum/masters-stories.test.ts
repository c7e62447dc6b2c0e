// What a quorum is for, on real masters: each story with the real quorum, and with a naive one whose habit it is about, which
// must fail it.
import { describe, expect, it } from 'vitest'
import { type Granted, type Held, type LeaseStore, systemClock } from '../../src/index.js'
import { quorumStore } from '../../src/stores/quorum/index.js'
import { fresh, grantOf, HOUR_MS, request } from '../redis/harness.js'
import { pass, waitUntil } from '../redis/servers.js'
import { claimsOf, granted, Quorums, type Reach } from './harness.js'
import { good, naive, naiveQuorum } from './naive.js'
import type { MakeQuorum } from './world.js'

type Answer = Granted | Held | Error
const ask = (store: LeaseStore, key: string, claim: string, ttlMs = HOUR_MS): Promise<Answer> =>
  store.acquire(request(key, claim, { ttlMs })).catch((error: Error) => error)
const isGranted = (answer: Answer) => !(answer instanceof Error) && answer.is === 'granted'

const quorums = Quorums.here(5)
const reach = async (make: MakeQuorum, nodeTimeoutMs: number, nodes = 5): Promise<Reach> => {
  const made = await quorums.reach({ nodeTimeoutMs }, quorums.masters.ports.slice(0, nodes), make)
  for (const node of made.nodes) await node.inspect('warm-up')
  await ask(made.store, fresh('warm-up'), 'warm-up')
  return made
}
const cut = ({ proxies }: Reach, ...places: number[]) => {
  for (const place of places) proxies[place]?.hang()
}

interface Story {
  readonly title: string
  readonly habit: keyof typeof naive
  run(make: MakeQuorum): Promise<void>
}

const stories: Story[] = [
  {
    title: 'C35: the net splits in two and three: the two are no majority, whoever answers',
    habit: 'counts over the servers that answer',
    async run(make) {
      const [one, two] = [await reach(make, 1_500), await reach(make, 1_500)]
      cut(one, 2, 3, 4)
      cut(two, 0, 1)
      const key = fresh()
      expect(isGranted(await ask(one.store, key, 'a'))).toBe(false)
      expect(isGranted(await ask(two.store, key, 'b'))).toBe(true)
    },
  },
  {
    title: 'C35: two of four nodes are no majority, three are',
    habit: 'a majority is half',
    async run(make) {
      const [one, two] = [await reach(make, 1_500, 4), await reach(make, 1_500, 4)]
      cut(one, 0, 1)
      cut(two, 2, 3)
      const key = fresh()
      const answers = [await ask(one.store, key, 'a'), await ask(two.store, key, 'b')]
      expect(answers.filter(isGranted)).toEqual([])
      const three = await reach(make, 5_000, 4)
      cut(three, 3)
      expect(isGranted(await ask(three.store, fresh(), 'c'))).toBe(true)
    },
  },
  {
    title: 'C08: what a minority gave to one who got no majority is taken back before its term is over',
    habit: 'withdraws nothing',
    async run(make) {
      const [holder, other] = [await reach(make, 5_000), await reach(make, 5_000)]
      const key = fresh()
      cut(holder, 3, 4)
      expect(isGranted(await ask(holder.store, key, 'holder'))).toBe(true)
      for (const place of [0, 1, 2]) other.proxies[place]?.slow(100, 'toClient') // the votes of 3 and 4 come first
      expect(await ask(other.store, key, 'other')).toMatchObject({ is: 'held' })
      await waitUntil('nothing of it', async () => !(await claimsOf(other.nodes, key)).includes('other'), 5_000)
    },
  },
  {
    title:
      'C54: nodes that disagree about the token: a later majority that shares only the node with the smaller one answers more',
    habit: 'writes nothing back',
    async run(make) {
      const one = await reach(make, 5_000, 3)
      const key = fresh()
      const far = 2 ** 52
      await one.nodes[0]?.acquire(request(key, 'x', { tokenFloor: far }))
      await one.nodes[0]?.withdraw(key, 'x')
      one.proxies[2]?.hang()
      const first = await granted(one.store, key, 'a')
      expect(first).toBeGreaterThan(far)
      await one.store.release(grantOf(key, 'a', first))
      const two = await reach(make, 5_000, 3)
      two.proxies[0]?.hang()
      await waitUntil('the release', async () => (await two.nodes[1]?.inspect(key))?.state === 'free')
      expect(await granted(two.store, key, 'b')).toBeGreaterThan(first)
    },
  },
  {
    title: 'C10: a majority that answers after 120 % of the ttl is a failure',
    habit: 'never looks at the time',
    async run(make) {
      const one = await reach(make, 10_000)
      for (const proxy of one.proxies.slice(0, 3)) proxy.slow(600, 'toClient')
      expect(await ask(one.store, fresh(), 'a', 500)).toMatchObject({ code: 'STORE_ERROR' })
    },
  },
  {
    title: 'a node that hangs is not waited for',
    habit: 'waits for all',
    async run(make) {
      const one = await reach(make, 12_000)
      cut(one, 1)
      const startMs = systemClock.monoMs()
      expect(isGranted(await ask(one.store, fresh(), 'a'))).toBe(true)
      expect(systemClock.monoMs() - startMs).toBeLessThan(10_000) // not one node time-out
    },
  },
  {
    title: 'C34: a lease whose majority lost it is lost, and given back to nobody',
    habit: 'heals whatever the others say',
    async run(make) {
      const one = await reach(make, 5_000)
      const key = fresh()
      await granted(one.store, key, 'a')
      await waitUntil('the grant everywhere', async () =>
        (await claimsOf(one.nodes, key)).every((claim) => claim === 'a'),
      )
      for (const place of [0, 1, 2]) {
        await quorums.masters.at(place).kill()
        await quorums.masters.at(place).start()
      }
      const [outcome] = await waitUntil('an answer', async () => {
        const outcomes = await one.store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }]).catch(() => [])
        return outcomes[0]?.is === 'unknown' ? undefined : outcomes
      })
      expect(outcome).toMatchObject({ is: 'lost' })
      await pass(100) // for what is healed in the background
      expect(await claimsOf(one.nodes.slice(0, 3), key)).toEqual([undefined, undefined, undefined])
    },
  },
]

const byTitle = stories.map((story): [string, Story] => [story.title, story])

describe('on real masters', () => {
  it.each(byTitle)('%s', async (_, { run }) => run(quorumStore))
})

describe('a naive quorum', () => {
  it.each(byTitle)('without a bad habit: %s', async (_, { run }) => run(naiveQuorum(good)))

  it.each(byTitle)('fails when that is its habit: %s', async (_, { run, habit }) => {
    await expect(run(naiveQuorum({ ...good, ...naive[habit] }))).rejects.toThrow()
  })
})

describe('contenders who ask at the same moment', () => {
  /** Each is quick to a part of the nodes, and slow to the others: the vote is split. */
  async function split(masters: number, parts: readonly (readonly number[])[]) {
    const contenders = await Promise.all(parts.map(() => reach(quorumStore, 5_000, masters)))
    for (const [i, { proxies }] of contenders.entries())
      for (const [place, proxy] of proxies.entries()) if (!parts[i]?.includes(place)) proxy.slow(60, 'toServer')
    const key = fresh()
    const answers = await Promise.all(contenders.map(({ store }, i) => ask(store, key, `c${i}`)))
    return { key, answers, contenders }
  }

  it.each([
    [
      'two of four nodes each',
      4,
      [
        [0, 1],
        [2, 3],
      ],
    ],
    ['one of three nodes each', 3, [[0], [1], [2]]],
    ['two, two and one of five nodes', 5, [[0, 1], [2, 3], [4]]],
  ] as const)('%s: one is in, the others are refused, and their votes are given back', async (_, masters, parts) => {
    const { key, answers, contenders } = await split(masters, parts)
    expect(answers.filter(isGranted)).toHaveLength(1)
    const winner = `c${answers.findIndex(isGranted)}`
    await waitUntil('one claim at a majority', async () => {
      const claims = await claimsOf(contenders[0]?.nodes ?? [], key)
      return claims.every((claim) => claim === undefined || claim === winner)
    })
  })
})
