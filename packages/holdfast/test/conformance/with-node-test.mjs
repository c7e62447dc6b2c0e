// The suite as somebody else runs it: node's own test runner, the built package, a store from anywhere. With the argument
// `broken` the store renews whatever it is asked to, and the run must fail.
import { describe, it } from 'node:test'
import { memoryStore } from 'holdfast/memory'
import { runConformance, VirtualClock } from 'holdfast/testing'

const broken = process.argv.includes('broken')

runConformance({
  describe,
  it,
  name: 'memory under node:test',
  create() {
    const clock = new VirtualClock()
    const store = memoryStore({ clock })
    const renewsAll = async (leases) => leases.map(({ ttlMs }) => ({ is: 'renewed', ttlMs }))
    return { store: broken ? { ...store, renew: renewsAll } : store, passMs: (ms) => clock.advance(ms) }
  },
})
