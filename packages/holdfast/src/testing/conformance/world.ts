// What a case works with: one store, keys of its own, and each verb in a form that fits on a line.
import { systemRandom } from '../../lease/random.js'
import type {
  AcquireRequest,
  Granted,
  Held,
  Hints,
  LeaseRecord,
  LeaseStore,
  ListOptions,
  ReleaseOutcome,
  RenewOutcome,
  Turn,
} from '../../store/contract.js'
import type { ConformanceTarget } from './case.js'
import { check, equal, show } from './check.js'

/** An acquire with everything but the claim left to its default: the key of the case, a label made of the claim, a long ttl. */
export type Asked = Partial<Omit<AcquireRequest, 'claim'>>

/** Where a verb is sent, if not to the key and the store of the case. */
export interface Where {
  readonly key?: string
  readonly on?: LeaseStore
}

/** No case takes this long: a lease of this ttl does not expire within one. */
const LONG_MS = 3_600_000
const AT_ONCE = 25

/** The store under test, as one case sees it. */
export class ConformanceWorld {
  readonly store: LeaseStore
  /** The key of this case, which no other case uses. */
  readonly key: string
  /** A ttl that can be waited out. */
  readonly ttlMs: number
  /** A ttl that no case outlives. */
  readonly longMs = LONG_MS
  readonly #target: ConformanceTarget
  readonly #opened: LeaseStore[] = []
  readonly #watching: Watching[] = []
  readonly #tokens = new Map<string, number>()

  constructor(target: ConformanceTarget) {
    this.#target = target
    this.store = target.store
    this.key = `${systemRandom.claim().slice(0, 10)}/`
    this.ttlMs = Math.max(target.ttlMs ?? 10_000, target.store.capabilities.ttlMsMin)
  }

  /** Six claims, whose first letters are a to f. */
  claims(): [string, string, string, string, string, string] {
    const made = (letter: string) => `${letter}${systemRandom.claim()}`
    return [made('a'), made('b'), made('c'), made('d'), made('e'), made('f')]
  }

  /** The label under which a claim acquires here. */
  holder(claim: string): string {
    return `holder ${claim.slice(0, 4)}`
  }

  async acquire(claim: string, asked: Asked = {}, on = this.store): Promise<Granted | Held> {
    const answer = await on.acquire({ key: this.key, claim, holder: this.holder(claim), ttlMs: this.longMs, ...asked })
    if (answer.is === 'granted') this.#tokens.set(claim, answer.token)
    return answer
  }

  /** An acquire that has to be granted. */
  async granted(claim: string, asked: Asked = {}, on = this.store): Promise<Granted> {
    const answer = await this.acquire(claim, asked, on)
    check(
      answer.is === 'granted',
      `the acquire of claim ${claim[0]} should be granted, but the answer is ${show(answer)}`,
    )
    return answer
  }

  /** An acquire that has to be refused, for one of these reasons. */
  async refused(
    claim: string,
    because: Held['because'] | readonly Held['because'][],
    asked: Asked = {},
    on = this.store,
  ): Promise<Held> {
    const answer = await this.acquire(claim, asked, on)
    const reasons = typeof because === 'string' ? [because] : because
    check(
      answer.is === 'held' && reasons.includes(answer.because),
      `the acquire of claim ${claim[0]} should be refused (${reasons.join(' or ')}), but the answer is ${show(answer)}`,
    )
    return answer
  }

  /** Renews one lease, for long unless told otherwise. */
  async renew(
    claim: string,
    { key = this.key, on = this.store, ttlMs = this.longMs }: Where & { ttlMs?: number } = {},
  ): Promise<RenewOutcome> {
    const outcomes = await on.renew([{ key, claim, ttlMs }])
    equal(outcomes.length, 1, 'the number of outcomes for one renewal')
    return outcomes[0] as RenewOutcome
  }

  /** A renewal that has to say `lost`, for one of these reasons (any, when none is named). */
  async lost(claim: string, reasons: readonly string[] = [], where: Where = {}): Promise<void> {
    isLost(await this.renew(claim, where), reasons, `the renewal of claim ${claim[0]}`)
  }

