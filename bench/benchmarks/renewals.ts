// What holding costs: ten thousand leases of one process, taken at one time, so that all fall due together. The window begins
// shortly before the first renewals and has three of every lease, a little more than the long run has.
import { setTimeout } from 'node:timers/promises'
import { createLeases, type Lease, type LeaseStore, type Leases, type RenewRequest } from 'holdfast'
import { memoryStore } from 'holdfast/memory'
import type { Benchmark, Metrics } from '../harness/benchmark.js'
import { collectGarbage } from '../harness/heap.js'
import { counted } from '../measure/counted-store.js'
import { cpuShareDuring } from '../measure/cpu.js'

const LEASES = 10_000
const TTL_MS = 10_000
const LEASES_PER_CALL = 500
/** The client moves renewals together onto ticks of this length (for a ttl of 10 s). */
const TICK_MS = 250
/** From the grants to the window: renewals come after 4.5 s at the earliest. */
const BEFORE_WINDOW_MS = 4_000
const IDLE_MS = 2_000
/** How often the floor renews: the mean of the library's periods. */
const FLOOR_EVERY_MS = 4_750

/** The renew calls of one due tick. */
interface Tick {
  calls: number
  leases: number
}

/** Counts renew calls by due tick. */
class Tally {
  ticks = new Map<number, Tick>()

  add(requests: readonly RenewRequest[]): void {
    const at = Math.floor(performance.now() / TICK_MS)
    const tick = this.ticks.get(at) ?? { calls: 0, leases: 0 }
    this.ticks.set(at, { calls: tick.calls + 1, leases: tick.leases + requests.length })
  }

  metrics(windowMs: number): Metrics {
    const ticks = [...this.ticks.values()]
    const sum = (of: (tick: Tick) => number) => ticks.reduce((total, tick) => total + of(tick), 0)
    const calls = sum((tick) => tick.calls)
    return {
      'renew calls': { value: (1000 * calls) / windowMs, unit: 'calls/s' },
      renewals: { value: sum((tick) => tick.leases) / LEASES, unit: 'a lease' },
      'leases a call': { value: calls === 0 ? 0 : sum((tick) => tick.leases) / calls, unit: '' },
      'most calls in a tick': { value: Math.max(0, ...ticks.map((tick) => tick.calls)), unit: 'calls' },
      'calls beyond one per 500 leases and tick': {
        value: sum((tick) => Math.max(0, tick.calls - Math.ceil(tick.leases / LEASES_PER_CALL))),
        unit: 'calls',
      },
    }
  }
}

/** Idle for a while, then with the leases held: what is left when the one is taken from the other is what holding costs. */
async function measure(seconds: number, hold: (store: LeaseStore) => Promise<unknown>): Promise<Metrics> {
  const idle = await cpuShareDuring(() => setTimeout(Math.min(IDLE_MS, 1000 * seconds)))
  let tally = new Tally()
  const store = counted(memoryStore(), { onRenew: (requests) => tally.add(requests) })
  await hold(store)
  collectGarbage()
  await setTimeout(BEFORE_WINDOW_MS)
  tally = new Tally()
  const windowMs = 1000 * seconds
  const held = await cpuShareDuring(() => setTimeout(windowMs))
  return {
    'CPU, idle': { value: idle, unit: '% of a core' },
    CPU: { value: held, unit: '% of a core' },
    'CPU above idle': { value: Math.max(0, held - idle), unit: '% of a core' },
    ...tally.metrics(windowMs),
  }
}

const keys = Array.from({ length: LEASES }, (_, i) => `shard:${i}`)

let leases: Leases | undefined
let held: Lease[] = []
let timer: NodeJS.Timeout | undefined

export default {
  name: 'renewals',
  title: '10,000 leases held by one process (ttl 10 s, memory store): calls and CPU of their renewal',
  floor: 'bare renew calls',
  seconds: 12,
  subjects: [
    {
      name: 'bare renew calls',
      run: (seconds) =>
        measure(seconds, async (store) => {
          const requests = keys.map((key) => ({ key, claim: `claim of ${key}`, ttlMs: TTL_MS }))
          for (const request of requests) await store.acquire({ ...request, holder: 'bench' })
          timer = setInterval(() => {
            for (let i = 0; i < LEASES; i += LEASES_PER_CALL) void store.renew(requests.slice(i, i + LEASES_PER_CALL))
          }, FLOOR_EVERY_MS)
        }),
      teardown: () => clearInterval(timer),
    },
    {
      name: 'library',
      async run(seconds) {
        const metrics = await measure(seconds, async (store) => {
          const client = createLeases({ store, ttlMs: TTL_MS })
          leases = client
          held = await Promise.all(keys.map((key) => client.acquire(key)))
        })
        const lost = held.filter((lease) => !lease.held).length
        return { ...metrics, lost: { value: lost, unit: 'leases' } }
      },
      async teardown() {
        await Promise.all(held.map((lease) => lease.release()))
        await leases?.close()
        held = []
      },
    },
  ],
  targets: [
    { subject: 'library', metric: 'calls beyond one per 500 leases and tick', of: 'median', atMost: 0 },
    { subject: 'library', metric: 'CPU', of: 'median', atMost: 5 },
  ],
} satisfies Benchmark
