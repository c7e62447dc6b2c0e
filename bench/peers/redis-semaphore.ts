// redis-semaphore: Mutex on one server, RedlockMutex on several; refreshes by itself, and tells of a loss by a callback.
import type { Redis } from 'ioredis5'
import type { Library } from './library.js'
import { load } from './load.js'

interface Mutex {
  readonly isAcquired: boolean
  acquire(): Promise<void>
  release(): Promise<void>
}
interface Semaphores {
  Mutex: new (client: Redis | undefined, key: string, options: object) => Mutex
  RedlockMutex: new (clients: readonly Redis[], key: string, options: object) => Mutex
}

export const redisSemaphore: Library = {
  name: 'redis-semaphore',
  setup:
    '`Mutex`, over several servers `RedlockMutex`, with `lockTimeout` and `onLockLost`; `isAcquired` is what it says of a lock',
  renews: true,
  tells: true,
  sends: ['set', 'evalsha', 'eval'],
  quorum: true,
  async open(clients, { retryMs, endless = false } = {}) {
    const { Mutex, RedlockMutex } = await load<Semaphores>('redis-semaphore')
    const create = (key: string, ttlMs: number): Mutex => {
      const options = {
        lockTimeout: ttlMs,
        onLockLost: () => {}, // `isAcquired` is false by then
        ...(retryMs === undefined ? {} : { retryInterval: retryMs }),
        ...(endless ? { acquireTimeout: Number.POSITIVE_INFINITY } : {}),
      }
      return clients.length > 1 ? new RedlockMutex(clients, key, options) : new Mutex(clients[0], key, options)
    }
    return {
      async acquire(key, ttlMs) {
        const mutex = create(key, ttlMs)
        await mutex.acquire()
        return { believes: () => mutex.isAcquired, release: () => mutex.release() }
      },
      async hold(key, ttlMs, work) {
        const mutex = create(key, ttlMs)
        await mutex.acquire()
        try {
          return await work({ believes: () => mutex.isAcquired })
        } finally {
          await mutex.release()
        }
      },
    }
  },
}
