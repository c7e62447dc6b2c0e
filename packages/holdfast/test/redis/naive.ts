// What people write when they write a lock on Redis themselves: SET NX PX, compare-and-delete in a script, a timer that prolongs
// it. Nothing in it is absurd; each line has been shipped. Where a case fails it, a comment names the habit.
import { randomUUID } from 'node:crypto'
import { Cluster, Redis } from 'ioredis'
import type { CaseClient, CaseLease, CaseOptions, Maker } from './case.js'
import { waitUntil } from './servers.js'

const COMPARE_AND_DELETE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', 'released:' .. KEYS[1], '')
return 1`

// Two keys that lie where they like.
const IN_LINE = `
local place = redis.call('LPOS', KEYS[2], ARGV[1])
if not place then redis.call('RPUSH', KEYS[2], ARGV[1]) end
if redis.call('LINDEX', KEYS[2], 0) ~= ARGV[1] then return 0 end
if not redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return 0 end
redis.call('LPOP', KEYS[2])
return 1`

const sleep = (ms: number) => new Promise<void>((resolve) => void setTimeout(resolve, ms))

class NaiveLocks implements CaseClient {
  readonly #redis: Redis | Cluster
  readonly #listener: () => Redis
  readonly #sha: Promise<string>
  #listening: Redis | undefined

  constructor(redis: Redis | Cluster, listener: () => Redis) {
    this.#redis = redis
    this.#listener = listener
    // Loaded once, when the application starts.
    this.#sha = redis.script('LOAD', COMPARE_AND_DELETE) as Promise<string>
    this.#sha.catch(() => {})
  }

  async acquire(key: string, options: CaseOptions = {}): Promise<CaseLease> {
    const { ttlMs = 30_000, waitMs = 10_000, wait = 'by polling' } = options
    const until = Date.now() + waitMs
    const name = `lock:${key}`
    const mine = randomUUID()
    do {
      const value = wait === 'in line' ? mine : randomUUID() // anew for each try: a lost reply leaves a ghost
      try {
        if (await this.#take(name, value, ttlMs, wait)) {
          const token = await this.#redis.incr(`${name}:token`) // a counter that goes with the data
          return new NaiveLock(this.#redis, await this.#sha, { key, name, value, token, ttlMs }, options)
        }
      } catch (error) {
        if (String(error).includes('CROSSSLOT')) throw error
        // Any other trouble looks like a lock that another holds.
      }
      if (Date.now() < until) await (wait === 'for a message' ? this.#message(name) : sleep(10))
    } while (Date.now() < until) // whoever gave up meanwhile is not asked, and his place in the line stays
    throw new Error(`"${key}" is locked by another`)
  }

  async hold<T>(key: string, options: CaseOptions, work: (lease: CaseLease) => T | PromiseLike<T>): Promise<T> {
    const lock = await this.acquire(key, options)
    try {
      return await work(lock)
    } finally {
      await lock.release() // what it throws takes the place of the work's value, and of its error
    }
  }

  close(): void {
    this.#redis.disconnect()
    this.#listening?.disconnect()
  }

  async #take(name: string, value: string, ttlMs: number, wait: CaseOptions['wait']): Promise<boolean> {
    if (wait === 'in line') return (await this.#redis.eval(IN_LINE, 2, name, `${name}:line`, value, ttlMs)) === 1
    return (await this.#redis.set(name, value, 'PX', ttlMs, 'NX')) === 'OK'
  }

  /** Sleeps until the message of the release, or for as long as the lock may last. It was looked at before it is listened for. */
  async #message(name: string): Promise<void> {
    const ttlMs = await this.#redis.pttl(name)
    this.#listening ??= this.#listener()
    const listener = this.#listening
    await listener.subscribe(`released:${name}`)
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.max(0, ttlMs))
      listener.once('message', () => {
        clearTimeout(timer)
        resolve()
      })
    })
  }
}

interface Taken {
  readonly key: string
  readonly name: string
  readonly value: string
  readonly token: number
  readonly ttlMs: number
}

class NaiveLock implements CaseLease {
  held = true
  readonly #redis: Redis | Cluster
  readonly #sha: string
  readonly #taken: Taken
  readonly #controller = new AbortController()
  readonly #renewEveryMs: number
  #timer: ReturnType<typeof setTimeout> | undefined
  #expiresAt: number

  constructor(redis: Redis | Cluster, sha: string, taken: Taken, { renew = true, renewEveryMs }: CaseOptions) {
    this.#redis = redis
    this.#sha = sha
    this.#taken = taken
    this.#renewEveryMs = renewEveryMs ?? taken.ttlMs / 2
    this.#expiresAt = Date.now() + taken.ttlMs // counted from the reply
    if (renew) this.#arm()
  }

  get token(): number {
    return this.#taken.token
  }

  get remainingMs(): number {
    return this.#expiresAt - Date.now()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  async renew(): Promise<void> {
    try {
      // Prolongs whatever is there, whoever put it there.
      if ((await this.#redis.pexpire(this.#taken.name, this.#taken.ttlMs)) !== 1) throw new Error('the lock is gone')
      this.#expiresAt = Date.now() + this.#taken.ttlMs
    } catch (error) {
      // One failure, of whatever kind, and it is over.
      this.held = false
      this.#controller.abort(error)
      throw error
    }
  }

  async release(): Promise<void> {
    clearTimeout(this.#timer)
    const freed = await this.#redis.evalsha(this.#sha, 1, this.#taken.name, this.#taken.value)
    if (freed !== 1) throw new Error('the lock has expired')
    this.held = false
  }

  /** The next renewal is armed by the answer to the last, which may come after the release. */
  #arm(): void {
    this.#timer = setTimeout(() => {
      this.renew().then(
        () => this.#arm(),
        () => {},
      )
    }, this.#renewEveryMs)
  }
}

const quiet = <R extends Redis | Cluster>(redis: R): R => redis.on('error', () => {}) as R

export const naive: Maker = {
  name: 'a naive client',
  keyOf: (key) => `lock:${key}`,
  async client({ port, listenPort = port, callTimeoutMs }) {
    const options = { port, ...(callTimeoutMs === undefined ? {} : { commandTimeout: callTimeoutMs }) }
    const redis = quiet(new Redis(options))
    await waitUntil('the connection', () => redis.status === 'ready') // its time-out counts from before that
    return new NaiveLocks(redis, () => quiet(new Redis({ port: listenPort })))
  },
  async clusterClient({ ports }) {
    const cluster = quiet(new Cluster(ports.map((port) => ({ host: '127.0.0.1', port }))))
    await waitUntil('the cluster', () => cluster.status === 'ready')
    return new NaiveLocks(cluster, () => quiet(new Redis({ port: ports[0] ?? 0 })))
  },
  async look({ port }, key) {
    const redis = quiet(new Redis({ port }))
    const remainingMs = await redis.pttl(`lock:${key}`)
    redis.disconnect()
    return { held: remainingMs > 0, remainingMs }
  },
}
