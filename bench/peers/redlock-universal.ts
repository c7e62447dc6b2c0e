// redlock-universal: createLock on one server, createRedlock on several; using() extends by itself and tells by a signal.
import type { Redis } from 'ioredis5'
import type { Library } from './library.js'
import { load } from './load.js'

interface Handle {
  readonly acquiredAt: number
  readonly ttl: number
}
interface UniversalLock {
  acquire(): Promise<Handle>
  release(handle: Handle): Promise<boolean>
  using<T>(routine: (signal: AbortSignal) => Promise<T>): Promise<T>
}
interface Universal {
  IoredisAdapter: new (client: Redis) => object
  createLock(config: object): UniversalLock
  createRedlock(config: object): UniversalLock
}

const library = (performance: 'standard' | 'lean'): Library => ({
  name: 'redlock-universal',
  setup: `\`createLock\`, over several servers \`createRedlock\`, ${performance}; \`using()\`, whose \`signal\` is what it says of a lock; by hand \`acquiredAt\` and \`ttl\` of the handle`,
  renews: true,
  tells: true,
  sends: ['set', 'evalsha', 'eval'],
  quorum: true,
  async open(clients, { retryMs, endless = false } = {}) {
    const { IoredisAdapter, createLock, createRedlock } = await load<Universal>('redlock-universal')
    const adapters = clients.map((client) => new IoredisAdapter(client))
    // One object for each key, used again and again, as its README shows: a new one begins with a PING.
    const locks = new Map<string, UniversalLock>()
    const lockOf = (key: string, ttl: number): UniversalLock => {
      const known = locks.get(`${ttl} ${key}`)
      if (known !== undefined) return known
      const lock = create(key, ttl)
      locks.set(`${ttl} ${key}`, lock)
      return lock
    }
    const create = (key: string, ttl: number): UniversalLock => {
      const config = {
        key,
        ttl,
        ...(retryMs === undefined ? {} : { retryDelay: retryMs }),
        ...(endless ? { retryAttempts: 1_000_000_000 } : {}),
      }
      if (adapters.length > 1) return createRedlock({ ...config, adapters })
      return createLock({ ...config, adapter: adapters[0], performance })
    }
    return {
      async acquire(key, ttlMs) {
        const lock = lockOf(key, ttlMs)
        const handle = await lock.acquire()
        const remainingMs = () => handle.acquiredAt + handle.ttl - Date.now()
        return { believes: () => remainingMs() > 0, remainingMs, release: () => lock.release(handle) }
      },
      hold: (key, ttlMs, work) => lockOf(key, ttlMs).using((signal) => work({ believes: () => !signal.aborted })),
    }
  },
})

export const redlockUniversal = library('standard')
export const redlockUniversalLean: Library = { ...library('lean'), name: 'redlock-universal (lean)', quorum: false }
