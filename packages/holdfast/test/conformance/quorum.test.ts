// Quorums of one to five memory stores under the whole suite, in virtual time. What needs a queue or a second handle on the same
// data is left out: a quorum does not order its waiters, and memory stores live in one process.
import { describe, it } from 'vitest'
import { memoryStore } from '../../src/stores/memory/index.js'
import { quorumStore } from '../../src/stores/quorum/index.js'
import { conformance, runConformance, seededRandom, VirtualClock } from '../../src/testing/index.js'

for (const nodes of [1, 2, 3, 4, 5]) {
  runConformance({
    describe,
    it,
    name: `quorum of ${nodes}`,
    create() {
      const clock = new VirtualClock()
      const stores = Array.from({ length: nodes }, () => memoryStore({ clock }))
      return {
        store: quorumStore(stores, { clock, random: seededRandom(nodes) }),
        passMs: (ms) => clock.advance(ms),
        prune: () => stores.map((store) => store.prune({ olderThanMs: 0 })),
      }
    },
    cases: conformance.filter(({ needs = [] }) => !needs.includes('open') && !needs.includes('fair')),
    complete: true,
  })
}
