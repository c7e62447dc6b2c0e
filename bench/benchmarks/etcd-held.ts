// What it costs etcd to hold 5,000 leases: requests a second while a client renews them as it does, against one keep-alive each as often,
// which does not even say whether the key is still there.
import { performance } from 'node:perf_hooks'
import { createLeases, type Leases } from 'holdfast'
import { type EtcdStore, etcdStore } from 'holdfast/etcd'
import { EtcdServer, post } from '../../packages/holdfast/test/etcd/servers.js'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { cpuTime } from '../measure/cpu.js'

const LEASES = 5_000
const TTL_MS = 10_000
/** As often as the client renews on average: half of the ttl, less half of its jitter. */
const RENEW_EVERY_MS = (TTL_MS / 2) * 0.95
const AT_ONCE = 64

let server: Promise<EtcdServer> | undefined
let url: string
let requests = 0
const counting: typeof fetch = (input, init) => {
  requests++
  return fetch(input, init)
}

const keys = Array.from({ length: LEASES }, (_, i) => `shard:${i}`)

async function each<Item>(items: readonly Item[], work: (item: Item) => Promise<unknown>): Promise<void> {
  const left = [...items]
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let item = left.pop(); item !== undefined; item = left.pop()) await work(item)
    }),
  )
}

async function begin(): Promise<void> {
  server ??= EtcdServer.start(['--unsafe-no-fsync'])
  const running = await server
  running.unref()
  url = running.url
}

async function counted(seconds: number, wait: (endMs: number) => Promise<unknown>): Promise<Metrics> {
  requests = 0
  const usedMs = cpuTime()
  const startMs = performance.now()
  await wait(startMs + 1_000 * seconds)
  const tookMs = performance.now() - startMs
  return {
    requests: { value: (1_000 * requests) / tookMs, unit: '/s' },
    'CPU time': { value: (1_000 * usedMs()) / tookMs, unit: 'ms/s' },
  }
}

let ids: string[] = []
const oneByOne: Subject = {
  name: 'one keep-alive each',
  async setup() {
    await begin()
    ids = []
    await each(keys, async (key) => {
      const lease = String((await post(url, '/v3/lease/grant', { TTL: '3600' })).ID)
      await post(url, '/v3/kv/put', { key: btoa(`raw/${key}`), value: btoa('held'), lease })
      ids.push(lease)
    })
  },
  run: (seconds) =>
    counted(seconds, async (endMs) => {
      const keep = async (ID: string) =>
        (await counting(`${url}/v3/lease/keepalive`, { method: 'POST', body: JSON.stringify({ ID }) })).text()
      const startMs = performance.now()
      for (let n = 0; performance.now() < endMs; n++) {
        const dueMs = startMs + (n * RENEW_EVERY_MS * AT_ONCE) / LEASES
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, dueMs - performance.now())))
        const first = (n * AT_ONCE) % LEASES
        await Promise.all(ids.slice(first, first + AT_ONCE).map(keep))
      }
    }),
  async teardown() {
    await each(ids, (ID) => post(url, '/v3/lease/revoke', { ID }))
  },
}

let store: EtcdStore
let leases: Leases
let lost = 0
/** `sharing: false`: leases with a limit of their own, which never share. */
const library = (name: string, sharing: boolean): Subject => ({
  name,
  async setup() {
    await begin()
    lost = 0
    store = etcdStore({ endpoints: [url], fetch: counting })
    leases = createLeases({ store, onEvent: ({ type }) => type === 'lost' && lost++ })
    const options = { ttlMs: TTL_MS, callTimeoutMs: 3_000, ...(sharing ? {} : { maxHoldMs: 3_600_000 }) }
    await each(keys, (key) => leases.acquire(key, options))
  },
  async run(seconds) {
    const metrics = await counted(seconds, (endMs) => new Promise((go) => setTimeout(go, endMs - performance.now())))
    return { ...metrics, lost: { value: lost, unit: '' } }
  },
  async teardown() {
    await leases.close({ drainMs: 0 }).catch(() => {})
    for (const { ID } of ((await post(url, '/v3/lease/leases', {})) as { leases?: { ID: string }[] }).leases ?? [])
      await post(url, '/v3/lease/revoke', { ID })
  },
})

export default {
  name: 'etcd-held',
  title: `Holding 5,000 leases of ttl ${TTL_MS / 1_000} s in etcd, one process`,
  floor: 'one keep-alive each',
  subjects: [oneByOne, library('library', true), library('library, none of them sharing', false)],
  seconds: 10,
  targets: [
    { subject: 'library', metric: 'requests', of: 'ratio', atMost: 0.05 },
    { subject: 'library', metric: 'lost', of: 'median', atMost: 0 },
  ],
  notes: ['The library also reads whether each key is still on its etcd lease: what a keep-alive alone does not say.'],
} satisfies Benchmark
