// From samples to rows: one for each subject and metric, with its ratio to the floor.
import type { Benchmark } from './benchmark.js'
import type { Sample } from './run.js'
import { ratios, spread } from './statistics.js'

/** A row of the table and of the JSON file. */
export interface Row {
  readonly subject: string
  readonly metric: string
  readonly unit: string
  readonly median: number
  readonly min: number
  readonly max: number
  /** The median over the rounds of subject / floor in the same round, and its range; null when the floor has no such number. */
  readonly ratio: number | null
  readonly ratioMin: number | null
  readonly ratioMax: number | null
}

/** The rows, subject by subject in the benchmark's order. */
export function rowsOf(benchmark: Benchmark, samples: readonly Sample[]): Row[] {
  return benchmark.subjects.flatMap((subject) => {
    const own = samplesOf(samples, subject.name)
    const floor = samplesOf(samples, subject.floor ?? benchmark.floor)
    return Object.entries(own[0]?.metrics ?? {}).map(([metric, { unit }]): Row => {
      const values = own.map((sample) => sample.metrics[metric]?.value ?? Number.NaN)
      const ratio = ratios(
        values,
        floor.map((sample) => sample.metrics[metric]?.value),
      )
      return {
        subject: subject.name,
        metric,
        unit,
        ...spread(values),
        ratio: ratio?.median ?? null,
        ratioMin: ratio?.min ?? null,
        ratioMax: ratio?.max ?? null,
      }
    })
  })
}

function samplesOf(samples: readonly Sample[], subject: string): Sample[] {
  return samples.filter((sample) => sample.subject === subject).sort((a, b) => a.round - b.round)
}
