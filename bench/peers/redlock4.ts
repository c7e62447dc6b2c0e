// redlock 4: lock, unlock, extend; several servers; no renewal of its own.
import type { Redis } from 'ioredis5'
import type { Library } from './library.js'
import { load } from './load.js'

interface RedlockLock {
  readonly expiration: number
  unlock(): Promise<void>
}
interface Redlock {
  lock(key: string, ttlMs: number): Promise<RedlockLock>
}
type RedlockClass = new (clients: readonly Redis[], options: object) => Redlock

export const redlock4: Library = {
  name: 'redlock',
  setup:
    '`lock()`, then `unlock()` with its error caught, as its README shows; `lock.expiration` is what it says of a lock',
  renews: false,
  tells: false,
  sends: ['evalsha', 'eval'],
  quorum: true,
  async open(clients, { retryMs, endless = false } = {}) {
    const { default: Redlock } = await load<{ default: RedlockClass }>('redlock')
    const redlock = new Redlock(clients, {
      ...(endless ? { retryCount: -1 } : {}),
      ...(retryMs === undefined ? {} : { retryDelay: retryMs, retryJitter: Math.floor(retryMs / 2) }),
    })
    const view = (lock: RedlockLock) => ({
      believes: () => lock.expiration > Date.now(),
      remainingMs: () => lock.expiration - Date.now(),
    })
    return {
      async acquire(key, ttlMs) {
        const lock = await redlock.lock(key, ttlMs)
        return { ...view(lock), release: () => lock.unlock() }
      },
      async hold(key, ttlMs, work) {
        const lock = await redlock.lock(key, ttlMs)
        let trouble: unknown
        try {
          return await work({ ...view(lock), releaseError: () => trouble })
        } finally {
          await lock.unlock().catch((error: unknown) => {
            trouble = error
          })
        }
      },
    }
  },
}
