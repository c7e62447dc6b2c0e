// The suite itself under test: a case about a fault that no naive store fails proves nothing.
import { describe, expect, it } from 'vitest'
import { checkConformance, conformance } from '../../src/testing/index.js'
import { naive, naiveHabits } from './naive-habits.js'
import { goodHabits, naiveTarget } from './naive-store.js'

/** Which cases a store with these habits fails. */
async function failuresOf(habits: Parameters<typeof naiveTarget>[0]): Promise<Set<string>> {
  const results = await checkConformance(() => naiveTarget(habits))
  return new Set(results.flatMap((result) => (result.outcome === 'failed' ? [result.case.id] : [])))
}

describe('conformance', async () => {
  const failures = new Map<string, Set<string>>()
  for (const name of Object.keys(naive)) failures.set(name, await failuresOf(naiveHabits(name)))
  const failing = (id: string) => [...failures].flatMap(([name, failed]) => (failed.has(id) ? [name] : []))

  it('has each case once, under the guarantee that it cites', () => {
    expect(new Set(conformance.map((one) => one.id)).size).toBe(conformance.length)
    for (const one of conformance) expect(one.id.startsWith(`${one.guarantee}-`), one.id).toBe(true)
  })

  it('passes a store without bad habits in every case, and leaves out none', async () => {
    const results = await checkConformance(() => naiveTarget(goodHabits))
    for (const result of results)
      expect([result.case.id, result.outcome, 'error' in result && result.error]).toEqual([
        result.case.id,
        'passed',
        false,
      ])
  })

  it('has no case about a fault that no naive store fails', () => {
    const table = conformance.filter((one) => one.aboutFault).map((one) => ({ id: one.id, failedBy: failing(one.id) }))
    console.log(table.map(({ id, failedBy }) => `${id}\n    failed by ${failedBy.join('; ')}`).join('\n'))
    expect(table.filter(({ failedBy }) => failedBy.length === 0).map(({ id }) => id)).toEqual([])
  })

  it('has no case about a fault that only a store with many bad habits fails', () => {
    const single = (id: string) => failing(id).filter((name) => !name.startsWith('the usual'))
    expect(conformance.filter((one) => one.aboutFault && single(one.id).length === 0).map((one) => one.id)).toEqual([])
  })

  it('has no naive store that fails nothing', () => {
    expect([...failures].filter(([, failed]) => failed.size === 0).map(([name]) => name)).toEqual([])
  })

  it('fails no naive store in what every lock can do', () => {
    const plain = conformance.filter((one) => !one.aboutFault).map((one) => one.id)
    const wronged = [...failures].flatMap(([name, failed]) =>
      plain.filter((id) => failed.has(id)).map((id) => `${name}: ${id}`),
    )
    expect(wronged).toEqual([])
  })
})
