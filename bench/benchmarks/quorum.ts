// What a lease at a quorum of independent Redis masters costs, against the least that a majority costs without a token: SET NX
// PX and a script that compares and deletes, sent to all at once, done when more than half have answered. And what others make
// of it. One pair in flight, and 64.
import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { createLeases, type LeaseStore, type Leases } from 'holdfast'
import { quorumStore } from 'holdfast/quorum'
import { redisStore } from 'holdfast/redis'
import { Redis } from 'ioredis5'
import { Masters } from '../../packages/holdfast/test/quorum/masters.js'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { pairsInFlight } from '../measure/pairs.js'

const TTL_MS = 30_000
const MANY = 64
const COMPARE_AND_DELETE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

/** What one pair of this way is, on these clients. */
type Pair = (key: string) => Promise<unknown>
interface Made {
  readonly pair: Pair
  close?(): Promise<unknown>
}
type Way = (clients: Redis[]) => Made | Promise<Made>

/** Resolves when more than half have answered yes. */
function majority(answers: Promise<unknown>[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const needed = Math.floor(answers.length / 2) + 1
    let yes = 0
    for (const answer of answers)
      answer.then((value) => {
        if (value === 'OK' || value === 1) if (++yes === needed) resolve()
      }, reject)
  })
}

const floor: Way = async (clients) => {
  const shas = await Promise.all(clients.map((client) => client.script('LOAD', COMPARE_AND_DELETE)))
  const sha = String(shas[0])
  return {
    async pair(key) {
      const claim = randomUUID()
      await majority(clients.map((client) => client.set(key, claim, 'PX', TTL_MS, 'NX')))
      await majority(clients.map((client) => client.evalsha(sha, 1, key, claim)))
    },
  }
}

const quorumOf = (clients: Redis[]): LeaseStore => quorumStore(clients.map((client) => redisStore(client)))

const verbs: Way = (clients) => {
  const store = quorumOf(clients)
  return {
    async pair(key) {
      const grant = { key, claim: randomUUID(), holder: 'bench:1234' }
      const answer = await store.acquire({ ...grant, ttlMs: TTL_MS })
      if (answer.is === 'granted') await store.release({ ...grant, token: answer.token })
    },
    close: () => store.close(),
  }
}

const library: Way = (clients) => {
  const leases: Leases = createLeases({ store: quorumOf(clients), ttlMs: TTL_MS })
  return {
    pair: async (key) => (await leases.acquire(key)).release(),
    close: () => leases.close(),
  }
}

/** Other people's quorums, where they are installed: `npm ci` in bench/peers. They have no tokens. */
const peers: Record<string, (load: NodeJS.Require) => Way> = {
  'redlock 4.2.0'(load) {
    const Redlock = load('redlock')
    return (clients) => {
      const redlock = new Redlock(clients, { retryCount: 0 })
      return { pair: async (key) => (await redlock.lock(key, TTL_MS)).unlock() }
    }
  },
  'redlock 5.0.0-beta.2'(load) {
    const { default: Redlock } = load('redlock5')
    return (clients) => {
      const redlock = new Redlock(clients, { retryCount: 0 })
      return { pair: async (key) => (await redlock.acquire([key], TTL_MS)).release() }
    }
  },
  '@sesamecare-oss/redlock 1.4.0'(load) {
    const { Redlock } = load('@sesamecare-oss/redlock')
    return (clients) => {
      const redlock = new Redlock(clients, { retryCount: 0 })
      return { pair: async (key) => (await redlock.acquire([key], TTL_MS)).release() }
    }
  },
  'redlock-universal 0.8.5'(load) {
    const { createRedlock, IoredisAdapter } = load('redlock-universal')
    return (clients) => {
      const adapters = clients.map((client) => new IoredisAdapter(client))
      return {
        async pair(key) {
          const lock = createRedlock({ adapters, key, ttl: TTL_MS, retryAttempts: 0 })
          await lock.release(await lock.acquire())
        },
      }
    }
  },
}

const load = createRequire(new URL('../peers/package.json', import.meta.url))
const missing: string[] = []
const others: [string, Way][] = Object.entries(peers).flatMap(([name, make]): [string, Way][] => {
  try {
    return [[name, make(load)]]
  } catch {
    missing.push(name)
    return []
  }
})

const running = new Map<number, Promise<Masters>>()
/** Masters that are started once and end with this process. */
async function masters(count: number): Promise<Masters> {
  const known = running.get(count)
  if (known !== undefined) return known
  const started = Masters.start(count)
  running.set(count, started)
  ;(await started).unref()
  return started
}

/** Counts what a client sends. */
function countCommands(client: Redis, tally: { commands: number }): void {
  const send = client.sendCommand.bind(client)
  client.sendCommand = (...args) => {
    tally.commands++
    return send(...args)
  }
}

const nameOf = (way: string, nodes: number, workers: number) => `${way}, ${nodes} masters, ${workers} in flight`
const FLOOR = 'SET NX PX'

function subject(way: string, make: Way, nodes: number, workers: number): Subject {
  const tally = { commands: 0 }
  let clients: Redis[] = []
  let made: Made | undefined
  return {
    name: nameOf(way, nodes, workers),
    floor: nameOf(FLOOR, nodes, workers),
    async setup() {
      const { ports } = await masters(nodes)
      clients = ports.map((port) => new Redis({ host: '127.0.0.1', port }))
      await Promise.all(clients.map((client) => client.flushall()))
      for (const client of clients) countCommands(client, tally)
      made = await make(clients)
      await made.pair('first') // scripts are loaded, servers are known
    },
    async run(seconds): Promise<Metrics> {
      const { pair } = made as Made
      await pairsInFlight(seconds / 2, workers, (worker, n) => pair(`warm-up:${worker}:${n}`)) // code is compiled by then
      const before = tally.commands
      let pairs = 0
      const metrics = await pairsInFlight(seconds, workers, (worker, n) => {
        pairs++
        return pair(`invoice:${worker}:${n}`) // the last release may not have reached every master yet
      })
      const commands = (tally.commands - before) / pairs / nodes
      return { ...metrics, commands: { value: commands, unit: 'a pair and node' } }
    },
    async teardown() {
      await made?.close?.()
      for (const client of clients) client.disconnect()
    },
  }
}

const ways: [string, Way][] = [[FLOOR, floor], ['its verbs', verbs], ['library', library], ...others]
const few: [string, Way][] = [
  [FLOOR, floor],
  ['library', library],
]

export default {
  name: 'quorum',
  title: 'Uncontended acquire + release at a quorum of Redis masters, one process, ioredis 5',
  floor: nameOf(FLOOR, 5, 1),
  seconds: 2,
  subjects: [
    ...[1, MANY].flatMap((workers) => ways.map(([way, make]) => subject(way, make, 5, workers))),
    ...[1, MANY].flatMap((workers) => few.map(([way, make]) => subject(way, make, 3, workers))),
  ],
  notes: [
    `Ratios are to ${FLOOR} on as many masters with as many in flight. "library" has fencing tokens, the others have none.`,
    ...missing.map((name) => `${name} is not installed: npm ci in bench/peers, and it is in the table.`),
  ],
} satisfies Benchmark
