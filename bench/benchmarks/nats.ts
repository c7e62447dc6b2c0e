// What a lease costs in a bucket of NATS JetStream, against the least that could do the job: a write over the revision that the last
// one gave, to take it, and another to let it go, on the same connection. One pair in flight, and 64. Storage in files; the server
// syncs them when it thinks fit.
import { readFileSync } from 'node:fs'
import { type KV, Kvm } from '@nats-io/kv'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { createLeases, type Leases } from 'holdfast'
import { type NatsKv, type NatsStore, natsStore } from 'holdfast/nats'
import { NatsServer } from '../../packages/holdfast/test/nats/servers.js'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { pairsInFlight } from '../measure/pairs.js'

const TTL_MS = 30_000
const MANY = 64

type Pair = (worker: number, n: number) => Promise<unknown>

let server: Promise<NatsServer> | undefined
let connection: NatsConnection
let bucket: KV
let store: NatsStore
let leases: Leases
let requests = 0

/** The bucket, with every request counted. */
const counting: NatsKv = {
  get(key) {
    requests++
    return bucket.get(key)
  },
  put(key, data, options) {
    requests++
    return bucket.put(key, data, options)
  },
  delete(key, options) {
    requests++
    return bucket.delete(key, options)
  },
  keys: () => bucket.keys(),
  watch: (options) => bucket.watch(options),
  status: () => bucket.status(),
}

/** A key that no other worker uses. */
const keyOf = (worker: number, n: number) => `invoice-${worker}-${n % 16}`

const ways: Record<string, () => Pair> = {
  'two writes': () => {
    const revisions = new Map<string, number>()
    return async (worker, n) => {
      const key = `raw-${keyOf(worker, n)}`
      requests += 2
      const taken = await bucket.put(key, crypto.randomUUID(), { previousSeq: revisions.get(key) ?? 0 })
      revisions.set(key, await bucket.put(key, '', { previousSeq: taken }))
    }
  },
  'its verbs': () => async (worker, n) => {
    const ask = { key: keyOf(worker, n), claim: crypto.randomUUID(), holder: 'bench', ttlMs: TTL_MS }
    const answer = await store.acquire(ask)
    if (answer.is !== 'granted') throw new Error('not granted')
    await store.release({ ...ask, token: answer.token })
  },
  library: () => async (worker, n) => {
    const one = await leases.acquire(keyOf(worker, n))
    await one.release()
  },
}

/** The CPU time of the server so far, in ms. */
function serverMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10
}

const nameOf = (way: string, workers: number) => `${way}, ${workers} in flight`

const subject = (way: string, make: () => Pair, workers: number): Subject => {
  let pair: Pair
  let running: NatsServer
  return {
    name: nameOf(way, workers),
    floor: nameOf('two writes', workers),
    async setup() {
      server ??= NatsServer.start()
      running = await server
      running.unref()
      connection = await connect({ servers: running.url })
      bucket = await new Kvm(connection).create('leases', { replicas: 1 })
      store = natsStore(counting)
      leases = createLeases({ store, ttlMs: TTL_MS })
      pair = make()
      // Every key is known by then, as to a process that has run for a while.
      await Promise.all(
        Array.from({ length: workers }, async (_, worker) => {
          for (let n = 0; n < 16; n++) await pair(worker, n)
        }),
      )
    },
    async run(seconds): Promise<Metrics> {
      requests = 0
      let pairs = 0
      const before = serverMs(running.pid)
      const metrics = await pairsInFlight(seconds, workers, (worker, n) => {
        pairs++
        return pair(worker, n)
      })
      return {
        ...metrics,
        'server CPU': { value: (1000 * (serverMs(running.pid) - before)) / pairs, unit: 'µs/pair' },
        requests: { value: requests / pairs, unit: '/pair' },
      }
    },
    async teardown() {
      await leases.close()
      await bucket.destroy()
      await connection.close()
    },
  }
}

export default {
  name: 'nats',
  title: 'Uncontended acquire + release in a bucket of NATS, one process, one server, storage in files',
  floor: nameOf('two writes', 1),
  subjects: [1, MANY].flatMap((workers) => Object.entries(ways).map(([way, make]) => subject(way, make, workers))),
  targets: [
    { subject: nameOf('library', 1), metric: 'pairs', of: 'ratio', atLeast: 0.8 },
    { subject: nameOf('library', MANY), metric: 'pairs', of: 'ratio', atLeast: 0.6 },
  ],
  notes: ['Every key has been used before its pairs are counted. A process that has not seen a key reads it first.'],
} satisfies Benchmark
