// One scheduler renews all leases of a client. What falls due in the same tick goes to the store in few calls of many leases;
// each attempt has its own time-out and is tried again until the deadline; only a definite answer, or the deadline, ends a
// lease. At most one renewal of a lease is in flight.
import type { ReleaseOutcome, RenewOutcome } from '../store/contract.js'
import type { Alarm } from './alarms.js'
import { Call } from './call.js'
import type { Core } from './core.js'
import { type HoldfastError, StoreError } from './errors.js'
import type { HeldLease, Released } from './lease.js'
import type { LeaseSettings } from './options.js'

/** How many leases go into one call. */
const BATCH = 500
/** Renewals are moved together onto ticks of this share of their period, so that they can share calls. */
const TICKS_PER_PERIOD = 20
const TICK_MS_MAX = 250
const JITTER = 0.1
/** After a stall, which made many due at once, they are spread over so much of their next period. */
const JITTER_LATE = 0.5
const RETRY_MS_MIN = 20

/** After this share of what is left of the short term that a told turn begins with, it is renewed to a full one. */
const SOON_AFTER = 0.25
/** Those are moved together onto ticks too: as many of them as there are keys may have been told within a few ms. */
const SOON_TICK_MS = 50

type Waiting = { resolve: () => void; reject: (error: unknown) => void }

export class Renewals {
  readonly #core: Core
  #due: HeldLease[] = []
  /** Leases with a renewal due or in flight, and the callers of `renew()` who want to know. */
  readonly #busy = new Map<HeldLease, Waiting[]>()

  constructor(core: Core) {
    this.#core = core
  }

  /**
   * When a lease that was confirmed by a request sent at `sentMs` is due again: after its period, up to a tenth earlier, on a tick
   * shared with others. `lateMs`: how long after its time that request was sent.
   */
  dueAfter(settings: LeaseSettings, sentMs: number, lateMs = 0): number {
    const tickMs = tickOf(settings)
    const jitter = lateMs > JITTER * settings.renewEveryMs ? JITTER_LATE : JITTER
    const dueMs = sentMs + settings.renewEveryMs * (1 - jitter * this.#core.random.unit())
    return Math.max(sentMs, Math.floor(dueMs / tickMs) * tickMs)
  }

  /** When a lease with a short term, of which was heard at `heardMs`, is due for the first time. */
  dueSoon(heardMs: number, deadlineMs: number): number {
    const dueMs = heardMs + (deadlineMs - heardMs) * SOON_AFTER
    return Math.max(heardMs, Math.floor(dueMs / SOON_TICK_MS) * SOON_TICK_MS)
  }

  /** Renews a lease together with all others that fall due in this turn. */
  add(lease: HeldLease): void {
    if (this.#busy.has(lease)) return
    this.#busy.set(lease, [])
    if (this.#due.push(lease) === 1) queueMicrotask(() => this.#flush())
  }

  /** Renews now, or waits for the renewal that is in flight. */
  renewNow(lease: HeldLease): Promise<void> {
    this.add(lease)
    lease.renewAt(Number.POSITIVE_INFINITY)
    return new Promise((resolve, reject) => this.#busy.get(lease)?.push({ resolve, reject }))
  }

  /** Keeps a key taken for its `minHoldMs` after its holder has ended it, whatever becomes of this process. */
  prolong(lease: HeldLease, ttlMs: number): void {
    const { key, claim } = lease.grant
    this.#core.caller
      .run('a renewal', lease.settings.callTimeoutMs, (call) => this.#core.store.renew([{ key, claim, ttlMs }], call))
      .catch((cause) =>
        this.#core.events.emit({ type: 'renewal-failed', key: lease.key, token: lease.token, remainingMs: 0, cause }),
      )
  }

  /** Gives a lease back whose holder has long ended it. */
  releaseQuietly(lease: HeldLease): void {
    releaseAtStore(this.#core, lease, () => {}, false)
  }

  #flush(): void {
    const due: HeldLease[] = []
    for (const lease of this.#due.splice(0)) {
      // The deadline is compared before anything is sent (C21): a lease that is over is not prolonged.
      if (!lease.held) {
        this.#settle(lease, lease.endError)
        continue
      }
      due.push(lease)
    }
    for (let i = 0; i < due.length; i += BATCH) void this.#send(due.slice(i, i + BATCH))
  }

  /** One call. It lasts as long as the most patient of them waits; who waits less gives up by itself. */
  async #send(batch: readonly HeldLease[]): Promise<void> {
    const { caller, store, timeline } = this.#core
    const timeoutsMs = batch.map((lease) => lease.renewalTimeoutMs)
    const timeoutMs = timeoutsMs.reduce((longest, one) => Math.max(longest, one), 0)
    const requests = batch.map(({ grant: { key, claim }, settings: { ttlMs, shares } }) => ({
      key,
      claim,
      ttlMs,
      shares,
    }))
    for (const lease of batch) lease.requests.renewals++
    const answered = () => {
      for (const lease of batch) lease.requests.renewals--
    }
    const sentMs = timeline.now()
    const late = (outcomes: RenewOutcome[]) => {
      for (const [i, lease] of batch.entries()) this.#apply(lease, sentMs, outcomes[i])
    }
    const waiting = this.#limit(batch, timeoutsMs, sentMs, timeoutMs)
    try {
      const outcomes = await caller.run('a renewal', timeoutMs, (call) => store.renew(requests, call), {
        answered,
        late,
      })
      batch.forEach((lease, i) => {
        const outcome = outcomes[i]
        const settled = this.#apply(lease, sentMs, outcome)
        if (!waiting.stops(lease)) return // it gave up, and may have been asked for again
        if (settled) this.#settle(lease, lease.endError)
        else this.#failed(lease, notSettled(store.name, outcome))
      })
    } catch (cause) {
      for (const lease of batch) if (waiting.stops(lease)) this.#failed(lease, cause)
    }
  }

  /** Lets those of a call give up by themselves that wait less long than it lasts. `stops`: unless this one has. */
  #limit(
    batch: readonly HeldLease[],
    timeoutsMs: readonly number[],
    sentMs: number,
    longestMs: number,
  ): { stops(lease: HeldLease): boolean } {
    const { alarms } = this.#core
    const limits = new Map<HeldLease, Alarm | 'over'>()
    for (const [i, lease] of batch.entries()) {
      const timeoutMs = timeoutsMs[i] ?? longestMs
      if (timeoutMs >= longestMs) continue
      const giveUp = () => {
        limits.set(lease, 'over')
        const what = `the store did not answer a renewal within ${Math.round(timeoutMs)} ms`
        this.#failed(lease, new StoreError(what, { outcome: 'unknown' }))
      }
      limits.set(lease, alarms.set(sentMs + timeoutMs, giveUp))
    }
    return {
      stops(lease) {
        const limit = limits.get(lease)
        if (limit === 'over') return false
        if (limit !== undefined) alarms.cancel(limit)
        return true
      },
    }
  }

  /** What the store said of one lease, in time or late. Gives whether that settles the matter. */
  #apply(lease: HeldLease, sentMs: number, outcome: RenewOutcome | undefined): boolean {
    if (outcome?.is === 'renewed') lease.renewed(sentMs, Math.min(lease.settings.ttlMs, outcome.ttlMs))
    else if (outcome?.is === 'lost') lease.lose(outcome.reason)
    else lease.requests.renewals++ // nobody knows whether it was applied: it counts as still on its way
    return outcome?.is === 'renewed' || outcome?.is === 'lost'
  }

  /** No answer, or one that settles nothing: again soon, as long as there is time (C18). */
  #failed(lease: HeldLease, cause: unknown): void {
    const { events, random, timeline } = this.#core
    this.#settle(lease, cause)
    if (!lease.held) return
    lease.failures++
    events.emit({ type: 'renewal-failed', key: lease.key, token: lease.token, remainingMs: lease.remainingMs, cause })
    if (!lease.settings.renew) return
    const longestMs = Math.max(RETRY_MS_MIN, lease.settings.callTimeoutMs)
    const delayMs = Math.min(longestMs, RETRY_MS_MIN * 2 ** Math.min(lease.failures - 1, 10)) * (1 - random.unit() / 2)
    // On shared ticks too: ten thousand leases that failed together must not ask a store in trouble ten thousand times.
    const tickMs = Math.min(RETRY_MS_MIN, tickOf(lease.settings))
    lease.renewAt(Math.ceil((timeline.now() + delayMs) / tickMs) * tickMs)
  }

  #settle(lease: HeldLease, error: unknown): void {
    const waiting = this.#busy.get(lease)
    this.#busy.delete(lease)
    for (const { resolve, reject } of waiting ?? []) {
      if (error === undefined) resolve()
      else reject(error)
    }
  }
}

