// Pairs of acquire and release, one after the other, for a while. The event loop turns every few ms, as in a real program.
import { setImmediate } from 'node:timers/promises'
import type { Metrics } from '../harness/benchmark.js'
import { cpuTime } from './cpu.js'

const PAIRS_PER_TURN = 64

/** Pairs a second, and the CPU time of one pair: the latter says more on a machine that others use too. */
export async function pairsFor(seconds: number, pair: (n: number) => Promise<unknown> | undefined): Promise<Metrics> {
  const startMs = performance.now()
  const endMs = startMs + seconds * 1000
  const usedMs = cpuTime()
  let pairs = 0
  while (performance.now() < endMs) {
    for (let i = 0; i < PAIRS_PER_TURN; i++) {
      const done = pair(pairs++)
      if (done !== undefined) await done
    }
    await setImmediate()
  }
  const tookMs = performance.now() - startMs
  return {
    pairs: { value: (1000 * pairs) / tookMs, unit: 'pairs/s' },
    'CPU time': { value: (1000 * usedMs()) / pairs, unit: 'µs/pair' },
  }
}
