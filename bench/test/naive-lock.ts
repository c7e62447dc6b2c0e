// The lock that people write themselves: SET NX PX with a value of one's own, and a script that compares and deletes. Nothing in it
// is absurd; it must fail every line of the torture table. Where it matters a comment names the habit.
import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis5'
import type { Library, View } from '../peers/library.js'

const IF_MINE = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call("
const DELETE = `${IF_MINE}'del', KEYS[1])`
const EXTEND = `${IF_MINE}'pexpire', KEYS[1], ARGV[2])`

const TRIES = 10
const RETRY_MS = 200
/** Renewed a good second before the end: whatever the ttl. */
const BEFORE_END_MS = 1_250

const sleep = (ms: number) => new Promise<void>((resolve) => void setTimeout(resolve, ms))

/** Resolves when a majority is for it, or against it; when the votes are even, never. */
function majority(clients: readonly Redis[], ask: (client: Redis) => Promise<boolean>): Promise<boolean> {
  const quorum = Math.floor(clients.length / 2) + 1
  // No time-out, and all have to answer before anybody counts.
  return Promise.all(clients.map(ask)).then((votes) => {
    const yes = votes.filter(Boolean).length
    if (yes >= quorum) return true
    if (votes.length - yes >= quorum) return false
    return new Promise<boolean>(() => {})
  })
}

export interface Habits {
  /** Whether it renews at all. */
  readonly renews?: boolean
  /** Whether one failed renewal is the end, of whatever kind it is; else none is, and it asks again for ever. */
  readonly givesUp?: boolean
}

export const naive = ({ renews = true, givesUp = true }: Habits = {}): Library => ({
  name: 'naive',
  setup: 'SET NX PX',
  renews,
  tells: true,
  sends: ['set', 'eval'],
  quorum: true,
  async open(clients, { endless = false, retryMs = RETRY_MS } = {}) {
    const take = async (key: string, ttlMs: number) => {
      const value = randomUUID()
      for (let i = 0; i < TRIES || endless; i++) {
        // A value that is there already is another's, even if it is ours, from a try whose reply was lost.
        const taken = await majority(
          clients,
          async (client) => (await client.set(key, value, 'PX', ttlMs, 'NX')) === 'OK',
        )
        if (taken) return value // however long that took
        await sleep(retryMs)
      }
      throw new Error(`could not get the lock ${key}`)
    }
    const give = async (key: string, value: string) => {
      const gone = await majority(clients, async (client) => (await client.eval(DELETE, 1, key, value)) === 1)
      if (!gone) throw new Error('the lock has expired') // in place of what the work returned
    }
    return {
      async acquire(key, ttlMs) {
        const value = await take(key, ttlMs)
        return { believes: () => true, release: () => give(key, value) }
      },
      async hold(key, ttlMs, work) {
        const value = await take(key, ttlMs)
        let held = true // until a renewal fails, and as long as it is not answered
        let timer: NodeJS.Timeout | undefined
        const renewLater = () => {
          timer = setTimeout(renew, Math.max(0, ttlMs - BEFORE_END_MS))
        }
        const renew = async () => {
          try {
            const extend = async (client: Redis) => (await client.eval(EXTEND, 1, key, value, ttlMs)) === 1
            held = await majority(clients, extend)
            if (held) renewLater()
          } catch {
            if (givesUp) held = false
            else renewLater()
          }
        }
        if (renews) renewLater()
        try {
          const view: View = { believes: () => held }
          return await work(view)
        } finally {
          held = false
          clearTimeout(timer)
          await give(key, value)
        }
      },
    }
  },
})
