// Every line of the torture table, for Holdfast: the same faults on the same real servers. Each is also done to a lock as people
// write it, which must not come out well: a line that nothing can fail says nothing.
import { describe, expect, it } from 'vitest'
import type { Library } from '../peers/library.js'
import type { Fault, Line } from '../torture/fault.js'
import { faults } from '../torture/faults/index.js'
import { holdfast } from '../torture/holdfast.js'
import { World } from '../torture/world.js'
import { type Habits, naive } from './naive-lock.js'

async function line(fault: Fault, library: Library): Promise<Line> {
  const world = await World.start(fault.servers)
  try {
    return await fault.run(library, world)
  } finally {
    await world.close()
  }
}

/** What is naive in one way may do well by accident in two lines; these are the ways in which it does not. */
const habits: Record<string, Habits> = {
  'long-work': { renews: false },
  'hung-command-timeout': { givesUp: false },
}

describe.concurrent('the torture table', () => {
  it.for(faults)('$title: Holdfast gives what is expected', async (fault) => {
    expect(await line(fault, holdfast)).toMatchObject({ verdict: 'yes' })
  })

  it.for(faults)('$title: a naive lock does not', async (fault) => {
    const { did, verdict } = await line(fault, naive(habits[fault.name]))
    expect(['in part', 'no'], did).toContain(verdict)
  })
})
