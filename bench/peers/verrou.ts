// verrou: one lock on one server, with extend() by hand; no renewal of its own, no several servers.
import type { Redis } from 'ioredis5'
import { type Library, only } from './library.js'
import { load } from './load.js'

interface VerrouLock {
  acquire(): Promise<boolean>
  release(): Promise<void>
  run<T>(work: () => Promise<T>): Promise<[true, T] | [false, null]>
  isExpired(): boolean
  getRemainingTime(): number | null
}
interface Core {
  LockFactory: new (store: unknown, options: object) => { createLock(key: string, ttlMs: number): VerrouLock }
}
interface RedisDriver {
  redisStore(options: { connection: Redis }): { factory(): unknown }
}

export const verrou: Library = {
  name: '@verrou/core',
  setup:
    '`createLock(key, ttl).run()` on its Redis driver; `isExpired()` is what it says of a lock; it waits without limit',
  renews: false,
  tells: false,
  sends: ['set', 'eval'],
  quorum: false,
  async open(clients, { retryMs } = {}) {
    const { LockFactory } = await load<Core>('@verrou/core')
    const { redisStore } = await load<RedisDriver>('@verrou/core/drivers/redis')
    const factory = new LockFactory(redisStore({ connection: only(clients) }).factory(), {
      ...(retryMs === undefined ? {} : { retry: { delay: retryMs } }),
    })
    const view = (lock: VerrouLock) => ({
      believes: () => !lock.isExpired(),
      remainingMs: () => lock.getRemainingTime() ?? undefined,
    })
    return {
      async acquire(key, ttlMs) {
        const lock = factory.createLock(key, ttlMs)
        if (!(await lock.acquire())) throw new Error('acquire() gave false')
        return { ...view(lock), release: () => lock.release() }
      },
      async hold(key, ttlMs, work) {
        const lock = factory.createLock(key, ttlMs)
        const [held, value] = await lock.run(() => work(view(lock)))
        if (!held) throw new Error('run() gave false')
        return value
      },
    }
  },
}
