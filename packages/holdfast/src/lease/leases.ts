// The client, made by createLeases. It checks what comes in, sends each call to the local queue of its key, and runs work under
// what comes out. Deadlines, renewals, waiting and withdrawals each have a file of their own beside this one.
import type { Grant } from '../store/contract.js'
import { AbortHub } from './abort-hub.js'
import { Alarms } from './alarms.js'
import { Caller } from './call.js'
import { systemClock } from './clock.js'
import { Coalescer } from './coalesce.js'
import type { Core } from './core.js'
import {
  ClosedError,
  DrainTimeoutError,
  InvalidArgumentError,
  LeaseHeldError,
  LeaseLostError,
  type Outcome,
  StoreError,
} from './errors.js'
import { Events } from './events.js'
import type { Home } from './granted.js'
import { Held } from './held.js'
import { checkHolder, checkKey, KEY_BYTES_MAX } from './keys.js'
import { HeldLease, type Lease } from './lease.js'
import { type Answer, LocalQueues } from './local-queue.js'
import {
  type AcquireOptions,
  type ClientOptions,
  checkFunction,
  checkMethods,
  checkOptions,
  count,
  duration,
  holderLabel,
  type LeaseOptions,
  type LeaseSettings,
  settle,
  type TryOptions,
} from './options.js'
import { claims, systemRandom } from './random.js'
import { Renewals, releaseAtStore } from './renewal.js'
import { Timeline } from './timeline.js'
import { Withdrawals } from './withdraw.js'

/** The work that runs under a lease. It is given the lease: `signal` to stop by, `grant` to write with. */
export type Work<T> = (lease: Lease) => T | PromiseLike<T>

/** What `tryHold` gives: the work's value, or who holds the lease instead. */
export type TryHeld<T> =
  | { readonly held: true; readonly value: T }
  | { readonly held: false; readonly by: string; readonly remainingMs: number }

/** A client: holds leases in one store, for one process. Made by `createLeases`. */
export interface Leases {
  /**
   * Takes the lease if it is free: one attempt. Gives null when another holds it, in this process or elsewhere (G1, G13).
   * Rejects with `StoreError` when the store did not answer, and with `ClosedError` once the client is closing.
   */
  tryAcquire(key: string, options?: TryOptions): Promise<Lease | null>
  /**
   * Waits for the lease, first come first served within this process (G8). After `waitMs` rejects with the last answer:
   * `LeaseHeldError`, or `StoreError`; with the signal's own reason when that aborts.
   */
  acquire(key: string, options?: AcquireOptions): Promise<Lease>
  /**
   * Runs `work` while the lease is held and gives it back afterwards: the main way to use one. Resolves with the work's value
   * or rejects with its very error; with `LeaseLostError`, whose `outcome` has either, if the lease was lost (G10).
   */
  hold<T>(key: string, work: Work<T>): Promise<T>
  hold<T>(key: string, options: AcquireOptions, work: Work<T>): Promise<T>
  /** Runs `work` if the lease is free, and says who holds it if not. Rejects as `hold` does. */
  tryHold<T>(key: string, work: Work<T>): Promise<TryHeld<T>>
  tryHold<T>(key: string, options: TryOptions, work: Work<T>): Promise<TryHeld<T>>
  /**
   * Runs `work` under the lease once for all callers of this process who asked before it started. A caller's signal ends only
   * its own wait. Who asks later gets the next run.
   */
  coalesce<T>(key: string, work: Work<T>): Promise<T>
  coalesce<T>(key: string, options: AcquireOptions, work: Work<T>): Promise<T>
  /**
   * Takes over a lease from a grant that another handle, or another process, was given. Asks the store to renew it; rejects with
   * `LeaseLostError` when it no longer holds. The handle that it came from must have been ended by its `detach`.
   */
  adopt(grant: Grant, options?: LeaseOptions & { signal?: AbortSignal | undefined }): Promise<Lease>
  /**
   * Closes the client (G12): tells the work to stop, goes on renewing until it has ended, releases, closes the store. Rejects
   * with `DrainTimeoutError` when work still runs after `drainMs`: those leases are lost to their holders and left to their ttl.
   */
  close(options?: { drainMs?: number | undefined }): Promise<void>
  /** The same as `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * A client for leases with fencing tokens over one store.
 *
 * @example
 * ```ts
 * const leases = createLeases({ store: memoryStore(), prefix: 'billing/' })
 * await leases.hold('invoice:42', { ttlMs: 30_000, waitMs: 5_000 }, async ({ signal, grant }) => {
 *   await pay(grant, signal)
 * })
 * await leases.close()
 * ```
 */
export function createLeases(options: ClientOptions): Leases {
  return new Client(options)
}

class Client implements Leases {
  readonly #core: Core
  readonly #queues: LocalQueues
  readonly #coalescer: Coalescer
  readonly #options: ClientOptions
  readonly #forWaiting: LeaseSettings
  readonly #forTrying: LeaseSettings
  readonly #drainMs: number
  #closed: Promise<void> | undefined

