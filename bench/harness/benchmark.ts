// What a benchmark is: a module in bench/benchmarks whose default export is one of these. The harness owns rounds, order,
// statistics and output, so that a benchmark says only what is measured, and against what.

/** One number that a run gives. */
export interface Measure {
  readonly value: number
  readonly unit: string
}

/** What one run measured, by the name of the metric. */
export type Metrics = Readonly<Record<string, Measure>>

/** One of the things compared. Each sample is setup, run, teardown, while no other subject is set up. */
export interface Subject {
  readonly name: string
  /** The subject that this one is compared with, where it is not the benchmark's floor. */
  readonly floor?: string
  setup?(): Promise<void> | void
  /** Measures for about so many seconds. */
  run(seconds: number): Promise<Metrics> | Metrics
  teardown?(): Promise<void> | void
}

/** What a metric of a subject has to reach: its median, or its ratio to the floor. */
export interface Target {
  readonly subject: string
  readonly metric: string
  readonly of: 'median' | 'ratio'
  readonly atLeast?: number
  readonly atMost?: number
}

export interface Benchmark {
  readonly name: string
  /** One line: what is measured. */
  readonly title: string
  /** The subject that the others are compared with. */
  readonly floor: string
  readonly subjects: readonly Subject[]
  /** Other people's libraries: run as well with `--peers`, where they are installed. */
  readonly peers?: readonly Subject[]
  /** Counted rounds, at least five. Default 5. */
  readonly rounds?: number
  /** The length of one sample. Default 1. */
  readonly seconds?: number
  readonly targets?: readonly Target[]
  /** Printed under the table: what a reader must know to read it right. */
  readonly notes?: readonly string[]
}

export const ROUNDS_MIN = 5
export const SECONDS = 1
