// Runs a benchmark: a warm-up round that is thrown away, then the counted rounds.
import type { Benchmark, Metrics } from './benchmark.js'
import { collectGarbage } from './heap.js'
import { orderOf } from './order.js'

/** What one subject measured in one round. */
export interface Sample {
  readonly subject: string
  /** Counted from 0; the warm-up is not among them. */
  readonly round: number
  readonly metrics: Metrics
}

/** A sample of the warm-up is no longer than this. */
const WARM_UP_SECONDS = 2

export interface Pace {
  readonly rounds: number
  readonly seconds: number
  /** Told before each round; 0 is the warm-up. */
  onRound?(round: number): void
}

/** The samples of the counted rounds. Rejects with what a subject threw, after its teardown. */
export async function runRounds({ subjects }: Benchmark, { rounds, seconds, onRound }: Pace): Promise<Sample[]> {
  const samples: Sample[] = []
  for (let round = 0; round <= rounds; round++) {
    onRound?.(round)
    for (const subject of orderOf(subjects, round)) {
      await subject.setup?.()
      try {
        collectGarbage() // nobody pays for what the one before left behind
        const metrics = await subject.run(round === 0 ? Math.min(seconds, WARM_UP_SECONDS) : seconds)
        if (round > 0) samples.push({ subject: subject.name, round: round - 1, metrics })
      } finally {
        await subject.teardown?.()
      }
    }
  }
  return samples
}
