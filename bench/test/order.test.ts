import { describe, expect, it } from 'vitest'
import type { Benchmark, Subject } from '../harness/benchmark.js'
import { orderOf } from '../harness/order.js'
import { runRounds } from '../harness/run.js'

describe('the order of runs', () => {
  it('is turned round every second round', () => {
    expect([0, 1, 2, 3].map((round) => orderOf(['a', 'b', 'c'], round).join(''))).toEqual(['abc', 'cba', 'abc', 'cba'])
  })

  it('leaves the list of subjects as it is', () => {
    const subjects = ['a', 'b']
    orderOf(subjects, 1)
    expect(subjects).toEqual(['a', 'b'])
  })
})

describe('a run', () => {
  /** Subjects that write down what is done with them. */
  function recorded(names: string[], fails = ''): { benchmark: Benchmark; log: string[]; lengths: number[] } {
    const log: string[] = []
    const lengths: number[] = []
    const subject = (name: string): Subject => ({
      name,
      setup: () => void log.push(`${name} setup`),
      run: (seconds) => {
        log.push(`${name} run`)
        lengths.push(seconds)
        if (name === fails) throw new Error(`${name} failed`)
        return { pairs: { value: log.length, unit: '/s' } }
      },
      teardown: () => void log.push(`${name} teardown`),
    })
    return { benchmark: { name: 'x', title: 'x', floor: 'a', subjects: names.map(subject) }, log, lengths }
  }

  it('sets up one subject at a time', async () => {
    const { benchmark, log } = recorded(['a', 'b'])
    await runRounds(benchmark, { rounds: 5, seconds: 1 })
    const once = (name: string) => [`${name} setup`, `${name} run`, `${name} teardown`]
    expect(log.slice(0, 12)).toEqual([...once('a'), ...once('b'), ...once('b'), ...once('a')])
    expect(log).toHaveLength(6 * 2 * 3)
  })

  it('throws the warm-up away', async () => {
    const { benchmark } = recorded(['a', 'b'])
    const samples = await runRounds(benchmark, { rounds: 5, seconds: 1 })
    expect(samples.filter(({ subject }) => subject === 'a').map(({ round }) => round)).toEqual([0, 1, 2, 3, 4])
    expect(samples.find(({ subject, round }) => subject === 'a' && round === 0)?.metrics).toEqual({
      pairs: { value: 11, unit: '/s' },
    })
  })

  it('warms up for two seconds at most', async () => {
    const long = recorded(['a'])
    await runRounds(long.benchmark, { rounds: 5, seconds: 30 })
    expect(long.lengths).toEqual([2, 30, 30, 30, 30, 30])
    const short = recorded(['a'])
    await runRounds(short.benchmark, { rounds: 5, seconds: 0.5 })
    expect(short.lengths).toEqual(Array(6).fill(0.5))
  })

  it('tears down a subject that failed, and says why', async () => {
    const { benchmark, log } = recorded(['a', 'b'], 'b')
    await expect(runRounds(benchmark, { rounds: 5, seconds: 1 })).rejects.toThrow('b failed')
    expect(log.at(-1)).toBe('b teardown')
  })
})