  constructor(options: ClientOptions) {
    checkOptions(options)
    const { store, prefix = '', clock = systemClock, random = systemRandom, onEvent } = options
    const { maxLocalWaiters = 10_000, maxHandovers = 16, drainMs = 10_000, closeStore = true } = options
    checkMethods(
      'store',
      store,
      STORE_VERBS,
      'must be a store, such as memoryStore() or sqliteStore({ path, Database })',
    )
    checkMethods('clock', clock, ['monoMs', 'wallMs', 'setTimer'], 'must be a Clock')
    checkMethods('random', random, ['claim', 'unit'], 'must be a Random')
    if (typeof closeStore !== 'boolean')
      throw new InvalidArgumentError('closeStore', closeStore, 'must be true or false')
    if (store.contract !== 1)
      throw new InvalidArgumentError('store', store.contract, 'must speak contract 1; this one has another version')
    if (typeof prefix !== 'string') throw new InvalidArgumentError('prefix', prefix, 'must be a string')
    if (prefix !== '') checkKey('prefix', prefix)
    if (onEvent !== undefined) checkFunction('onEvent', onEvent)
    const events = new Events(onEvent)
    const timeline = new Timeline(clock)
    const alarms = new Alarms(clock, timeline, (cause) =>
      events.emit({ type: 'callback-failed', callback: 'timer', cause }),
    )
    const caller = new Caller(alarms, timeline)
    const parts = { store, timeline, alarms, random, events, caller }
    const core: Omit<Core, 'renewals'> = {
      ...parts,
      prefix,
      newClaim: claims(random, clock),
      holder: holderLabel(options.holder),
      aborts: new AbortHub(),
      withdrawals: new Withdrawals(parts),
      maxLocalWaiters: count('maxLocalWaiters', maxLocalWaiters),
      maxHandovers: count('maxHandovers', maxHandovers),
      held: new Held(),
      onIdle: [],
      closing: false,
    }
    this.#core = Object.assign(core, { renewals: new Renewals(core as Core) })
    this.#options = { ...options }
    this.#forWaiting = settle(options, undefined, store)
    this.#forTrying = { ...this.#forWaiting, waitMs: 0 }
    this.#drainMs = duration('drainMs', drainMs)
    this.#queues = new LocalQueues(this.#core)
    this.#coalescer = new Coalescer(this.#core.aborts)
  }

  async tryAcquire(key: string, options?: TryOptions): Promise<Lease | null> {
    const answer = await this.#askOnce(key, options)
    return answer instanceof HeldLease ? answer : null
  }

