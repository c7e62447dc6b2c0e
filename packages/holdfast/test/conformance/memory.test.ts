// The memory store under the whole suite, in virtual time. Only what takes a second handle on the same data is left out: its
// data live in one process, and go with it.
import { describe, it } from 'vitest'
import { memoryStore } from '../../src/stores/memory/index.js'
import { conformance, runConformance, VirtualClock } from '../../src/testing/index.js'

runConformance({
  describe,
  it,
  name: 'memory',
  create() {
    const clock = new VirtualClock()
    const store = memoryStore({ clock })
    return { store, passMs: (ms) => clock.advance(ms), prune: () => store.prune({ olderThanMs: 0 }) }
  },
  cases: conformance.filter((one) => !one.needs?.includes('open')),
  complete: true,
})
