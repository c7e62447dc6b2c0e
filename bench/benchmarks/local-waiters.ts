// What waiting costs within a process: while another process holds the key, all callers of this one are one contender at the
// store; then each handover is one store call and the same work, however many still wait.
import { createLeases, type Lease, type LeaseStore } from 'holdfast'
import { memoryStore } from 'holdfast/memory'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { heapBytes } from '../harness/heap.js'
import { counted } from '../measure/counted-store.js'

const KEY = 'report'
const TTL_MS = 600_000
const SIZES = [100, 1_000, 10_000]
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
  const store = counted(memory, {
    onAcquire(request) {
      acquires++
      claims.add(request.claim)
    },
  })
  const other = createLeases({ store: memory, ttlMs: TTL_MS, closeStore: false })
  const leases = createLeases({ store, ttlMs: TTL_MS, waitMs: TTL_MS })
  const first = await other.acquire(KEY)

  const before = weigh ? heapBytes() : 0
  const waiting: Promise<Lease>[] = []
  for (let i = 0; i < waiters; i++) waiting.push(leases.acquire(KEY))
  while ((await memory.inspect(KEY))?.waiters.length !== 1) await turn()
  const bytes = weigh ? (heapBytes() - before) / waiters : 0
  const contenders = claims.size

  await first.release()
  const lease = await waiting[0]
  acquires = 0
  const startMs = performance.now()
  await Promise.all([lease?.release(), ...waiting.slice(1).map(async (next) => (await next).release())])
  const handoverMs = (performance.now() - startMs) / (waiters - 1)
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

const subject = (waiters: number): Subject => ({ name: nameOf(waiters), run: (seconds) => measure(waiters, seconds) })

export default {
  name: 'local-waiters',
  title: 'Many callers of one process wait for one key (memory store): work and memory of each',
  floor: nameOf(100),
  subjects: SIZES.map(subject),
  targets: SIZES.flatMap((waiters) => [
    { subject: nameOf(waiters), metric: 'contenders at the store', of: 'median', atMost: 1 },
    { subject: nameOf(waiters), metric: 'store acquires a handover', of: 'median', atMost: 1 },
    { subject: nameOf(waiters), metric: 'handover', of: 'ratio', atMost: 1.5 },
  ]),
  notes: [
    'Memory of a waiter includes the promise and the closure of its caller. At 100 waiters it is within the noise of the heap.',
  ],
} satisfies Benchmark
