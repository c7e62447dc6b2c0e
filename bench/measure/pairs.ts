// Pairs of acquire and release, one after the other, for a while. The event loop turns every few ms, as in a real program.
import { setImmediate } from 'node:timers/promises'
import type { Metrics } from '../harness/benchmark.js'
import { percentile } from '../harness/statistics.js'
import { cpuTime } from './cpu.js'

const PAIRS_PER_TURN = 64

/**
 * Before the count begins, for so long and so many pairs, but no longer than the last: the collection between two samples throws
 * compiled code away, and compiling it anew, which takes some thousand pairs, is no part of what a pair costs.
 */
const UNCOUNTED_SHARE = 0.5
const UNCOUNTED_PAIRS = 8_000
const UNCOUNTED_SHARE_MAX = 6

type Pair = (n: number) => Promise<unknown> | undefined

/** Pairs a second, and the CPU time of one pair: the latter says more on a machine that others use too. */
export async function pairsFor(seconds: number, pair: Pair): Promise<Metrics> {
  const before = await loop(1000 * seconds * UNCOUNTED_SHARE, pair, 0)
  const startMs = performance.now()
  const usedMs = cpuTime()
  const pairs = (await loop(1000 * seconds, pair, before)) - before
  return {
    pairs: { value: (1000 * pairs) / (performance.now() - startMs), unit: 'pairs/s' },
    'CPU time': { value: (1000 * usedMs()) / pairs, unit: 'µs/pair' },
  }
}

/** Does pairs for so long. Gives the number of the next. */
async function loop(ms: number, pair: Pair, first: number): Promise<number> {
  const endMs = performance.now() + ms
  let n = first
  while (performance.now() < endMs) {
    for (let i = 0; i < PAIRS_PER_TURN; i++) {
      const done = pair(n++)
      if (done !== undefined) await done
    }
    await setImmediate()
  }
  return n
}

/** Pairs with so many in flight at once, each worker on keys of its own; also how long a pair takes, in ms. */
export async function pairsInFlight(
  seconds: number,
  workers: number,
  pair: (worker: number, n: number) => Promise<unknown>,
): Promise<Metrics> {
  const uncounted = (share: number, pairs: number) => keepInFlight(1000 * seconds * share, workers, pair, pairs)
  const { length: warm } = await uncounted(UNCOUNTED_SHARE, Number.POSITIVE_INFINITY)
  if (warm < UNCOUNTED_PAIRS) await uncounted(UNCOUNTED_SHARE_MAX, UNCOUNTED_PAIRS - warm)
  const startMs = performance.now()
  const usedMs = cpuTime()
  const took = await keepInFlight(1000 * seconds, workers, pair)
  const tookMs = performance.now() - startMs
  return {
    pairs: { value: (1000 * took.length) / tookMs, unit: 'pairs/s' },
    'CPU time': { value: (1000 * usedMs()) / took.length, unit: 'µs/pair' },
    'median pair': { value: percentile(took, 0.5), unit: 'ms' },
    'p99 pair': { value: percentile(took, 0.99), unit: 'ms' },
  }
}

/** Every worker does pairs for so long, until there are so many. Gives how long each pair took, in ms. */
async function keepInFlight(
  ms: number,
  workers: number,
  pair: (worker: number, n: number) => Promise<unknown>,
  most = Number.POSITIVE_INFINITY,
): Promise<number[]> {
  const startMs = performance.now()
  const endMs = startMs + ms
  const took: number[] = []
  const work = async (worker: number) => {
    for (let n = 0, nowMs = startMs; nowMs < endMs && took.length < most; n++) {
      const sentMs = nowMs
      await pair(worker, n)
      nowMs = performance.now()
      took.push(nowMs - sentMs)
    }
  }
  await Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)))
  return took
}
