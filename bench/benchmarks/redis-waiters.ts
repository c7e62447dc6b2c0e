// What waiting costs in Redis: callers of one process, ten to a key, wait while another client holds all the keys. Only one of the
// ten contends at the store; the others cost memory, and no timer. Then the keys are given back, one after the other.
import { setTimeout } from 'node:timers/promises'
import { createLeases, type Lease } from 'holdfast'
import { redisStore } from 'holdfast/redis'
import type { Redis } from 'ioredis5'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { heapBytes } from '../harness/heap.js'
import { percentile } from '../harness/statistics.js'
import { countedClock } from '../measure/counted-clock.js'
import { cpuShareDuring } from '../measure/cpu.js'
import { emptyRedis } from '../measure/redis.js'
import { countSent } from '../measure/sent.js'

const KEYS = 1_000
const WAITERS = [1_000, 10_000]
const TTL_MS = 600_000
/** From the first wait until all are in line at the store. */
const SETTLE_MS = 2_000
const keys = Array.from({ length: KEYS }, (_, i) => `report:${i}`)

let clients: Redis[] = []

async function measure(waiters: number, seconds: number): Promise<Metrics> {
  const [mine, others] = [await emptyRedis(), await emptyRedis()]
  clients = [mine, others]
  const sent = countSent(mine)
  const clock = countedClock()
  const other = createLeases({ store: redisStore(others), ttlMs: TTL_MS })
  const leases = createLeases({ store: redisStore(mine, { clock }), clock, ttlMs: TTL_MS, waitMs: TTL_MS })
  const held: Lease[] = []
  for (let i = 0; i < KEYS; i += 100) {
    held.push(...(await Promise.all(keys.slice(i, i + 100).map((key) => other.acquire(key)))))
  }

  const releasedMs = new Map<string, number>()
  const wokenMs: number[] = []
  const take = async (key: string) => {
    const lease = await leases.acquire(key)
    const sentMs = releasedMs.get(key)
    if (sentMs !== undefined) wokenMs.push(performance.now() - sentMs)
    releasedMs.delete(key) // those behind are handed the lease within the process
    await lease.release()
  }
  const before = heapBytes()
  const all = Array.from({ length: waiters }, (_, i) => take(keys[i % KEYS] ?? ''))
  await setTimeout(SETTLE_MS)
  const bytes = (heapBytes() - before) / waiters
  const timers = clock.timers
  const platform = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const sentBefore = sent()
  const share = await cpuShareDuring(() => setTimeout((1000 * seconds) / 2))
  const commands = sent() - sentBefore

  for (const lease of held) {
    releasedMs.set(lease.key, performance.now())
    await lease.release()
    await setTimeout((1000 * seconds) / 2 / KEYS)
  }
  await Promise.all(all)
  await leases.close()
  await other.close()
  return {
    memory: { value: bytes, unit: 'bytes/waiter' },
    timers: { value: timers, unit: '' },
    'timers of the process': { value: platform, unit: '' },
    'CPU while all wait': { value: share, unit: '% of a core' },
    'commands while all wait': { value: commands / (seconds / 2), unit: '/s' },
    'median from release to grant': { value: percentile(wokenMs, 0.5), unit: 'ms' },
    'p99 from release to grant': { value: percentile(wokenMs, 0.99), unit: 'ms' },
  }
}

const nameOf = (waiters: number) => `${waiters.toLocaleString('en-US')} waiters`

const subject = (waiters: number): Subject => ({
  name: nameOf(waiters),
  run: (seconds) => measure(waiters, seconds),
  teardown() {
    for (const client of clients) client.disconnect()
  },
})

export default {
  name: 'redis-waiters',
  title: 'Callers of one process wait for 1,000 keys in Redis: memory, timers, and how soon they are woken',
  floor: nameOf(1_000),
  seconds: 10,
  subjects: WAITERS.map(subject),
  targets: [
    { subject: nameOf(10_000), metric: 'timers', of: 'ratio', atMost: 1 },
    { subject: nameOf(10_000), metric: 'timers', of: 'median', atMost: 10 },
    { subject: nameOf(10_000), metric: 'p99 from release to grant', of: 'median', atMost: 50 },
  ],
  notes: [
    'The 1,000 waiters are all heads of their queues, with a place in the queue of the store and a channel each: a waiter behind a',
    'head takes less. Memory includes the promise and the closure of the caller. In the first half of a sample all wait; in',
    'the second the keys are given back one after the other.',
  ],
} satisfies Benchmark
