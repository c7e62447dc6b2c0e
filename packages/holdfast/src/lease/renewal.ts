// One scheduler renews all leases of a client. What falls due in the same tick goes to the store in few calls of many leases;
// each attempt has its own time-out and is tried again until the deadline; only a definite answer, or the deadline, ends a
// lease. At most one renewal of a lease is in flight.
import type { RenewOutcome } from '../store/contract.js'
import type { Core } from './core.js'
import { StoreError } from './errors.js'
import type { HeldLease, Released } from './lease.js'
import type { LeaseSettings } from './options.js'

/** How many leases go into one call. */
const BATCH = 500
/** Renewals are moved together onto ticks of this share of their period, so that they can share calls. */
const TICKS_PER_PERIOD = 20
const TICK_MS_MAX = 250
const JITTER = 0.1
const RETRY_MS_MIN = 20

type Waiting = { resolve: () => void; reject: (error: unknown) => void }

export class Renewals {
  readonly #core: Core
  #due: HeldLease[] = []
  /** Leases with a renewal due or in flight, and the callers of `renew()` who want to know. */
  readonly #busy = new Map<HeldLease, Waiting[]>()

  constructor(core: Core) {
    this.#core = core
  }

  /** When a lease that is confirmed now is due: after its period, up to a tenth earlier, on a tick shared with others. */
  dueAfter(settings: LeaseSettings, nowMs: number): number {
    const tickMs = tickOf(settings)
    const dueMs = nowMs + settings.renewEveryMs * (1 - JITTER * this.#core.random.unit())
    return Math.max(nowMs, Math.floor(dueMs / tickMs) * tickMs)
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
  async releaseQuietly(lease: HeldLease): Promise<void> {
    await releaseAtStore(this.#core, lease, false)
  }

  #flush(): void {
    const groups = new Map<number, HeldLease[]>()
    for (const lease of this.#due.splice(0)) {
      // The deadline is compared before anything is sent (C21): a lease that is over is not prolonged.
      if (!lease.held) {
        this.#settle(lease, lease.endError)
        continue
      }
      const { callTimeoutMs } = lease.settings
      const group = groups.get(callTimeoutMs)
      if (group === undefined) groups.set(callTimeoutMs, [lease])
      else group.push(lease)
    }
    for (const [timeoutMs, group] of groups) {
      for (let i = 0; i < group.length; i += BATCH) void this.#send(group.slice(i, i + BATCH), timeoutMs)
    }
  }

  async #send(batch: readonly HeldLease[], timeoutMs: number): Promise<void> {
    const { caller, store, timeline } = this.#core
    const requests = batch.map(({ grant, settings }) => ({ key: grant.key, claim: grant.claim, ttlMs: settings.ttlMs }))
    for (const lease of batch) lease.requests.renewals++
    const answered = () => {
      for (const lease of batch) lease.requests.renewals--
    }
    const sentMs = timeline.now()
    const late = (outcomes: RenewOutcome[]) => {
      for (const [i, lease] of batch.entries()) this.#apply(lease, sentMs, outcomes[i])
    }
    try {
      const outcomes = await caller.run('a renewal', timeoutMs, (call) => store.renew(requests, call), {
        answered,
        late,
      })
      batch.forEach((lease, i) => {
        const outcome = outcomes[i]
        if (this.#apply(lease, sentMs, outcome)) this.#settle(lease, lease.endError)
        else this.#failed(lease, notSettled(store.name, outcome))
      })
    } catch (cause) {
      for (const lease of batch) this.#failed(lease, cause)
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
export async function releaseAtStore(core: Core, lease: HeldLease, keepAlive = true): Promise<Released> {
  const { caller, events, store, withdrawals } = core
  const { grant, key, token, settings } = lease
  // Asked before the send: until the answer that acquire may have been granted anew, past the term, and answered.
  const acquireOpen = lease.requests.acquires > 0
  try {
    const answer = await caller.run('a release', settings.callTimeoutMs, (call) => store.release(grant, call), {
      keepAlive,
    })
    if (acquireOpen) withdrawals.add(grant.key, grant.claim, settings)
    if (answer.is === 'released') {
      if (events.wanted('released')) events.emit({ type: 'released', key, token })
      return answer
    }
    events.emit({ type: 'lost', key, token, reason: answer.reason })
    return answer
  } catch (cause) {
    withdrawals.add(grant.key, grant.claim, settings)
    events.emit({ type: 'release-failed', key, token, cause })
    return { is: 'unknown', cause }
  }
}
