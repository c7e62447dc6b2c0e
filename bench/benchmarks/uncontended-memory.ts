// What the client costs: the memory store's verbs are nearly free, so what the library adds to them is the client's own.
import { createLeases, type LeaseStore, type Leases } from 'holdfast'
import { memoryStore } from 'holdfast/memory'
import type { Benchmark } from '../harness/benchmark.js'
import { pairsFor } from '../measure/pairs.js'

const KEYS = Array.from({ length: 100 }, (_, i) => `key:${i}`)
const keyOf = (n: number) => KEYS[n % KEYS.length] ?? ''

let store: LeaseStore
let leases: Leases

export default {
  name: 'uncontended-memory',
  title: 'Uncontended acquire + release on the memory store: the client against bare store verbs',
  floor: 'store verbs',
  subjects: [
    {
      name: 'store verbs',
      setup: () => {
        store = memoryStore()
      },
      run: (seconds) =>
        pairsFor(seconds, async (n) => {
          const key = keyOf(n)
          const grant = { key, claim: `claim:${n}`, holder: 'bench' }
          const answer = await store.acquire({ ...grant, ttlMs: 30_000 })
          if (answer.is === 'granted') await store.release({ ...grant, token: answer.token })
        }),
      teardown: () => store.close(),
    },
    {
      name: 'library',
      setup: () => {
        leases = createLeases({ store: memoryStore() })
      },
      run: (seconds) =>
        pairsFor(seconds, async (n) => {
          const lease = await leases.acquire(keyOf(n))
          await lease.release()
        }),
      teardown: () => leases.close(),
    },
  ],
} satisfies Benchmark