  async release(claim: string, { key = this.key, on = this.store }: Where = {}): Promise<ReleaseOutcome> {
    return await on.release({ key, claim, token: this.#tokens.get(claim) ?? 1, holder: this.holder(claim) })
  }

  /** A release that has to say `lost`, for one of these reasons (any, when none is named). */
  async releaseIsLost(claim: string, reasons: readonly string[] = []): Promise<void> {
    isLost(await this.release(claim), reasons, `the release of claim ${claim[0]}`)
  }

  /** A release that has to work. */
  async freed(claim: string, where: Where = {}): Promise<void> {
    equal(await this.release(claim, where), { is: 'released' }, `the release of claim ${claim[0]}`)
  }

  withdraw(claim: string, { key = this.key, on = this.store }: Where = {}): Promise<void> {
    return on.withdraw(key, claim)
  }

  inspect({ key = this.key, on = this.store }: Where = {}): Promise<LeaseRecord | null> {
    return on.inspect(key)
  }

  /** Says that this claim holds the key, with this token, and that nobody has touched it. */
  async untouched(claim: string, grant: Granted, where: Where = {}): Promise<void> {
    const record = await this.inspect(where)
    check(
      record?.state === 'held' && record.claim === claim && record.token === grant.token && !record.revoked,
      `claim ${claim[0]} should still hold the key with token ${grant.token}, but the record is ${show(record)}`,
    )
  }

  /** Does something for all of many, a few at a time: where the first grant of a name takes a while, they need not wait in line. */
  async forAll<One>(all: readonly One[], run: (one: One) => Promise<unknown>): Promise<void> {
    for (let from = 0; from < all.length; from += AT_ONCE) await Promise.all(all.slice(from, from + AT_ONCE).map(run))
  }

  /** Who waits in the store's queue, by label. */
  async waiters(): Promise<string[]> {
    return ((await this.inspect())?.waiters ?? []).map((waiter) => waiter.holder)
  }

  /** The keys that `list` gives, of those of this case. */
  async listed(options: ListOptions = {}): Promise<string[]> {
    const keys: string[] = []
    for await (const record of this.store.list({ prefix: this.key, ...options })) keys.push(record.key)
    return keys
  }

  /** Lets at least so many ms pass on the clock that decides. */
  passMs(ms: number): Promise<void> {
    return this.#target.passMs(ms)
  }

  /** Lets the term of a lease run out, whoever looks. */
  async expire(grant: Granted, where: Where = {}): Promise<void> {
    await this.inspect(where) // a store that observes expiry counts from when it first saw the record
    await this.passMs(grant.ttlMs + this.store.capabilities.ttlMsGrain)
  }

  /** Another handle on the same data. */
  async open(): Promise<LeaseStore> {
    const store = await this.#target.open?.()
    check(store !== undefined, 'this target cannot open a second handle')
    this.#opened.push(store)
    return store
  }

  /** Makes the store forget what it may forget. */
  async prune(): Promise<void> {
    await this.#target.prune?.()
  }

  /** Watches the key for a claim until `stop`, or the end of the case, and counts the hints. */
  watch(claim: string, on = this.store): Watching {
    const watching = new Watching(on, this.key, claim)
    this.#watching.push(watching)
    return watching
  }

  /** A subscription may take its time: a hint says that it is in place. Where it was before, none needs to come. */
  async subscribed(...watching: readonly Watching[]): Promise<void> {
    const stepMs = Math.max(1, Math.floor(this.ttlMs / 10))
    for (let step = 0; step < 15 && !watching.every(({ hints }) => hints > 0); step++) await this.passMs(stepMs)
  }

  /** Lets time pass in small steps until the condition holds, for at most four terms. */
  async until(condition: () => boolean, what: string): Promise<void> {
    const stepMs = Math.max(1, Math.floor(this.ttlMs / 20))
    for (let step = 0; step < 80 && !condition(); step++) await this.passMs(stepMs)
    check(condition(), `${what} should have come within ${80 * stepMs} ms`)
  }

  /** Ends what the case has started, then closes the store. */
  async close(): Promise<void> {
    for (const watching of this.#watching) watching.stop()
    for (const store of this.#opened) await store.close()
    await this.store.close()
    await this.#target.close?.()
  }
}

/** A watch that runs in the background. */
export class Watching {
  /** How many hints have come so far. */
  hints = 0
  /** The last turn that came with its token. */
  turn: Turn | undefined
  /** Whether the iteration has ended. */
  ended = false
  /** What it failed with, if it did. */
  error: unknown
  readonly #ending = new AbortController()

  constructor(store: LeaseStore, key: string, claim: string) {
    void this.#run(store.watch?.(key, { claim, signal: this.#ending.signal }))
  }

  stop(): void {
    this.#ending.abort()
  }

  async #run(hints: Hints | undefined): Promise<void> {
    try {
      for await (const turn of hints ?? []) {
        this.hints++
        if (turn !== undefined) this.turn = turn
      }
    } catch (error) {
      this.error = error
    }
    this.ended = true
  }
}

function isLost(outcome: RenewOutcome | ReleaseOutcome, reasons: readonly string[], what: string): void {
  const fits = outcome.is === 'lost' && (reasons.length === 0 || reasons.includes(outcome.reason))
  check(
    fits,
    `${what} should be lost${reasons.length > 0 ? ` (${reasons.join(' or ')})` : ''}, but is ${show(outcome)}`,
  )
}
