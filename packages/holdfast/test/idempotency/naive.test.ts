// The cases of records can fail: every habit is found by at least one, and every case finds at least one.
import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../../src/testing/index.js'
import { habits, naiveRecords } from './naive-records.js'
import { recordCases } from './record-cases.js'

const found = new Map<string, string[]>()

async function failing(habit: (typeof habits)[number]): Promise<string[]> {
  const ids: string[] = []
  for (const { id, run } of recordCases) {
    const clock = new VirtualClock()
    const records = naiveRecords(habit, clock)
    const target = {
      records,
      other: records,
      unitMs: 80,
      passMs: (ms: number) => clock.advance(ms),
      close: async () => {},
    }
    await run(target).catch(() => ids.push(id))
  }
  return ids
}

describe('naive records', () => {
  it.each(habits)('are found by a case: $name', async (habit) => {
    const ids = await failing(habit)
    found.set(habit.name, ids)
    expect(ids).not.toEqual([])
  })

  it('without a habit nothing is found', async () => {
    expect(await failing({ name: 'none' })).toEqual([])
  })

  it('every case finds one', () => {
    const finds = new Set([...found.values()].flat())
    expect(recordCases.map(({ id }) => id).filter((id) => !finds.has(id))).toEqual([])
  })
})
