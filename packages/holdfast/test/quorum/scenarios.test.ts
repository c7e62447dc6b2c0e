// The stories of a quorum, with the real one; and the naive ones, each of which gets some of them wrong.
import { describe, expect, it } from 'vitest'
import { quorumStore } from '../../src/stores/quorum/index.js'
import { good, naive, naiveQuorum } from './naive.js'
import { type Scenario, scenarios } from './scenarios.js'

const all: [string, Scenario][] = Object.entries(scenarios)

describe('a quorum', () => {
  it.each(all)('%s', async (_, scenario) => scenario.run(quorumStore))
})

describe('naive quorums', async () => {
  const failures = new Map<string, string[]>()
  for (const [name, habits] of [['good', {}] as const, ...Object.entries(naive)]) {
    const failed: string[] = []
    for (const [id, scenario] of all)
      await scenario.run(naiveQuorum({ ...good, ...habits })).catch(() => failed.push(id))
    failures.set(name, failed)
  }

  it('fail the stories that are about their habit', () => {
    console.log([...failures].map(([name, failed]) => `${name}: ${failed.join(', ')}`).join('\n'))
    expect(failures.get('counts over the servers that answer')).toContain('C35.1')
    expect(failures.get('a majority is half')).toEqual(expect.arrayContaining(['C35.3 two', 'C35.3 four']))
    expect(failures.get('withdraws nothing')).toEqual(expect.arrayContaining(['withdrawal', 'C10.4']))
    expect(failures.get('writes nothing back')).toContain('write-back')
    expect(failures.get('never looks at the time')).toContain('C10.4')
    expect(failures.get('waits for all')).toContain('hung node')
    expect(failures.get('heals whatever the others say')).toContain('revival by healing')
  })

  it('have no story that none of them fails', () => {
    const failed = new Set([...failures.values()].flat())
    expect(all.map(([id]) => id).filter((id) => !failed.has(id))).toEqual([])
  })

  it('pass what is not about their habit: without one, all but the splits, which need a first among the contenders', () => {
    expect(failures.get('good')).toEqual(['split vote', 'even split'])
  })
})
