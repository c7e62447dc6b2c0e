// What holding costs: many leases of one process in Redis, renewed by the library, nothing else going on. The floor is one script
// call for each key, as often as the library renews.
import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { createLeases, type Lease } from 'holdfast'
import { redisStore } from 'holdfast/redis'
import type { Redis } from 'ioredis5'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { collectGarbage } from '../harness/heap.js'
import { counted } from '../measure/counted-store.js'
import { cpuShareDuring } from '../measure/cpu.js'
import { loopDelay } from '../measure/loop-delay.js'
import { emptyRedis } from '../measure/redis.js'
import { redisCpu } from '../measure/redis-cpu.js'
import { countSent } from '../measure/sent.js'
import { peers } from '../peers/index.js'
import type { Library } from '../peers/library.js'

const SIZES = [5_000, 100_000]
const TTL_MS = 10_000
/** How often the floor renews: the mean of the library's periods. */
const FLOOR_EVERY_MS = 4_750
/** So many are taken at once. */
const TAKEN_TOGETHER = 1_000
/** Leases that were lost are given back by some libraries only after all their retries. */
const TEARDOWN_MS_MAX = 60_000
const COMPARE_AND_EXTEND =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"

/** What was taken. */
interface Holding {
  /** How many are no longer held, as far as the holder knows. */
  lost(): number
  /** How many renewals there were so far, where the library does not send one command for each. */
  renewals?(): number
  giveBack(): Promise<unknown>
}

type Take = (client: Redis, keys: readonly string[]) => Promise<Holding>

/** Takes keys, some together: all at once would be a benchmark of something else. */
async function inParts<T>(keys: readonly string[], take: (key: string) => Promise<T>): Promise<T[]> {
  const taken: T[] = []
  for (let i = 0; i < keys.length; i += TAKEN_TOGETHER) {
    taken.push(...(await Promise.all(keys.slice(i, i + TAKEN_TOGETHER).map(take))))
  }
  return taken
}

const floor: Take = async (client, keys) => {
  const sha = String(await client.script('LOAD', COMPARE_AND_EXTEND))
  let lost = 0
  const timers = await inParts(keys, async (key) => {
    const claim = randomUUID()
    await client.set(key, claim, 'PX', TTL_MS, 'NX')
    return setInterval(async () => {
      if ((await client.evalsha(sha, 1, key, claim, TTL_MS)) !== 1) lost++
    }, FLOOR_EVERY_MS)
  })
  return {
    lost: () => lost,
    async giveBack() {
      for (const timer of timers) clearInterval(timer)
    },
  }
}

const library: Take = async (client, keys) => {
  let renewals = 0
  const store = counted(redisStore(client), {
    onRenew: (leases) => {
      renewals += leases.length
    },
  })
  const leases = createLeases({ store, ttlMs: TTL_MS })
  const held: Lease[] = await inParts(keys, (key) => leases.acquire(key))
  return {
    lost: () => held.filter((lease) => !lease.held).length,
    renewals: () => renewals,
    async giveBack() {
      await Promise.all(held.map((lease) => lease.release()))
      await leases.close()
    },
  }
}

const peer =
  (other: Library): Take =>
  async (client, keys) => {
    const locks = await other.open([client])
    let end = () => {}
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    const holds: Promise<unknown>[] = []
    const views = await inParts(keys, (key) => {
      return new Promise<{ believes(): boolean | undefined }>((granted, failed) => {
        const hold = locks.hold(key, TTL_MS, (view) => {
          granted(view)
          return ended
        })
        hold.catch(failed)
        holds.push(hold)
      })
    })
    return {
      lost: () => views.filter((view) => view.believes() !== true).length,
      async giveBack() {
        end()
        await Promise.race([Promise.allSettled(holds), setTimeout(TEARDOWN_MS_MAX, undefined, { ref: false })])
      },
    }
  }

let client: Redis | undefined
let holding: Holding | undefined

async function measure(take: Take, leases: number, seconds: number): Promise<Metrics> {
  client = await emptyRedis()
  const sent = countSent(client)
  const keys = Array.from({ length: leases }, (_, i) => `shard:${i}`)
  holding = await take(client, keys)
  collectGarbage()
  const windowMs = 1000 * seconds
  const before = holding.renewals?.() ?? 0
  const redisMs = await redisCpu(client)
  const sentBefore = sent()
  const longest = loopDelay()
  const share = await cpuShareDuring(() => setTimeout(windowMs))
  const delayMs = longest()
  const commands = sent() - sentBefore
  const cpuMs = await redisMs()
  const renewals = (holding.renewals?.() ?? 0) - before
  return {
    commands: { value: commands / seconds, unit: '/s' },
    ...(renewals > 0 ? { 'commands for 100 renewals': { value: (100 * commands) / renewals, unit: '' } } : {}),
    CPU: { value: share, unit: '% of a core' },
    'CPU of Redis': { value: (100 * cpuMs) / windowMs, unit: '% of a core' },
    'longest delay of the event loop': { value: delayMs, unit: 'ms' },
    lost: { value: holding.lost(), unit: 'leases' },
  }
}

const nameOf = (way: string, leases: number) => `${way}, ${leases.toLocaleString('en-US')} leases`

const subject = (way: string, take: Take, leases: number): Subject => ({
  name: nameOf(way, leases),
  floor: nameOf('one script a key', leases),
  run: (seconds) => measure(take, leases, seconds),
  async teardown() {
    await holding?.giveBack()
    holding = undefined
    client?.disconnect()
  },
})

export default {
  name: 'redis-held',
  title: 'Leases held by one process in Redis (ttl 10 s): commands and CPU of their renewal',
  floor: nameOf('one script a key', 5_000),
  seconds: 20,
  subjects: SIZES.flatMap((leases) => [
    subject('one script a key', floor, leases),
    subject('library', library, leases),
  ]),
  peers: SIZES.flatMap((leases) =>
    peers.filter(({ renews }) => renews).map((other) => subject(other.name, peer(other), leases)),
  ),
  targets: SIZES.flatMap((leases) => [
    { subject: nameOf('library', leases), metric: 'commands for 100 renewals', of: 'median' as const, atMost: 1 },
    { subject: nameOf('library', leases), metric: 'lost', of: 'median' as const, atMost: 0 },
  ]),
  notes: [
    'Other libraries send one command for each renewal: redlock 5 and its heir every 9.5 s, the others every 8 s. Holdfast renews',
    'every 4.25 to 5 s. CPU includes what an idle process takes, 1 to 3 % of a core.',
  ],
} satisfies Benchmark
