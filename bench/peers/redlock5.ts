// redlock 5 (beta), and the package that grew out of it: acquire and release; using(), which extends by itself and tells of a loss
// by a signal; several servers.
import type { Redis } from 'ioredis5'
import type { Library } from './library.js'
import { load } from './load.js'

interface RedlockLock {
  readonly expiration: number
  release(): Promise<unknown>
}
interface Redlock {
  acquire(keys: string[], ttlMs: number): Promise<RedlockLock>
  using<T>(keys: string[], ttlMs: number, routine: (signal: AbortSignal) => Promise<T>): Promise<T>
}
type RedlockClass = new (clients: readonly Redis[], settings: object) => Redlock

const library = (name: string, find: () => Promise<RedlockClass>): Library => ({
  name,
  setup: '`using()`, whose `signal` is what it says of a lock; by hand `acquire()` and `lock.expiration`',
  renews: true,
  tells: true,
  sends: ['evalsha', 'eval'],
  quorum: true,
  async open(clients, { retryMs, endless = false } = {}) {
    const Redlock = await find()
    const redlock = new Redlock(clients, {
      ...(endless ? { retryCount: -1 } : {}),
      ...(retryMs === undefined ? {} : { retryDelay: retryMs, retryJitter: Math.floor(retryMs / 2) }),
    })
    return {
      async acquire(key, ttlMs) {
        const lock = await redlock.acquire([key], ttlMs)
        return {
          believes: () => lock.expiration > Date.now(),
          remainingMs: () => lock.expiration - Date.now(),
          release: () => lock.release(),
        }
      },
      hold: (key, ttlMs, work) => redlock.using([key], ttlMs, (signal) => work({ believes: () => !signal.aborted })),
    }
  },
})

/** A CommonJS build has its default export one level down. */
const inner = (found: RedlockClass | { default: RedlockClass }) => ('default' in found ? found.default : found)

export const redlock5 = library('redlock5', async () =>
  inner((await load<{ default: RedlockClass | { default: RedlockClass } }>('redlock5')).default),
)

export const sesame = library('@sesamecare-oss/redlock', async () => {
  const { Redlock } = await load<{ Redlock: RedlockClass }>('@sesamecare-oss/redlock')
  return Redlock
})