  acquire(key: string, options?: AcquireOptions): Promise<Lease> {
    try {
      return this.#acquire(key, this.#settings(options))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async hold<T>(key: string, ...rest: [Work<T>] | [AcquireOptions, Work<T>]): Promise<T> {
    const [options, work] = split(rest)
    return run(await this.#acquire(key, this.#settings(options)), work)
  }

  async tryHold<T>(key: string, ...rest: [Work<T>] | [TryOptions, Work<T>]): Promise<TryHeld<T>> {
    const [options, work] = split(rest)
    const answer = await this.#askOnce(key, options)
    if (answer instanceof HeldLease) return { held: true, value: await run(answer, work) }
    return { held: false, by: answer.held.holder, remainingMs: answer.held.remainingMs }
  }

  async coalesce<T>(key: string, ...rest: [Work<T>] | [AcquireOptions, Work<T>]): Promise<T> {
    const [options, work] = split(rest)
    const settings = this.#settings(options)
    this.#check(key)
    return this.#coalescer.join(key, settings.signal, async (signal, begin) =>
      run(await this.#acquire(key, { ...settings, signal }), (lease) => {
        begin()
        return work(lease)
      }),
    )
  }

  async adopt(grant: Grant, options?: LeaseOptions & { signal?: AbortSignal }): Promise<Lease> {
    const { timeline, store, caller, prefix } = this.#core
    const settings = this.#settings(options)
    checkGrant(grant, prefix)
    if (this.#core.closing) throw new ClosedError()
    settings.signal?.throwIfAborted()
    const key = grant.key.slice(prefix.length)
    const { claim, token } = grant
    const requests = { acquires: 0, renewals: 1 }
    const sentMs = timeline.now()
    const outcomes = await caller.run(
      'a renewal',
      settings.callTimeoutMs,
      (call) => store.renew([{ key: grant.key, claim, ttlMs: settings.ttlMs, shares: settings.shares }], call),
      { answered: () => requests.renewals-- },
    )
    if (this.#core.closing) throw new ClosedError()
    const outcome = outcomes[0]
    if (outcome?.is === 'lost') throw new LeaseLostError(key, token, outcome.reason)
    if (outcome?.is !== 'renewed')
      throw new StoreError('the store does not know whether the lease was renewed', {
        outcome: 'unknown',
        cause: outcome?.cause,
      })
    const ttlMs = Math.min(settings.ttlMs, outcome.ttlMs)
    const home: Home = { giveBack: (lease, done) => releaseAtStore(this.#core, lease, done), leave() {} }
    const lease = new HeldLease(this.#core, home, key, settings, {
      claim,
      holder: grant.holder,
      token,
      sentMs,
      heardMs: timeline.now(),
      ttlMs,
      requests,
    })
    lease.assertHeld()
    return lease
  }

  async close(options: { drainMs?: number | undefined } = {}): Promise<void> {
    checkOptions(options)
    const { drainMs = this.#drainMs } = options
    this.#closed ??= this.#close(duration('drainMs', drainMs))
    return this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** No async function, and one promise: each lease comes by here. What is thrown in it rejects. */
  #acquire(key: string, settings: LeaseSettings): Promise<HeldLease> {
    return new Promise((resolve, reject) =>
      this.#ask(
        key,
        settings,
        (answer) => {
          if (answer instanceof HeldLease) resolve(answer)
          else reject(this.#heldError(key, answer))
        },
        reject,
      ),
    )
  }

  #heldError(key: string, { held, waitedMs }: Exclude<Answer, HeldLease>): LeaseHeldError {
    return new LeaseHeldError(key, held, waitedMs, this.#core.store.capabilities.clock === 'observed')
  }

  /** Throws at once when nothing is asked. */
  #ask(
    key: string,
    settings: LeaseSettings,
    resolve: (answer: Answer) => void,
    reject: (error: unknown) => void,
  ): void {
    this.#check(key)
    settings.signal?.throwIfAborted()
    this.#queues.ask(key, settings, resolve, reject)
  }

  #askOnce(key: string, options: TryOptions | undefined): Promise<Answer> {
    return new Promise((resolve, reject) => this.#ask(key, this.#trySettings(options), resolve, reject))
  }

  #check(key: string): void {
    checkKey('key', key)
    if (this.#core.prefix !== '') checkKey('key', this.#core.prefix + key)
    const longest = this.#core.store.capabilities.keyBytesMax
    if (longest < KEY_BYTES_MAX) checkKey('key', this.#core.prefix + key, longest)
    if (this.#core.closing) throw new ClosedError()
  }

  #settings(options: AcquireOptions | undefined): LeaseSettings {
    if (options === undefined) return this.#forWaiting
    checkOptions(options)
    return settle(options, this.#options, this.#core.store)
  }

  #trySettings(options: TryOptions | undefined): LeaseSettings {
    if (options === undefined) return this.#forTrying
    checkOptions(options)
    return settle({ ...options, waitMs: 0 }, this.#options, this.#core.store)
  }

  async #close(drainMs: number): Promise<void> {
    const { held, withdrawals, store } = this.#core
    const untilMs = this.#core.timeline.now() + drainMs
    this.#core.closing = true
    this.#queues.turnAway()
    for (const lease of [...held]) lease.close()
    await this.#until(untilMs, () => this.#drained())
    const kept = [...held].filter((lease) => lease.endError === undefined)
    for (const lease of kept) lease.lose('closing')
    await this.#until(untilMs, () => withdrawals.settled())
    if (this.#options.closeStore !== false) await this.#until(untilMs + STORE_CLOSE_MS, () => store.close())
    if (kept.length > 0)
      throw new DrainTimeoutError(
        kept.map((lease) => lease.key),
        drainMs,
      )
  }

  /** Resolves when every lease has been given back, or lost. */
  #drained(): Promise<void> {
    const { held, onIdle } = this.#core
    return held.size === 0 ? Promise.resolve() : new Promise((resolve) => onIdle.push(resolve))
  }

  /** Waits for `done`, at most until the given time. */
  #until(untilMs: number, done: () => Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const alarm = this.#core.alarms.set(untilMs, resolve)
      const end = () => {
        this.#core.alarms.cancel(alarm)
        resolve()
      }
      Promise.resolve().then(done).then(end, end)
    })
  }
}

/** What createLeases looks for in a store. */
const STORE_VERBS = ['acquire', 'renew', 'release', 'withdraw', 'close']

/** How much longer than the drain closing the store may take. */
const STORE_CLOSE_MS = 2_000

/** Runs the work, gives the lease back, and lets neither hide the other (G10). */
async function run<T>(lease: HeldLease, work: Work<T>): Promise<T> {
  let outcome: Outcome
  try {
    outcome = { is: 'returned', value: await work(lease) }
  } catch (error) {
    outcome = { is: 'threw', error }
  }
  const released = await lease.release()
  if (released.is === 'lost') {
    if (outcome.is === 'threw' && outcome.error === lease.lost) throw outcome.error
    const lost = lease.lost ?? new LeaseLostError(lease.key, lease.token, released.reason)
    lost.outcome = outcome
    throw lost
  }
  if (outcome.is === 'threw') throw outcome.error
  return outcome.value as T
}

function split<Options extends object, T>(rest: [Work<T>] | [Options, Work<T>]): [Options | undefined, Work<T>] {
  const [options, work] = rest.length === 1 ? [undefined, rest[0]] : rest
  checkFunction('work', work)
  return [options, work]
}

function checkGrant(grant: unknown, prefix: string): asserts grant is Grant {
  if (typeof grant !== 'object' || grant === null)
    throw new InvalidArgumentError('grant', grant, 'must be a grant: { key, token, claim, holder }')
  const { key, token, claim, holder } = grant as Partial<Grant>
  checkKey('grant.key', key)
  if (!key.startsWith(prefix))
    throw new InvalidArgumentError('grant.key', key, `must start with this client's prefix ${JSON.stringify(prefix)}`)
  if (key === prefix) throw new InvalidArgumentError('grant.key', key, 'must name more than the prefix of this client')
  if (!Number.isSafeInteger(token)) throw new InvalidArgumentError('grant.token', token, 'must be a safe integer')
  if (typeof claim !== 'string' || claim === '')
    throw new InvalidArgumentError('grant.claim', claim, 'must be a non-empty string')
  checkHolder(holder)
}
