// What a lease costs in Redis, against what people write today without a token: SET NX PX, and a script that compares and
// deletes. Between them stand the store's own two scripts, issued straight, and its verbs. One pair in flight, and 64.
import { randomUUID } from 'node:crypto'
import { createLeases, type Leases } from 'holdfast'
import { type RedisStore, redisStore } from 'holdfast/redis'
import type { Redis } from 'ioredis5'
import { scriptsFor } from '../../packages/holdfast/src/stores/redis/scripts.js'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { pairsInFlight } from '../measure/pairs.js'
import { emptyRedis } from '../measure/redis.js'
import { peers } from '../peers/index.js'
import type { Library, Locks } from '../peers/library.js'
import { redlockUniversalLean } from '../peers/redlock-universal.js'

const TTL_MS = 30_000
const MANY = 64
const COMPARE_AND_DELETE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

let client: Redis
let store: RedisStore
let leases: Leases
let compareAndDelete: string

type Pair = (worker: number, n: number) => Promise<unknown>

/** A key that no other worker uses. */
const keyOf = (worker: number, n: number) => `invoice:${worker}:${n % 16}`

const setNx: Pair = async (worker, n) => {
  const key = keyOf(worker, n)
  const claim = randomUUID()
  await client.set(key, claim, 'PX', TTL_MS, 'NX')
  await client.evalsha(compareAndDelete, 1, key, claim)
}

const { acquire, release } = scriptsFor('PUBLISH', { retentionMs: 86_400_000, endedRetentionMs: 60_000 })
const scripts: Pair = async (worker, n) => {
  const key = keyOf(worker, n)
  const claim = randomUUID()
  await client.evalsha(acquire.sha, 1, key, 'bench:1234', '30000', '86430000', '1500 1 inbox', claim)
  await client.evalsha(release.sha, 1, key, claim)
}

const verbs: Pair = async (worker, n) => {
  const grant = { key: keyOf(worker, n), claim: randomUUID(), holder: 'bench:1234' }
  const answer = await store.acquire({ ...grant, ttlMs: TTL_MS, queue: { pollMs: 1_000 } })
  if (answer.is === 'granted') await store.release({ ...grant, token: answer.token })
}

const library: Pair = async (worker, n) => {
  const lease = await leases.acquire(keyOf(worker, n))
  await lease.release()
}

const ways: Record<string, Pair> = { 'SET NX PX': setNx, 'its scripts': scripts, 'its verbs': verbs, library }

const nameOf = (way: string, workers: number) => `${way}, ${workers} in flight`

let locks: Locks
const peer: Pair = async (worker, n) => {
  const lock = await locks.acquire(keyOf(worker, n), TTL_MS)
  await lock.release()
}

const peerSubject = (library: Library, workers: number): Subject => ({
  name: nameOf(library.name, workers),
  floor: nameOf('SET NX PX', workers),
  async setup() {
    client = await emptyRedis()
    locks = await library.open([client])
  },
  run: (seconds) => pairsInFlight(seconds, workers, peer),
  teardown: () => client.disconnect(),
})

const subject = (way: string, pair: Pair, workers: number): Subject => ({
  name: nameOf(way, workers),
  floor: nameOf('SET NX PX', workers),
  async setup() {
    client = await emptyRedis()
    store = redisStore(client)
    leases = createLeases({ store, ttlMs: TTL_MS })
    compareAndDelete = String(await client.script('LOAD', COMPARE_AND_DELETE))
    await client.script('LOAD', acquire.text)
    await client.script('LOAD', release.text)
  },
  run: (seconds): Promise<Metrics> => pairsInFlight(seconds, workers, pair),
  async teardown() {
    await leases.close()
    client.disconnect()
  },
})

export default {
  name: 'redis',
  title: 'Uncontended acquire + release in Redis, one process, ioredis 5',
  floor: nameOf('SET NX PX', 1),
  subjects: [1, MANY].flatMap((workers) => Object.entries(ways).map(([way, pair]) => subject(way, pair, workers))),
  peers: [1, MANY].flatMap((workers) =>
    [...peers, redlockUniversalLean].map((library) => peerSubject(library, workers)),
  ),
  targets: [
    { subject: nameOf('library', 1), metric: 'pairs', of: 'ratio', atLeast: 0.8 },
    { subject: nameOf('library', MANY), metric: 'pairs', of: 'ratio', atLeast: 1.5 },
    { subject: nameOf('library', MANY), metric: 'p99 pair', of: 'ratio', atMost: 1 },
  ],
  notes: [
    '"its scripts": the two scripts of the store, issued straight. Ratios are to SET NX PX with as many in flight.',
  ],
} satisfies Benchmark
