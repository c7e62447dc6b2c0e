// One caller of this process asks the store for one lease: subscribe, try, sleep until a wake-up or until it is time to ask
// again, try. Only the head of a key's local queue gets here, so the store sees one contender a process and key.
import type { AcquireRequest, Granted, Held } from '../store/contract.js'
import type { Alarm } from './alarms.js'
import type { Core } from './core.js'
import { InvalidArgumentError, StoreError } from './errors.js'
import type { GrantedClaim, HeldLease, OpenRequests } from './lease.js'
import type { LeaseSettings } from './options.js'
import { defaultRetry, type Situation } from './retry.js'

/** How often one who waits in a store's queue says that it is still there. */
const QUEUE_POLL_MS = 1_000
/**
 * What it tells the store: longer, by what a question may take to arrive. The store keeps a turn for so long; told less, a head
 * whose wake-up was lost would miss its turn while its next question is on its way.
 */
const QUEUE_TOLD_MS = 1_500
/** How soon a failed watch is tried again. */
const WATCH_AGAIN_MS = 1_000

/** The end of a caller's contending: the claim it holds now, or the last answer. */
export type Verdict = { readonly is: 'granted'; readonly granted: GrantedClaim } | Refusal

/** Who holds a key, or whose turn it is, and for how long yet at most. */
export type Who = Pick<Held, 'holder' | 'remainingMs'>

/** The last answer of a store that did not grant. */
export type Refusal = { readonly is: 'held'; readonly held: Who } | { readonly is: 'failed'; readonly error: unknown }

/** A lease of this process that is being passed on, and who is told once the store has answered. */
export interface Handover {
  readonly from: HeldLease
  /** The store has said whether the old claim still held; or the attempt failed with `error`. */
  told(replaced: boolean | undefined, error?: unknown): void
}

export interface Contest {
  readonly key: string
  readonly settings: LeaseSettings
  readonly startedMs: number
  /** When the caller's patience ends. */
  readonly untilMs: number
  /** How long to leave the key alone before the first attempt. */
  readonly pauseMs: number
  readonly handover?: Handover
  /** Told of each answer that is not a grant. */
  onRefusal?(refusal: Refusal): void
}

export class Contender {
  readonly #core: Core
  readonly #contest: Contest
  readonly #name: string
  #claim: string
  #requests: OpenRequests = { acquires: 0, renewals: 0 }
  /** The store has granted this claim, or put it in its queue: giving up must withdraw it, though nothing is on its way. */
  #known = false
  /** A request was sent, and what came of it has not been looked at yet. */
  #asking = false
  #handover: Handover | undefined
  #stopped = false
  #firstAnswered = false
  #last: Refusal | undefined
  #wake: (() => void) | undefined
  #watching: AbortController | undefined
  /** Why it is unknown whether an earlier request of the handover was applied; then the store's word on it comes too late. */
  #doubt: unknown
  /** A wake-up came while nobody slept. */
  #hinted = false

  constructor(core: Core, contest: Contest) {
    this.#core = core
    this.#contest = contest
    this.#name = core.prefix + contest.key
    this.#claim = core.newClaim()
    this.#handover = contest.handover
  }

