// Contenders who ask at the same moment and split the votes, in virtual time: nobody has a majority, all want the key, and each
// has it soon, one after the other. Who is nearer to a node takes it first, again and again, so somebody has to give way.
import { describe, expect, it } from 'vitest'
import { createLeases } from '../../src/index.js'
import { quorumStore } from '../../src/stores/quorum/index.js'
import { seededRandom } from '../../src/testing/index.js'
import { good, naiveQuorum } from './naive.js'
import { type MakeQuorum, world } from './world.js'

const WORK_MS = 100

interface Split {
  readonly nodes: number
  /** Which nodes each contender is near to. */
  readonly near: readonly (readonly number[])[]
  /** How much farther the others are, for each contender. */
  readonly fartherMs: readonly number[]
  readonly seed: number
}

/** When each contender got in, in ms since all asked at once, and the most that were in at the same time. */
async function contend({ nodes, near, fartherMs, seed }: Split, make: MakeQuorum = quorumStore) {
  const { clock, client } = world(nodes, make, { nodeTimeoutMs: 1_000 })
  const startMs = clock.monoMs()
  const grantedMs: number[] = []
  let [inside, most] = [0, 0]
  const work = async () => {
    grantedMs.push(clock.monoMs() - startMs)
    most = Math.max(most, ++inside)
    await new Promise<void>((resolve) => {
      clock.setTimer(WORK_MS, resolve)
    })
    inside--
  }
  const ends = near.map((places, i) => {
    const { store, to } = client({ random: seededRandom(seed * 10 + i) })
    for (const [place, node] of to.entries())
      if (!places.includes(place)) node.always('acquire', { delayBeforeMs: fartherMs[i] ?? 0 })
    const leases = createLeases({ store, clock, random: seededRandom(seed * 100 + i), ttlMs: 5_000 })
    return leases.hold('k', { waitMs: 20_000 }, work)
  })
  await clock.advanceUntil(Promise.all(ends), 60_000)
  return { grantedMs, most }
}

/** Who is smaller by chance, and so who stays and who gives way, differs from seed to seed. */
const seeds = Array.from({ length: 25 }, (_, i) => i + 1)
const halves = [
  [0, 1],
  [2, 3],
] as const

/** Runs every seed. Gives the latest instant at which the last of the contenders got in. */
async function slowest(split: Omit<Split, 'seed'>, make?: MakeQuorum): Promise<number> {
  let latestMs = 0
  for (const seed of seeds) {
    const { grantedMs, most } = await contend({ ...split, seed }, make)
    expect(grantedMs).toHaveLength(split.near.length)
    expect(most).toBe(1)
    latestMs = Math.max(latestMs, ...grantedMs)
  }
  return latestMs
}

describe('an even split of four nodes', () => {
  it.each([
    ['5 ms farther for both', [5, 5]],
    ['100 ms farther for both', [100, 100]],
    ['200 ms farther for both', [200, 200]],
    ['100 ms farther for the one, 30 ms for the other', [100, 30]],
    ['30 ms farther for the one, 100 ms for the other', [30, 100]],
  ])('%s: both get in within a few rounds, one after the other', async (_, fartherMs) => {
    // The first: three tries of up to two rounds, if it comes to that. The other waits for its work, and asks once more.
    expect(await slowest({ nodes: 4, near: halves, fartherMs })).toBeLessThan(8 * Math.max(...fartherMs) + 2 * WORK_MS)
  })

  it('takes seconds where nobody is the first, and all try again after a moment of random length', async () => {
    const split = { nodes: 4, near: halves, fartherMs: [100, 100] }
    expect(await slowest(split, naiveQuorum(good))).toBeGreaterThan(5_000)
  })
})

describe('a split among three', () => {
  it.each([
    ['one of three nodes each', 3, [[0], [1], [2]]],
    ['two, two and one of five nodes', 5, [[0, 1], [2, 3], [4]]],
    [
      'two of six nodes each',
      6,
      [
        [0, 1],
        [2, 3],
        [4, 5],
      ],
    ],
  ] as const)('%s: all get in within a few rounds, one after the other', async (_, nodes, near) => {
    expect(await slowest({ nodes, near, fartherMs: [50, 50, 50] })).toBeLessThan(8 * 50 + 4 * WORK_MS)
  })
})