const tickOf = ({ renewEveryMs }: LeaseSettings) => Math.min(TICK_MS_MAX, renewEveryMs / TICKS_PER_PERIOD)

/** Why a renewal settled nothing, as an error of the family. */
function notSettled(name: string, outcome: RenewOutcome | undefined): StoreError {
  if (outcome?.is !== 'unknown')
    return new StoreError(`the ${name} store left out the outcome of a renewal`, { outcome: 'unknown' })
  if (outcome.cause instanceof StoreError) return outcome.cause
  return new StoreError(`the ${name} store cannot tell what became of a renewal`, {
    outcome: 'unknown',
    cause: outcome.cause,
  })
}

/**
 * Gives a claim back at the store, in one bounded call. With an acquire of it still on its way it is withdrawn as well, so that
 * the late one is refused, or ended (G6); what the store does not confirm goes on in the background.
 */
export function releaseAtStore(
  core: Core,
  lease: HeldLease,
  done: (released: Released) => void,
  keepAlive = true,
): void {
  new ReleaseCall(core, lease, done, keepAlive).start(core.timeline.now())
}

class ReleaseCall extends Call<ReleaseOutcome> {
  readonly #core: Core
  readonly #lease: HeldLease
  readonly #done: (released: Released) => void
  /** Asked before the send: until the answer that acquire may have been granted anew, past the term, and answered. */
  readonly #acquireOpen: boolean

  constructor(core: Core, lease: HeldLease, done: (released: Released) => void, keepAlive: boolean) {
    super(core.alarms, lease.settings.callTimeoutMs, keepAlive)
    this.#core = core
    this.#lease = lease
    this.#done = done
    this.#acquireOpen = lease.requests.acquires > 0
  }

  protected get what(): string {
    return 'a release'
  }

  protected send(): Promise<ReleaseOutcome> {
    return this.#core.store.release(this.#lease.grant, this)
  }

  protected onAnswer(answer: ReleaseOutcome): void {
    const { events } = this.#core
    const { key, token } = this.#lease
    if (this.#acquireOpen) this.#withdraw()
    if (answer.is !== 'released') events.emit({ type: 'lost', key, token, reason: answer.reason })
    else if (events.wanted('released')) events.emit({ type: 'released', key, token })
    this.#done(answer)
  }

  protected onError(cause: HoldfastError): void {
    const { key, token } = this.#lease
    this.#withdraw()
    this.#core.events.emit({ type: 'release-failed', key, token, cause })
    this.#done({ is: 'unknown', cause })
  }

  #withdraw(): void {
    const { grant, settings } = this.#lease
    this.#core.withdrawals.add(grant.key, grant.claim, settings)
  }
}
