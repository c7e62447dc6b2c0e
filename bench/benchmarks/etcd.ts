// What a lease costs in etcd, against the least that could do the job: one transaction that puts a key on an etcd lease that is there,
// and one that deletes it, through the same gateway. etcd waits for the disk at each. One pair in flight, and 64; and what etcd3 offers.
import { createRequire } from 'node:module'
import { createLeases, type Leases } from 'holdfast'
import { type EtcdStore, etcdStore } from 'holdfast/etcd'
import { EtcdServer, post } from '../../packages/holdfast/test/etcd/servers.js'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { pairsInFlight } from '../measure/pairs.js'

const TTL_MS = 30_000
const MANY = 64

type Pair = (worker: number, n: number) => Promise<unknown>

let server: Promise<EtcdServer> | undefined
let url: string
let store: EtcdStore
let leases: Leases
let lease: string
let requests = 0
let end: () => void = () => {}

const counting: typeof fetch = (input, init) => {
  requests++
  return fetch(input, init)
}

/** A key that no other worker uses. */
const keyOf = (worker: number, n: number) => `invoice:${worker}:${n % 16}`

const send = async (body: unknown) => {
  const response = await counting(`${url}/v3/kv/txn`, { method: 'POST', body: JSON.stringify(body) })
  return (await response.json()) as { succeeded?: boolean }
}

const raw: Pair = async (worker, n) => {
  const key = btoa(`raw/${keyOf(worker, n)}`)
  const value = btoa(crypto.randomUUID())
  const { succeeded } = await send({
    compare: [{ key, target: 'CREATE', result: 'EQUAL', create_revision: '0' }],
    success: [{ request_put: { key, value, lease } }],
  })
  if (succeeded !== true) throw new Error('not granted')
  await send({
    compare: [{ key, target: 'VALUE', result: 'EQUAL', value }],
    success: [{ request_delete_range: { key } }],
  })
}

const library: Pair = async (worker, n) => {
  const one = await leases.acquire(keyOf(worker, n))
  await one.release()
}

/** Other people's lock, where it is installed: `npm ci` in bench/peers. It has no tokens. */
const load = createRequire(new URL('../peers/package.json', import.meta.url))

interface Etcd3 {
  lock(key: string): { ttl(seconds: number): { acquire(): Promise<{ release(): Promise<unknown> }> } }
  close(): void
}

function etcd3(): Pair {
  const { Etcd3: Client } = load('etcd3') as { Etcd3: new (options: { hosts: string }) => Etcd3 }
  const client = new Client({ hosts: url })
  end = () => client.close()
  return async (worker, n) => {
    const lock = await client
      .lock(`peer/${keyOf(worker, n)}`)
      .ttl(TTL_MS / 1_000)
      .acquire()
    await lock.release()
  }
}

const isThere = () => {
  try {
    load.resolve('etcd3')
    return true
  } catch {
    return false
  }
}

const ways: Record<string, () => Pair> = {
  'two transactions': () => raw,
  library: () => library,
  ...(isThere() ? { 'etcd3 lock()': etcd3 } : {}),
}

const nameOf = (way: string, workers: number) => `${way}, ${workers} in flight`

const subject = (way: string, make: () => Pair, workers: number): Subject => {
  let pair: Pair
  return {
    name: nameOf(way, workers),
    floor: nameOf('two transactions', workers),
    async setup() {
      server ??= EtcdServer.start([])
      const running = await server
      running.unref()
      url = running.url
      lease = String((await post(url, '/v3/lease/grant', { TTL: '3600' })).ID)
      store = etcdStore({ endpoints: [url], fetch: counting })
      leases = createLeases({ store, ttlMs: TTL_MS })
      end = () => {}
      pair = make()
      await Promise.all(Array.from({ length: workers }, (_, worker) => pair(worker, 0))) // opens the connections
    },
    async run(seconds): Promise<Metrics> {
      requests = 0
      let pairs = 0
      const metrics = await pairsInFlight(seconds, workers, (worker, n) => {
        pairs++
        return pair(worker, n)
      })
      return requests === 0 ? metrics : { ...metrics, requests: { value: requests / pairs, unit: '/pair' } }
    },
    async teardown() {
      await leases.close()
      end()
    },
  }
}

export default {
  name: 'etcd',
  title: 'Uncontended acquire + release in etcd, one process, one member, JSON gateway, fsync on',
  floor: nameOf('two transactions', 1),
  subjects: [1, MANY].flatMap((workers) => Object.entries(ways).map(([way, make]) => subject(way, make, workers))),
  targets: [
    { subject: nameOf('library', 1), metric: 'pairs', of: 'ratio', atLeast: 0.8 },
    { subject: nameOf('library', MANY), metric: 'pairs', of: 'ratio', atLeast: 0.8 },
  ],
  notes: [
    'The raw transactions use one etcd lease that is there. So does the library, which keeps it alive meanwhile.',
    ...(isThere() ? [] : ['etcd3 is not installed: npm ci in bench/peers, and it is in the table.']),
  ],
} satisfies Benchmark
