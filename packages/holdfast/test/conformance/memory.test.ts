// The memory store under the whole suite, in virtual time.
import { describe, expect, it } from 'vitest'
import { memoryStore } from '../../src/stores/memory/index.js'
import {
  type ConformanceTarget,
  checkConformance,
  conformance,
  runConformance,
  VirtualClock,
} from '../../src/testing/index.js'

const create = (): ConformanceTarget => {
  const clock = new VirtualClock()
  const store = memoryStore({ clock })
  return { store, passMs: (ms) => clock.advance(ms), prune: () => store.prune({ olderThanMs: 0 }) }
}

runConformance({
  describe,
  it,
  name: 'memory',
  create,
  cases: conformance.filter((one) => !one.needs?.includes('open')),
})

describe('memory', () => {
  it('is asked for everything but what takes a second handle on the same data', async () => {
    const results = await checkConformance(create)
    for (const { case: one, outcome } of results) {
      expect([one.id, outcome]).toEqual([one.id, one.needs?.includes('open') ? 'not applicable' : 'passed'])
    }
  })
})
