// One caller of this process asks the store for one lease: subscribe, try, sleep until a wake-up or until it is time to ask
// again, try. Only the head of a key's local queue gets here, so the store sees one contender a process and key.
import type { AcquireRequest, Granted, Held, QueueRequest, Turn } from '../store/contract.js'
import { AcquireCall } from './acquire-call.js'
import type { Alarm } from './alarms.js'
import type { Audience, Contest, Handover, Refusal, Verdict } from './contest.js'
import type { Core } from './core.js'
import { InvalidArgumentError, StoreError } from './errors.js'
import type { GrantedClaim, OpenRequests } from './granted.js'
import { defaultRetry, pollAfter, QUEUE_POLL_MS, type Situation } from './retry.js'
import { QUEUE_TOLD_MS, type RefusedQuestion, termOfTurn } from './told-turn.js'

/** How long after the turn that it told a watch may end. */
const WATCH_ENDS_MS = 250
/** Why a watch ends. To let the platform make a reason for each takes longer than all the rest of it. */
const OVER = new Error('the wait is over')
/** How soon a failed watch is tried again. */
const WATCH_AGAIN_MS = 1_000

/** How often in an attempt a store may say that the record of the key is new. */
const NEW_MAX = 4

/** What one who waits asks for; with `told`, also to be told its turn as a grant. */
const QUEUE: QueueRequest = { pollMs: QUEUE_TOLD_MS, told: false }
const QUEUE_TOLD: QueueRequest = { pollMs: QUEUE_TOLD_MS, told: true }

const isNew = (answer: Verdict): answer is { is: 'held'; held: Held } =>
  answer.is === 'held' && 'because' in answer.held && answer.held.because === 'new'

export class Contender {
  readonly #core: Core
  readonly #contest: Contest
  readonly #audience: Audience
  readonly #name: string
  #claim: string
  #requests: OpenRequests = { acquires: 0, renewals: 0 }
  /** The store has granted this claim, or put it in its queue: giving up must withdraw it, though nothing is on its way. */
  #known = false
  /** An answer that came after its time-out has granted this claim. */
  #grantedLate = false
  /** A request was sent, and what came of it has not been looked at yet. */
  #asking = false
  /** The last answer was about the claim itself, and there is a new one since. */
  #claimEnded = false
  #handover: Handover | undefined
  #stopped = false
  #last: Refusal | undefined
  #wake: (() => void) | undefined
  #watching: AbortController | undefined
  /** Why it is unknown whether an earlier request of the handover was applied; then the store's word on it comes too late. */
  #doubt: unknown
  /** A wake-up came while nobody slept. */
  #hinted = false
  /** The turn that the last wake-up told of, if it came with a token. */
  #turn: Turn | undefined
  /** When the question was sent that the store refused last, and the biggest token that it knew of then. */
  #refused: RefusedQuestion | undefined
  /** How often the store was asked at the pace of the retry policy, and when that wants the next question. */
  #attempts = 0
  #dueMs = Number.NEGATIVE_INFINITY

  constructor(core: Core, contest: Contest, audience: Audience, handover?: Handover) {
    this.#core = core
    this.#contest = contest
    this.#audience = audience
    this.#name = core.prefix + contest.key
    this.#claim = core.newClaim()
    this.#handover = handover
  }

