import { describe, expect, it } from 'vitest'
import type { Benchmark } from '../harness/benchmark.js'
import { check, load, names } from '../harness/catalogue.js'
import { readOptions, UsageError } from '../harness/options.js'

describe('the command line', () => {
  it('takes a name and options', () => {
    expect(readOptions(['sqlite', '--peers', '--json', 'out.json', '--rounds', '7', '--seconds', '0.5'])).toEqual({
      name: 'sqlite',
      peers: true,
      json: 'out.json',
      rounds: 7,
      seconds: 0.5,
    })
    expect(readOptions([])).toEqual({
      name: undefined,
      peers: false,
      json: undefined,
      rounds: undefined,
      seconds: undefined,
    })
  })

  it.each([
    ['a b'],
    ['--rounds 4'],
    ['--rounds 5.5'],
    ['--rounds x'],
    ['--seconds 0'],
    ['--seconds Infinity'],
    ['--seconds ='],
    ['--runs 5'],
  ])('refuses %s', (line) => {
    expect(() => readOptions(line.split(' '))).toThrow(UsageError)
  })
})

describe('the benchmarks', () => {
  it('name themselves as their files, and their floors and targets among their subjects', async () => {
    for (const name of await names()) await expect(load(name)).resolves.toHaveProperty('name', name)
  })

  it('have other libraries among their subjects where that is asked', async () => {
    const [without, withPeers] = [await load('redis'), await load('redis', true)]
    expect(without.subjects.map(({ name }) => name)).not.toContain('redlock, 1 in flight')
    expect(withPeers.subjects.map(({ name }) => name)).toContain('redlock, 1 in flight')
  })

  it.each([
    [{ name: 'other' }],
    [{ floor: 'c' }],
    [{ targets: [{ subject: 'c', metric: 'm', of: 'ratio' as const }] }],
    [
      {
        subjects: [
          { name: 'a', run: () => ({}) },
          { name: 'a', run: () => ({}) },
        ],
      },
    ],
  ])('are refused with %j', (change) => {
    const subject = (name: string) => ({ name, run: () => ({}) })
    const sound: Benchmark = { name: 'x', title: 'x', floor: 'a', subjects: [subject('a'), subject('b')] }
    expect(() => check('x', sound)).not.toThrow()
    expect(() => check('x', { ...sound, ...change })).toThrow()
  })
})
