// One of the processes that want the same lease: four workers that take it, hold it for a ms, give it back and may pause. Tells
// how long each grant was waited for, by worker.
import { randomUUID } from 'node:crypto'
import { createLeases } from 'holdfast'
import { redisStore } from 'holdfast/redis'
import { Redis } from 'ioredis5'
import { peers } from '../peers/index.js'

/** What the benchmark asks for. */
export interface Task {
  readonly port: number
  readonly way: 'BLPOP' | 'SET NX PX' | 'library' | 'peer'
  /** Somebody else's library, and how often it retries where not as often as by default. */
  readonly peer?: { readonly name: string; readonly retryMs: number | undefined } | undefined
  readonly workers: number
  readonly holdMs: number
  readonly pauseMs: number
  readonly startAtMs: number
  readonly seconds: number
}

const KEY = 'resource'
const TTL_MS = 30_000
const POLL_MS = 5
const COMPARE_AND_DELETE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

type Take = () => Promise<() => Promise<unknown>>

const task: Task = JSON.parse(process.argv[2] ?? '')
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const connect = () => new Redis({ host: '127.0.0.1', port: task.port })

const ways: Record<Task['way'], () => Take[] | Promise<Take[]>> = {
  // A list with one permit: first in, first out in the server, and lost for ever when its holder dies.
  BLPOP: () =>
    Array.from({ length: task.workers }, (): Take => {
      const [waiting, giving] = [connect(), connect()]
      return async () => {
        await waiting.blpop(KEY, 0)
        return () => giving.rpush(KEY, 'permit')
      }
    }),
  'SET NX PX': () => {
    const client = connect()
    const take: Take = async () => {
      const claim = randomUUID()
      while ((await client.set(KEY, claim, 'PX', TTL_MS, 'NX')) === null) await sleep(POLL_MS)
      return () => client.eval(COMPARE_AND_DELETE, 1, KEY, claim)
    }
    return Array.from({ length: task.workers }, () => take)
  },
  library: () => {
    const leases = createLeases({ store: redisStore(connect()), ttlMs: TTL_MS, waitMs: TTL_MS })
    const take: Take = async () => {
      const lease = await leases.acquire(KEY)
      return () => lease.release()
    }
    return Array.from({ length: task.workers }, () => take)
  },
  async peer() {
    const library = peers.find(({ name }) => name === task.peer?.name)
    if (library === undefined) throw new Error(`no library ${task.peer?.name}`)
    const { retryMs } = task.peer ?? {}
    const locks = await library.open([connect()], { endless: true, ...(retryMs === undefined ? {} : { retryMs }) })
    const take: Take = async () => {
      const lock = await locks.acquire(KEY, TTL_MS)
      return () => lock.release()
    }
    return Array.from({ length: task.workers }, () => take)
  },
}

const takes = await ways[task.way]()
await sleep(task.startAtMs - Date.now())
const endMs = performance.now() + task.seconds * 1_000

async function work(take: Take): Promise<number[]> {
  const waits: number[] = []
  while (performance.now() < endMs) {
    const askedMs = performance.now()
    const giveBack = await take()
    waits.push(performance.now() - askedMs)
    await sleep(task.holdMs)
    await giveBack()
    if (task.pauseMs > 0) await sleep(task.pauseMs)
  }
  return waits
}

// Not before all of it is out: a pipe takes so much at once only.
process.stdout.write(JSON.stringify({ waits: await Promise.all(takes.map(work)) }), () => process.exit())