  /**
   * Asks until there is a verdict, or until it is stopped; the first time now, or after a pause. Most leases are granted at
   * once: what may have to wait is begun only with an answer that is not a grant.
   */
  start(nowMs: number, pauseMs: number): void {
    if (pauseMs > 0) void this.#run(this.#sleep(pauseMs))
    else
      this.#send(nowMs, (answer) => {
        if (this.#stopped) return
        if (answer.is === 'granted') this.#audience.ended(this, answer)
        else void this.#run(answer)
      })
  }

  async #run(first: Verdict | Promise<undefined>): Promise<void> {
    const verdict = await this.#contend(await first)
    if (verdict !== undefined) this.#audience.ended(this, verdict)
  }

  /** Goes on asking, from the answer to the first question if there is one; undefined when it was stopped. Never rejects. */
  async #contend(first?: Verdict): Promise<Verdict | undefined> {
    try {
      if (this.#stopped) return undefined
      for (let answer = await this.#attempt(first); ; answer = await this.#attempt()) {
        if (this.#stopped) return undefined
        if (answer.is === 'granted') {
          this.#watching?.abort(OVER)
          return answer
        }
        this.#last = answer
        this.#audience.refused(this, answer)
        const sleepMs = this.#sleepMs(answer)
        if (sleepMs === undefined || this.#stopped) break
        // Ask once more as soon as the subscription is in place: a release just before it would have gone unheard.
        if (this.#watching === undefined) this.#watch()
        await this.#sleep(sleepMs)
        if (this.#stopped) return undefined
        const granted = this.#grantedByTurn()
        if (granted !== undefined) {
          this.#endWatchSoon()
          return { is: 'granted', granted }
        }
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
    this.#watching?.abort(OVER)
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

  /** The last answer so far. */
  get last(): Refusal | undefined {
    return this.#last
  }

  /**
   * One attempt is one answer: a reply that was lost is asked for once more, at once, with the same claim (C08). A record that is
   * new is waited for: each request has its own time-out, and a grant counts from the one that it answers.
   */
  async #attempt(first?: Verdict): Promise<Verdict> {
    let answer = await this.#askOnce(first)
    for (let count = 0; count < NEW_MAX && isNew(answer) && !this.#stopped; count++) {
      await this.#pause(answer.held.remainingMs)
      if (!this.#stopped) answer = await this.#askOnce()
    }
    if (answer.is !== 'failed') return answer
    const error = this.#inDoubt(answer.error)
    this.#handover?.told(undefined, error)
    return { is: 'failed', error }
  }

  /** What certainly did nothing says nothing of the requests before it: one of them may have been applied (G13). */
  #inDoubt(error: unknown): unknown {
    if (!(error instanceof StoreError) || error.outcome === 'unknown') return error
    if (this.#requests.acquires === 0 && !this.#grantedLate) return error
    const message = `${error.message}; an earlier request of this acquire may have been applied`
    return new StoreError(message, { outcome: 'unknown', lasting: error.lasting, cause: error })
  }

  async #askOnce(first?: Verdict): Promise<Verdict> {
    let answer = first ?? (await this.#ask())
    const unknown = answer.is === 'failed' && answer.error instanceof StoreError && answer.error.outcome === 'unknown'
    // Not of a grant that came, and was given up.
    if (unknown && this.#requests.acquires > 0 && !this.#stopped) answer = await this.#ask()
    // Refused on account of its own claim, which a quorum withdraws when it gets no majority: that says nothing of others (G13).
    if (this.#claimEnded && !this.#stopped) answer = await this.#ask()
    return answer
  }

  #ask(): Promise<Verdict> {
    return new Promise((done) => this.#send(this.#core.timeline.now(), done))
  }

  #send(nowMs: number, done: (verdict: Verdict) => void): void {
    this.#requests.acquires++
    this.#asking = true
    this.#claimEnded = false
    const { callTimeoutMs } = this.#contest.settings
    new AcquireCall(this.#core, this, this.#requests, this.#handover, nowMs, callTimeoutMs, done).start(nowMs)
  }

  /** For its calls. */
  acquire(call: AcquireCall): Promise<Granted | Held> {
    return this.#core.store.acquire(this.#request(), call)
  }

  /** For its calls: an answer that came after the time-out. */
  answeredLate(late: Granted | Held, requests: OpenRequests): void {
    if (late.is === 'granted' || this.#queues) this.#known = true
    if (late.is === 'granted' && requests === this.#requests) this.#grantedLate = true
  }

  /** For its calls. */
  failed(error: unknown, requests: OpenRequests): Verdict {
    this.#asking = false
    if (requests.acquires > 0) this.#doubt ??= error
    return { is: 'failed', error }
  }

  /** For its calls. */
  answered(answer: Granted | Held, { requests, handover, sentMs }: AcquireCall): Verdict {
    const { store, timeline } = this.#core
    const { settings } = this.#contest
    this.#asking = false
    const ended = answer.is === 'held' && answer.because === 'ended'
    // Refused on account of its own claim, or because the record is new, the handover has not begun.
    if (handover !== undefined && !ended && !(answer.is === 'held' && answer.because === 'new')) {
      const certain = answer.replaced !== false || this.#doubt === undefined
      handover.told(certain ? (answer.replaced ?? true) : undefined, this.#doubt)
      this.#handover = undefined
    }
    if (answer.is === 'held') {
      if (this.#queues) this.#known = true
      this.#claimEnded = ended
      this.#refused = { sentMs, token: answer.token }
      if (ended) this.#newClaim()
      // Granted by an answer that never came, and revoked since: nobody believes in it, so its term need not run out (G6).
      else if (answer.because === 'revoked' && !this.#stopped) this.#giveUpClaim()
      return { is: 'held', held: answer }
    }
    this.#known = true
    const ttlMs = Math.min(settings.ttlMs, answer.ttlMs)
    // C10: the deadline counts from the send; a grant that comes after its own deadline is none.
    const heardMs = timeline.now()
    let useless: string | undefined
    if (heardMs >= sentMs + ttlMs - settings.marginMs) useless = 'the lease too late to be of use'
    else if (!Number.isSafeInteger(answer.token)) useless = `${answer.token}, which is no token`
    if (useless !== undefined) {
      if (!this.#stopped) this.#giveUpClaim()
      const error = new StoreError(`the ${store.name} store granted ${useless}`, { outcome: 'unknown' })
      return { is: 'failed', error }
    }
    return {
      is: 'granted',
      granted: { claim: this.#claim, holder: this.#core.holder, heardMs, token: answer.token, sentMs, ttlMs, requests },
    }
  }

  #request(): AcquireRequest {
    const { settings } = this.#contest
    const request: { -readonly [Name in keyof AcquireRequest]: AcquireRequest[Name] } = {
      key: this.#name,
      claim: this.#claim,
      holder: this.#core.holder,
      ttlMs: settings.ttlMs,
      shares: settings.shares,
    }
    if (this.#queues) request.queue = this.#mayBeTold ? QUEUE_TOLD : QUEUE
    if (this.#handover !== undefined) request.replaces = this.#handover.from.grant.claim
    if (settings.meta !== undefined) request.meta = settings.meta
    return request
  }

  /** Whether a turn may come as a grant: one of a short term, which has to be renewed at once, and which carries no meta. */
  get #mayBeTold(): boolean {
    const { renew, meta } = this.#contest.settings
    return this.#core.store.capabilities.tellsTurns === true && renew && meta === undefined
  }

  /** The turn that was told, if this claim holds by it. */
  #grantedByTurn(): GrantedClaim | undefined {
    const turn = this.#turn
    this.#turn = undefined
    if (turn === undefined || this.#refused === undefined || !this.#mayBeTold) return undefined
    const heardMs = this.#core.timeline.now()
    const term = termOfTurn(turn, this.#refused, this.#contest.settings, heardMs)
    return term && { ...term, heardMs, claim: this.#claim, holder: this.#core.holder, requests: this.#requests }
  }

  /** Whether a refusal puts this contender into the store's queue: where the store can order, and it will wait. */
  get #queues(): boolean {
    return this.#core.store.capabilities.fair && this.#contest.settings.waitMs > 0
  }

  /** How long to sleep before the next attempt; undefined when this was the last. */
  #sleepMs(refusal: Refusal): number | undefined {
    const core = this.#core
    const contest = this.#contest
    const held = refusal.is === 'held' ? refusal.held : undefined
    const error = refusal.is === 'failed' ? refusal.error : undefined
    // What is no trouble of the moment, such as a name that the store refuses or a right that is missing, will not be better next time.
    if (error !== undefined && (!(error instanceof StoreError) || error.lasting)) return undefined
    const nowMs = core.timeline.now()
    if (nowMs >= contest.untilMs) return undefined
    const untilHolder = held === undefined ? Number.POSITIVE_INFINITY : Math.max(1, held.remainingMs)
    // Asked before its time, for a wake-up, and in vain: no attempt of the policy's, whose intervals and number are the caller's.
    if (this.#dueMs - nowMs >= 1) return Math.min(this.#dueMs - nowMs, untilHolder)
    const situation: Situation = {
      attempt: ++this.#attempts,
      elapsedMs: nowMs - contest.startedMs,
      holder: held?.holder,
      remainingMs: held?.remainingMs,
      error,
      random: core.random.unit(),
    }
    const queued = this.#queues && held !== undefined
    const policy = contest.settings.retry ?? (queued ? () => pollAfter(nowMs) : defaultRetry)
    const delayMs: unknown = policy(situation)
    if (delayMs === null) return undefined
    if (typeof delayMs !== 'number' || !(delayMs >= 0)) {
      throw new InvalidArgumentError('retry', delayMs, 'must give a number of ms, 0 or more, or null to stop')
    }
    const longestMs = queued ? Math.min(delayMs, QUEUE_POLL_MS) : delayMs
    this.#dueMs = nowMs + longestMs
    return Math.min(longestMs, untilHolder)
  }

  #sleep(ms: number): Promise<undefined> {
    const { alarms, timeline } = this.#core
    return new Promise((resolve) => {
      let alarm: Alarm | undefined
      this.#wake = () => {
        if (alarm !== undefined) alarms.cancel(alarm)
        this.#wake = undefined
        resolve(undefined)
      }
      if (this.#hinted) {
        this.#hinted = false
        this.#wake()
      } else alarm = alarms.set(timeline.now() + ms, () => this.#wake?.())
    })
  }

  /** Sleeps for that long, whatever hints come. */
  async #pause(ms: number): Promise<void> {
    const { timeline } = this.#core
    const untilMs = timeline.now() + ms
    for (let leftMs = ms; leftMs > 0 && !this.#stopped; leftMs = untilMs - timeline.now()) await this.#sleep(leftMs)
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
      for await (const turn of store.watch(this.#name, { claim: this.#claim, signal })) {
        if (signal.aborted) return
        if (turn !== undefined) this.#turn = turn
        this.#hinted = this.#wake === undefined
        this.#wake?.()
      }
    }
    listen().catch(failed)
  }

  /** Not on the way from one holder to the next, where ending a watch takes as long as all the rest. */
  #endWatchSoon(): void {
    const { alarms, timeline } = this.#core
    const watching = this.#watching
    if (watching !== undefined) alarms.set(timeline.now() + WATCH_ENDS_MS, () => watching.abort(OVER), false)
  }

  #giveUpClaim(): void {
    this.#withdraw(this.#claim)
    this.#newClaim()
  }

  #newClaim(): void {
    this.#claim = this.#core.newClaim()
    this.#requests = { acquires: 0, renewals: 0 }
    this.#known = false
    this.#grantedLate = false
    this.#turn = undefined
    this.#refused = undefined
    // A watch is for a claim.
    this.#watching?.abort(OVER)
    this.#watching = undefined
  }

  #withdraw(claim: string): void {
    this.#core.withdrawals.add(this.#name, claim, this.#contest.settings)
  }
}
