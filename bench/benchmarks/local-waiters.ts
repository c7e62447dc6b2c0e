// What waiting costs within a process: while another process holds the key, all callers of this one are one contender at the
// store; then each handover is one store call and the same work, however many still wait.
import { createLeases, type LeaseStore } from 'holdfast'
import { memoryStore } from 'holdfast/memory'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { heapBytes } from '../harness/heap.js'
import { counted } from '../measure/counted-store.js'

const KEY = 'report'
const TTL_MS = 600_000
const SIZES = [100, 1_000, 10_000, 100_000]
/** The biggest crowd needs more places than a client has by default. */
const PLACES = 100_000
const nameOf = (waiters: number) => `${waiters.toLocaleString('en-US')} waiters`

/** What one crowd of waiters gave. */
interface Crowd {
  readonly handoverMs: number
  readonly acquires: number
  readonly contenders: number
  readonly bytes: number
}

/** One crowd: all wait for a lease of another client, and then each takes it and gives it back. */
async function crowd(waiters: number, weigh: boolean): Promise<Crowd> {
  const memory: LeaseStore = memoryStore()
  const claims = new Set<string>()
  let acquires = 0
  let startMs: number | undefined
  const store = counted(memory, {
    onAcquire({ claim }) {
      acquires++
      if (startMs === undefined) claims.add(claim)
    },
  })
  const other = createLeases({ store: memory, ttlMs: TTL_MS, closeStore: false })
  const leases = createLeases({ store, ttlMs: TTL_MS, waitMs: TTL_MS, maxLocalWaiters: PLACES })
  const held = await other.acquire(KEY)
  const take = async () => {
    const lease = await leases.acquire(KEY)
    if (startMs === undefined) {
      startMs = performance.now()
      acquires = 0
    }
    await lease.release()
  }

  const before = weigh ? heapBytes() : 0
  const all: Promise<void>[] = []
  for (let i = 0; i < waiters; i++) all.push(take())
  while ((await memory.inspect(KEY))?.waiters.length !== 1) await turn()
  const bytes = weigh ? (heapBytes() - before) / waiters : 0
  const contenders = claims.size

  await held.release()
  await Promise.all(all)
  const handoverMs = (performance.now() - (startMs ?? 0)) / (waiters - 1)
  await leases.close()
  await other.close()
  return { handoverMs, acquires: acquires / (waiters - 1), contenders, bytes }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

async function measure(waiters: number, seconds: number): Promise<Metrics> {
  const endMs = performance.now() + 1000 * seconds
  const crowds = [await crowd(waiters, true)]
  while (performance.now() < endMs) crowds.push(await crowd(waiters, false))
  const mean = (of: (one: Crowd) => number) => crowds.reduce((sum, one) => sum + of(one), 0) / crowds.length
  return {
    handover: { value: 1000 * mean((one) => one.handoverMs), unit: 'µs' },
    'store acquires a handover': { value: mean((one) => one.acquires), unit: '' },
    'contenders at the store': { value: Math.max(...crowds.map((one) => one.contenders)), unit: '' },
    memory: { value: crowds[0]?.bytes ?? 0, unit: 'bytes/waiter' },
  }
}

const subject = (waiters: number): Subject => ({
  name: nameOf(waiters),
  ...(waiters === 100_000 ? { floor: nameOf(10_000) } : undefined),
  run: (seconds) => measure(waiters, seconds),
})

export default {
  name: 'local-waiters',
  title: 'Many callers of one process wait for one key (memory store): work and memory of each',
  floor: nameOf(100),
  subjects: SIZES.map(subject),
  targets: [
    ...SIZES.flatMap((waiters) => [
      { subject: nameOf(waiters), metric: 'contenders at the store', of: 'median' as const, atMost: 1 },
      { subject: nameOf(waiters), metric: 'store acquires a handover', of: 'median' as const, atMost: 1 },
    ]),
    { subject: nameOf(1_000), metric: 'handover', of: 'ratio', atMost: 1.5 },
    { subject: nameOf(100_000), metric: 'handover', of: 'ratio', atMost: 1.5 },
  ],
  notes: [
    'Between 1,000 and 10,000 waiters the time rises once, since waiters then outlive the collections of young objects: each is',
    'copied and marked. So 100,000 waiters are compared with 10,000: were the work to grow with the crowd, the ratio would be 10.',
    'Memory of a waiter includes the promise and the closure of its caller.',
  ],
} satisfies Benchmark