  /** Asks until there is a verdict; resolves with undefined when it was stopped. Never rejects. */
  async run(): Promise<Verdict | undefined> {
    try {
      if (this.#contest.pauseMs > 0) await this.#sleep(this.#contest.pauseMs)
      if (this.#stopped) return undefined
      for (let attempt = 1; ; attempt++) {
        const answer = await this.#attempt()
        if (this.#stopped) return undefined
        if (answer.is === 'granted') {
          this.#watching?.abort()
          return answer
        }
        this.#last = answer
        this.#firstAnswered = true
        this.#contest.onRefusal?.(answer)
        const sleepMs = this.#sleepMs(attempt, answer)
        if (sleepMs === undefined || this.#stopped) break
        // Ask once more as soon as the subscription is in place: a release just before it would have gone unheard.
        if (this.#watching === undefined) this.#watch()
        await this.#sleep(sleepMs)
        if (this.#stopped) return undefined
      }
    } catch (error) {
      if (this.#stopped) return undefined
      this.#last = { is: 'failed', error }
    }
    const last = this.#last
    this.stop()
    return last
  }

  /** Ends it: nothing more is sent but the withdrawal of what may be on its way (G6). */
  stop(): void {
    if (this.#stopped) return
    this.#stopped = true
    this.#watching?.abort()
    this.#wake?.()
    if (this.#asking || this.#requests.acquires > 0 || this.#known) this.#withdraw(this.#claim)
    if (this.#handover !== undefined) {
      this.#withdraw(this.#handover.from.grant.claim)
      this.#handover.told(
        undefined,
        new StoreError('the handover was given up before the store answered', { outcome: 'unknown' }),
      )
    }
  }

  /** The caller's patience is over. True if that ends it now; false if its first attempt is still to be answered. */
  get mayStop(): boolean {
    return this.#firstAnswered
  }

  /** The last answer so far. */
  get last(): Refusal | undefined {
    return this.#last
  }

  /** One attempt is one answer: a reply that was lost is asked for once more, at once, with the same claim (C08). */
  async #attempt(): Promise<Verdict> {
    let answer = await this.#ask()
    const lost = answer.is === 'failed' && answer.error instanceof StoreError && answer.error.outcome === 'unknown'
    if (lost && !this.#stopped) answer = await this.#ask()
    if (answer.is === 'failed') this.#handover?.told(undefined, answer.error)
    return answer
  }

  async #ask(): Promise<Verdict> {
    const { caller, store, timeline } = this.#core
    const { settings } = this.#contest
    const requests = this.#requests
    const handover = this.#handover
    const sentMs = timeline.now()
    requests.acquires++
    this.#asking = true
    let answer: Granted | Held
    try {
      answer = await caller.run('an acquire', settings.callTimeoutMs, (call) => store.acquire(this.#request(), call), {
        answered: () => requests.acquires--,
        late: (late) => {
          if (late.is === 'granted' || this.#queues) this.#known = true
        },
      })
    } catch (error) {
      if (requests.acquires > 0) this.#doubt = error
      return { is: 'failed', error }
    } finally {
      this.#asking = false
    }
    const ended = answer.is === 'held' && answer.because === 'ended'
    // Refused on account of its own claim, the handover has not begun.
    if (handover !== undefined && !ended) {
      const certain = answer.replaced !== false || this.#doubt === undefined
      handover.told(certain ? (answer.replaced ?? true) : undefined, this.#doubt)
      this.#handover = undefined
    }
    if (answer.is === 'held') {
      if (this.#queues) this.#known = true
      if (ended) this.#newClaim()
      // Granted by an answer that never came, and revoked since: nobody believes in it, so its term need not run out (G6).
      else if (answer.because === 'revoked' && !this.#stopped) this.#giveUpClaim()
      return { is: 'held', held: answer }
    }
    this.#known = true
    const ttlMs = Math.min(settings.ttlMs, answer.ttlMs)
    // C10: the deadline counts from the send; a grant that comes after its own deadline is none.
    if (timeline.now() >= sentMs + ttlMs - settings.marginMs) {
      if (!this.#stopped) this.#giveUpClaim()
      return {
        is: 'failed',
        error: new StoreError(`the ${store.name} store granted the lease too late to be of use`, { outcome: 'none' }),
      }
    }
    if (!Number.isSafeInteger(answer.token)) {
      if (!this.#stopped) this.#giveUpClaim()
      return {
        is: 'failed',
        error: new StoreError(`the ${store.name} store granted ${answer.token}, which is no token`, {
          outcome: 'none',
        }),
      }
    }
    return {
      is: 'granted',
      granted: { claim: this.#claim, holder: this.#core.holder, token: answer.token, sentMs, ttlMs, requests },
    }
  }

  #request(): AcquireRequest {
    const { settings } = this.#contest
    const { holder } = this.#core
    return {
      key: this.#name,
      claim: this.#claim,
      holder,
      ttlMs: settings.ttlMs,
      ...(this.#handover === undefined ? undefined : { replaces: this.#handover.from.grant.claim }),
      ...(settings.meta === undefined ? undefined : { meta: settings.meta }),
      ...(this.#queues ? { queue: { pollMs: QUEUE_TOLD_MS } } : undefined),
    }
  }

  /** Whether a refusal puts this contender into the store's queue: where the store can order, and it will wait. */
  get #queues(): boolean {
    return this.#core.store.capabilities.fair && this.#contest.settings.waitMs > 0
  }

  /** How long to sleep before the next attempt; undefined when this was the last. */
  #sleepMs(attempt: number, refusal: Refusal): number | undefined {
    const core = this.#core
    const contest = this.#contest
    const held = refusal.is === 'held' ? refusal.held : undefined
    const error = refusal.is === 'failed' ? refusal.error : undefined
    // What is not trouble with the store, such as a name that it refuses, will not be better next time.
    if (error !== undefined && !(error instanceof StoreError)) return undefined
    const nowMs = core.timeline.now()
    if (nowMs >= contest.untilMs) return undefined
    const situation: Situation = {
      attempt,
      elapsedMs: nowMs - contest.startedMs,
      holder: held?.holder,
      remainingMs: held?.remainingMs,
      error,
      random: core.random.unit(),
    }
    const queued = this.#queues && held !== undefined
    const policy = contest.settings.retry ?? (queued ? () => QUEUE_POLL_MS : defaultRetry)
    const delayMs: unknown = policy(situation)
    if (delayMs === null) return undefined
    if (typeof delayMs !== 'number' || !(delayMs >= 0)) {
      throw new InvalidArgumentError('retry', delayMs, 'must give a number of ms, 0 or more, or null to stop')
    }
    const longestMs = queued ? Math.min(delayMs, QUEUE_POLL_MS) : delayMs
    return held === undefined ? longestMs : Math.min(longestMs, Math.max(1, held.remainingMs))
  }

  #sleep(ms: number): Promise<void> {
    const { alarms, timeline } = this.#core
    return new Promise((resolve) => {
      let alarm: Alarm | undefined
      this.#wake = () => {
        if (alarm !== undefined) alarms.cancel(alarm)
        this.#wake = undefined
        resolve()
      }
      if (this.#hinted) {
        this.#hinted = false
        this.#wake()
      } else alarm = alarms.set(timeline.now() + ms, () => this.#wake?.())
    })
  }

  /** Listens for wake-ups until the contest is over. They are hints (G8): losing them costs time, never correctness. */
  #watch(): void {
    const { store, events, alarms, timeline } = this.#core
    if (store.watch === undefined) return
    const controller = new AbortController()
    this.#watching = controller
    const { signal } = controller
    const failed = (cause: unknown) => {
      if (signal.aborted) return
      events.emit({ type: 'watch-failed', key: this.#contest.key, cause })
      alarms.set(timeline.now() + WATCH_AGAIN_MS, () => !signal.aborted && this.#watch(), false)
    }
    const listen = async () => {
      if (store.watch === undefined) return
      for await (const _ of store.watch(this.#name, { claim: this.#claim, signal })) {
        if (signal.aborted) return
        this.#hinted = this.#wake === undefined
        this.#wake?.()
      }
    }
    listen().catch(failed)
  }

  #giveUpClaim(): void {
    this.#withdraw(this.#claim)
    this.#newClaim()
  }

  #newClaim(): void {
    this.#claim = this.#core.newClaim()
    this.#requests = { acquires: 0, renewals: 0 }
    this.#known = false
    // A watch is for a claim.
    this.#watching?.abort()
    this.#watching = undefined
  }

  #withdraw(claim: string): void {
    this.#core.withdrawals.add(this.#name, claim, this.#contest.settings)
  }
}
