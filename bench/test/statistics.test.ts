import { describe, expect, it } from 'vitest'
import type { Benchmark } from '../harness/benchmark.js'
import { rowsOf } from '../harness/rows.js'
import type { Sample } from '../harness/run.js'
import { percentile, ratios, spread } from '../harness/statistics.js'
import { figure, table } from '../harness/table.js'
import { verdicts } from '../harness/targets.js'

describe('spread', () => {
  it('takes the middle of an odd count, by value and not by place or text', () => {
    expect(spread([100, 9, 20])).toEqual({ median: 20, min: 9, max: 100 })
  })

  it('takes the mean of the two in the middle of an even count', () => {
    expect(spread([4, 1, 2, 10])).toEqual({ median: 3, min: 1, max: 10 })
  })

  it('leaves its input as it is, and refuses an empty one', () => {
    const values = [3, 1, 2]
    spread(values)
    expect(values).toEqual([3, 1, 2])
    expect(() => spread([])).toThrow(RangeError)
  })
})

describe('ratios', () => {
  it('compares within the round: a machine that slows down for both changes nothing', () => {
    expect(ratios([80, 40, 8], [100, 50, 10])).toEqual({ median: 0.8, min: 0.8, max: 0.8 })
  })

  it('is the median of the ratios, not the ratio of the medians', () => {
    expect(ratios([1, 8, 9], [10, 10, 90])).toEqual({ median: 0.1, min: 0.1, max: 0.8 })
  })

  it('leaves out rounds without a floor, and is undefined when none has one', () => {
    expect(ratios([1, 2], [0, 4])).toEqual({ median: 0.5, min: 0.5, max: 0.5 })
    expect(ratios([1, 2], [undefined, 0])).toBeUndefined()
  })
})

describe('percentile', () => {
  it('is the nearest rank', () => {
    const values = Array.from({ length: 100 }, (_, i) => 100 - i)
    expect([0.5, 0.99, 1].map((share) => percentile(values, share))).toEqual([50, 99, 100])
    expect(percentile([], 0.99)).toBe(0)
  })
})

describe('rows', () => {
  const idle = { run: () => ({}) }
  const benchmark: Benchmark = {
    name: 'x',
    title: 'x',
    floor: 'bare',
    subjects: [
      { name: 'bare', ...idle },
      { name: 'library', ...idle },
      { name: 'other', floor: 'library', ...idle },
    ],
  }
  const sample = (subject: string, round: number, pairs: number): Sample => ({
    subject,
    round,
    metrics: {
      pairs: { value: pairs, unit: 'pairs/s' },
      ...(subject === 'bare' ? undefined : { waiters: { value: 1, unit: '' } }),
    },
  })
  // In the order in which an interleaved run gives them.
  const samples = [
    sample('bare', 0, 100),
    sample('library', 0, 50),
    sample('other', 0, 25),
    sample('other', 1, 10),
    sample('library', 1, 20),
    sample('bare', 1, 80),
  ] // prettier-ignore

  it('pairs a subject with its floor round by round', () => {
    const rows = rowsOf(benchmark, samples)
    const row = (subject: string, metric: string) =>
      rows.find((one) => one.subject === subject && one.metric === metric)
    expect(row('library', 'pairs')).toEqual({
      subject: 'library',
      metric: 'pairs',
      unit: 'pairs/s',
      median: 35,
      min: 20,
      max: 50,
      ratio: 0.375,
      ratioMin: 0.25,
      ratioMax: 0.5,
    })
    expect(row('bare', 'pairs')?.ratio).toBe(1)
    expect(row('other', 'pairs')?.ratio).toBe(0.5)
    expect(row('library', 'waiters')?.ratio).toBeNull()
  })

  it('become a table with aligned columns, and verdicts on the targets', () => {
    const rows = rowsOf(benchmark, samples)
    const lines = table(rows).split('\n')
    expect(lines).toHaveLength(2 + rows.length)
    expect(lines.find((line) => line.startsWith('library  pairs'))).toMatch(
      / 35 +20 +50 +pairs\/s +0\.38 \(0\.25 to 0\.50\)$/,
    )
    const target = { subject: 'library', metric: 'pairs', of: 'ratio' } as const
    expect(
      verdicts(
        [
          { ...target, atLeast: 0.3 },
          { ...target, atLeast: 0.4 },
          { ...target, metric: 'none', atMost: 1 },
        ],
        rows,
      ),
    ).toEqual([
      'target  library, pairs, ratio: at least 0.3: reached with 0.375',
      'target  library, pairs, ratio: at least 0.4: MISSED with 0.375',
      'target  library, none, ratio: at most 1: not measured',
    ])
  })

  it('show numbers in as many digits as they deserve', () => {
    expect([12345.6, 12.345, 0.012345, 0, 3].map(figure)).toEqual(['12,346', '12.3', '0.0123', '0', '3'])
  })
})
