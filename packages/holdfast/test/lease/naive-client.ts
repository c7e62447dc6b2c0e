// What a usual lock library does, over the same store: the client that the cases must fail. Nothing in it is absurd; each
// line has been shipped. Where it matters a comment names the habit.
import { randomUUID } from 'node:crypto'
import type { Grant, LeaseStore } from '../../src/index.js'

export interface NaiveOptions {
  ttlMs?: number
  renewEveryMs?: number
  renew?: boolean
  waitMs?: number
  signal?: AbortSignal
}

export interface NaiveClientOptions extends NaiveOptions {
  store: LeaseStore
  /** Told of a lock that was lost. Without it the failure of a renewal belongs to nobody. */
  onLost?: (error: unknown) => void
}

const sleep = (ms: number) => new Promise<void>((resolve) => void setTimeout(resolve, ms))

export function createNaive(options: NaiveClientOptions): NaiveLeases {
  return new NaiveLeases(options)
}

export class NaiveLeases {
  readonly #options: NaiveClientOptions
  readonly #held = new Set<NaiveLease>()

  constructor(options: NaiveClientOptions) {
    this.#options = options
  }

  async acquire(key: string, options: NaiveOptions = {}): Promise<NaiveLease> {
    // No check of what comes in.
    const { ttlMs = 30_000, waitMs = 10_000, renew = true, ...rest } = { ...this.#options, ...options }
    const { renewEveryMs = ttlMs / 2, signal } = rest
    let over = waitMs <= 0 // a wait of 0 is over before it began
    setTimeout(() => {
      over = true
    }, waitMs) // never cleared
    while (!over && !signal?.aborted) {
      const claim = randomUUID() // anew for each try: a lost reply leaves a ghost
      try {
        const answer = await this.#options.store.acquire({ key, claim, holder: 'naive', ttlMs })
        if (answer.is === 'granted') {
          const grant = { key, claim, holder: 'naive', token: answer.token }
          const lease = new NaiveLease(this.#options, grant, { ttlMs, renewEveryMs, renew }, this.#held)
          this.#held.add(lease)
          return lease // also when nobody waits for it any more
        }
      } catch {
        // An outage looks like a lock that another holds.
      }
      await sleep(100)
    }
    throw new Error(`could not get the lock "${key}"`)
  }

  async tryAcquire(key: string, options: NaiveOptions = {}): Promise<NaiveLease | null> {
    return this.acquire(key, { ...options, waitMs: 0 }).catch(() => null)
  }

  async hold<T>(key: string, options: NaiveOptions, work: (lease: NaiveLease) => T | PromiseLike<T>): Promise<T> {
    const lease = await this.acquire(key, options)
    try {
      return await work(lease)
    } finally {
      await lease.release() // what it throws takes the place of the work's value, and of its error
    }
  }

  /** On SIGTERM: gives everything back, so that others can go on. */
  async close(_options?: { drainMs?: number }): Promise<void> {
    await Promise.all([...this.#held].map((lease) => lease.release()))
  }
}

export class NaiveLease {
  readonly key: string
  readonly token: number
  readonly grant: Grant
  /** Cleared when a renewal fails, and by nothing else. */
  held = true
  readonly #client: NaiveClientOptions
  readonly #ttlMs: number
  readonly #siblings: Set<NaiveLease>
  readonly #controller = new AbortController()
  readonly #timer: ReturnType<typeof setInterval> | undefined
  #expiresAt: number

  constructor(
    client: NaiveClientOptions,
    grant: Grant,
    options: { ttlMs: number; renewEveryMs: number; renew: boolean },
    siblings: Set<NaiveLease>,
  ) {
    this.#client = client
    this.#siblings = siblings
    this.grant = grant
    this.key = grant.key
    this.token = grant.token
    this.#ttlMs = options.ttlMs
    this.#expiresAt = Date.now() + options.ttlMs // counted from the reply, by the wall clock
    if (!options.renew) return
    // A steady interval: it neither waits for the last renewal, nor looks whether there is anything left to renew.
    this.#timer = setInterval(() => {
      const renewal = this.renew()
      if (client.onLost !== undefined) renewal.catch(client.onLost)
    }, options.renewEveryMs)
  }

  get remainingMs(): number {
    return this.#expiresAt - Date.now()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  async renew(): Promise<void> {
    try {
      const { key, claim } = this.grant
      const [outcome] = await this.#client.store.renew([{ key, claim, ttlMs: this.#ttlMs }])
      if (outcome?.is !== 'renewed') throw new Error('the lock was lost')
      this.#expiresAt = Date.now() + this.#ttlMs
    } catch (error) {
      // One failure, of whatever kind, and it is over.
      clearInterval(this.#timer)
      this.held = false
      this.#controller.abort(error)
      throw error
    }
  }

  async release(): Promise<void> {
    clearInterval(this.#timer)
    // Look, then delete: two commands.
    const record = await this.#client.store.inspect(this.key)
    if (record?.claim !== this.grant.claim || record.state !== 'held') throw new Error('the lock has expired')
    await this.#client.store.revoke(this.key, { force: true })
    this.#siblings.delete(this)
  }
}
