// A lease in the hands of its holder. Three states, in this order only:
//
//   held   the deadline is not over: the holder may act
//   lost   it ended without the holder's asking; whoever looks is told, and the signal has aborted
//   ended  its holder gave it back
//
// Everything that is read here compares the deadline first, with no I/O (G5): a process that was frozen learns from its own
// clock that it holds nothing any more, before anything is sent.
import type { Grant } from '../store/contract.js'
import type { Alarm } from './alarms.js'
import type { Core } from './core.js'
import { LeaseLostError, type LostReason } from './errors.js'
import type { GrantedClaim, Home, OpenRequests } from './granted.js'
import type { Holding } from './held.js'
import type { LeaseSettings } from './options.js'

declare global {
  // So that the type of `await using` needs nothing but this package, whatever library the reader compiles with.
  interface SymbolConstructor {
    readonly asyncDispose: unique symbol
  }
}

/** What became of giving a lease back. Never an error: a release must not hide what the work did (G10). */
export type Released =
  | { readonly is: 'released' }
  | { readonly is: 'lost'; readonly reason: LostReason }
  | { readonly is: 'unknown'; readonly cause: unknown }

/**
 * A lease that is, or was, held. From `tryAcquire`, `acquire` and `adopt`, and as the argument of the work in `hold`.
 *
 * @example
 * ```ts
 * const lease = await leases.acquire('invoice:42')
 * try {
 *   await pay(lease.grant, lease.signal)
 *   lease.assertHeld()
 * } finally {
 *   await lease.release()
 * }
 * ```
 */
export interface Lease {
  /** The key as it was asked, without the client's prefix (G11). */
  readonly key: string
  /** The fencing token: grows at every change of hands of the key (G2). */
  readonly token: number
  /** What a write has to carry. Plain data; its key is the full name, prefix included. */
  readonly grant: Grant
  /** Whether the deadline is not over (G5). Compares the clock, asks nobody. */
  readonly held: boolean
  /** How long the holder may go on believing, in ms; 0 when the lease has ended. */
  readonly remainingMs: number
  /** Aborts when the lease is lost, when the caller's own signal aborts, when the client closes, and at the release. */
  readonly signal: AbortSignal
  /** Throws `LeaseLostError` when the lease has ended. Asks nobody. */
  assertHeld(): void
  /** Renews now. Rejects with `LeaseLostError` when the lease has ended, with `StoreError` when the store did not confirm it. */
  renew(): Promise<void>
  /** Gives the lease back. Never rejects, bounded in time, harmless when repeated (G10). */
  release(): Promise<Released>
  /**
   * Ends this handle without ending its claim, and gives the grant for `adopt` to take over, here or in another process: nothing
   * of this handle renews, releases or withdraws it any more. Until it is adopted its term runs. Throws `LeaseLostError` when
   * the lease has ended.
   *
   * @example
   * ```ts
   * const first = await leases.acquire('report')
   * const second = await leases.adopt(first.detach())
   * await second.release()
   * ```
   */
  detach(): Grant
  /** The same as `release`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

export class HeldLease implements Lease, Holding {
  readonly key: string
  readonly grant: Grant
  readonly settings: LeaseSettings
  /** Acquires and renewals of this claim that may still be on their way. */
  readonly requests: OpenRequests
  readonly grantedMs: number
  /** When the grant was heard of: by then it was surely made. */
  readonly #heardMs: number
  /** When the holder stops believing. */
  deadlineMs: number
  /** Until when the store surely keeps others out. */
  termEndsMs: number
  /** When the next renewal is due; infinite when the caller renews, or a renewal is in flight. */
  renewalDueMs: number
  /** How long after its time the renewal in flight was sent. */
  #lateMs = 0
  /** Whether its term is still the short one that a told turn began with. */
  #isShort = false
  /** Failed renewals since the last good one. */
  failures = 0
  heldPlace = -1
  readonly #core: Core
  readonly #home: Home
  readonly #alarm: Alarm
  #state: 'held' | 'lost' | 'ended' = 'held'
  #lost: LeaseLostError | undefined
  #controller: AbortController | undefined
  /** Whether the signal has aborted, or will be born aborted, and with what. */
  #aborted = false
  #abortReason: unknown
  #stopListening: (() => void) | undefined
  #released: Promise<Released> | undefined
  #lateWithdrawal: Alarm | undefined
  #withdrawn = false

  constructor(core: Core, home: Home, key: string, settings: LeaseSettings, granted: GrantedClaim) {
    this.#core = core
    this.#home = home
    this.key = key
    this.settings = settings
    this.grant = { key: core.prefix + key, token: granted.token, claim: granted.claim, holder: granted.holder }
    this.requests = granted.requests
    const { toldMarginMs } = granted
    const marginMs = toldMarginMs ?? settings.marginMs
    this.#heardMs = granted.heardMs
    this.grantedMs = toldMarginMs === undefined ? granted.sentMs : this.#heardMs
    this.termEndsMs = granted.sentMs + granted.ttlMs
    this.deadlineMs = this.termEndsMs - marginMs
    this.renewalDueMs = Number.POSITIVE_INFINITY
    core.held.add(this)
    core.alarms.startLooking(marginMs / 2, this.#heardMs)
    if (settings.renew) this.renewalDueMs = core.renewals.dueAfter(settings, this.#heardMs)
    if (toldMarginMs !== undefined)
      this.renewalDueMs = Math.min(this.renewalDueMs, core.renewals.dueSoon(this.#heardMs, this.deadlineMs))
    this.#isShort = toldMarginMs !== undefined
    this.#alarm = new LeaseAlarm(this)
    core.alarms.reset(this.#alarm, this.#nextMs())
    const { signal } = settings
    if (signal?.aborted === true) this.abort(signal.reason)
    else if (signal !== undefined) this.#stopListening = core.aborts.on(signal, () => this.abort(signal.reason))
  }

  get token(): number {
    return this.grant.token
  }

  get held(): boolean {
    this.#look()
    return this.#state === 'held'
  }

  get remainingMs(): number {
    const nowMs = this.#look()
    return this.#state === 'held' ? this.#endsMs - nowMs : 0
  }

  get signal(): AbortSignal {
    this.#look()
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#aborted) this.#controller.abort(this.#abortReason ?? this.endError)
    }
    return this.#controller.signal
  }

  assertHeld(): void {
    this.#look()
    const error = this.endError
    if (error !== undefined) throw error
  }

  async renew(): Promise<void> {
    this.assertHeld()
    await this.#core.renewals.renewNow(this)
  }

  release(): Promise<Released> {
    if (this.#released === undefined) {
      this.#released = new Promise((resolve) => this.#release(resolve))
      // Only now: a listener of the signal may well call release() itself.
      this.abort(undefined)
    }
    return this.#released
  }

  detach(): Grant {
    this.assertHeld()
    this.#released = Promise.resolve({ is: 'released' })
    this.#state = 'ended'
    this.#end()
    this.#forget()
    this.#home.leave(this)
    this.abort(undefined)
    return this.grant
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  /** How it was lost, if it was. */
  get lost(): LeaseLostError | undefined {
    return this.#lost
  }

  /** How it ended, if it did, as an error. */
  get endError(): LeaseLostError | undefined {
    if (this.#state === 'held') return undefined
    return this.#lost ?? new LeaseLostError(this.key, this.token, 'released')
  }

  /** A renewal that was sent at `sentMs` has been confirmed. A deadline that is over stays over. */
  renewed(sentMs: number, ttlMs: number): void {
    const nowMs = this.#look()
    if (this.#state === 'lost') this.#withdrawLater()
    if (this.#state !== 'held') return
    this.failures = 0
    this.#isShort = false
    this.termEndsMs = Math.max(this.termEndsMs, sentMs + ttlMs)
    this.deadlineMs = Math.max(this.deadlineMs, sentMs + ttlMs - this.settings.marginMs)
    this.renewAt(
      this.settings.renew
        ? this.#core.renewals.dueAfter(this.settings, sentMs, this.#lateMs)
        : Number.POSITIVE_INFINITY,
    )
    this.#lateMs = 0
    if (this.#core.events.wanted('renewed')) {
      this.#core.events.emit({
        type: 'renewed',
        key: this.key,
        token: this.token,
        remainingMs: this.deadlineMs - nowMs,
      })
    }
  }

  /** How long a renewal may take: of a short term only so much that it can be tried again. */
  get renewalTimeoutMs(): number {
    const { callTimeoutMs } = this.settings
    return this.#isShort ? Math.min(callTimeoutMs, Math.max(1, this.remainingMs / 3)) : callTimeoutMs
  }

  /** Sets when the next renewal is due. */
  renewAt(dueMs: number): void {
    if (this.#state !== 'held') return
    this.renewalDueMs = dueMs
    this.#core.alarms.reset(this.#alarm, this.#nextMs())
  }

  /** The store says that this claim does not hold, or a limit is over. */
  lose(reason: LostReason, cause?: unknown): void {
    if (this.#state !== 'held') return
    this.#state = 'lost'
    this.#lost = new LeaseLostError(this.key, this.token, reason, cause === undefined ? undefined : { cause })
    this.#end()
    this.abort(this.#lost)
    this.#forget()
    this.#home.leave(this)
    if (this.requests.acquires > 0 || this.requests.renewals > 0) this.#withdrawLater()
    this.#core.events.emit({ type: 'lost', key: this.key, token: this.token, reason })
  }

  /** Aborts the signal, and with it the work; the lease itself stays held until the work gives it back. */
  abort(reason: unknown): void {
    if (this.#aborted) return
    this.#aborted = true
    this.#abortReason = reason
    // Made on demand: most leases are given back before anybody looked at their signal.
    this.#controller?.abort(reason ?? this.endError)
  }

  /** The client closes: the work is told to stop (G12). */
  close(): void {
    this.abort(new LeaseLostError(this.key, this.token, 'closing'))
  }

  #release(resolve: (released: Released) => void): void {
    const nowMs = this.#look()
    if (this.#state === 'lost') {
      resolve(this.#releaseLost())
      return
    }
    this.#state = 'ended'
    this.#end()
    const done = (released: Released) => {
      this.#forget()
      resolve(released)
    }
    const restMs = this.#heardMs + this.settings.minHoldMs - nowMs
    if (restMs > 0) done(this.#linger(restMs))
    else this.#home.giveBack(this, done)
  }

  /** The work under a lost lease has ended: if the store may still keep the claim, it need not keep it any longer. */
  #releaseLost(): Released {
    const reason = this.#lost?.reason ?? 'expired'
    const ownTermRuns = reason === 'maxHold' || reason === 'deadline' || reason === 'revoked'
    if (this.#lateWithdrawal !== undefined || (ownTermRuns && this.#core.timeline.now() < this.termEndsMs))
      this.#withdraw()
    return { is: 'lost', reason }
  }

  /** `minHoldMs` is not over: the key stays taken until then, without a holder. This process may end meanwhile. */
  #linger(restMs: number): Released {
    const { alarms, renewals, timeline } = this.#core
    const nowMs = timeline.now()
    this.#home.leave(this)
    if (this.termEndsMs < nowMs + restMs) renewals.prolong(this, Math.ceil(restMs))
    alarms.set(nowMs + restMs, () => renewals.releaseQuietly(this), false)
    return { is: 'released' }
  }

  /**
   * A request that was on its way when the lease was lost may prolong, or have prolonged, its term at the store. The claim is
   * withdrawn for it, but not before the end of the term that is known: work that is winding down keeps its margin. After a
   * drain that failed it is left to its ttl (G12).
   */
  #withdrawLater(): void {
    if (this.#withdrawn || this.#lost?.reason === 'closing') return
    this.#lateWithdrawal ??= this.#core.alarms.set(this.termEndsMs, () => this.#withdraw(), false)
  }

  #withdraw(): void {
    if (this.#lateWithdrawal !== undefined) this.#core.alarms.cancel(this.#lateWithdrawal)
    this.#lateWithdrawal = undefined
    if (this.#withdrawn) return
    this.#withdrawn = true
    this.#core.withdrawals.add(this.grant.key, this.grant.claim, this.settings)
  }

  /** Compares the deadline, before anything else. Gives the time. */
  #look(): number {
    const nowMs = this.#core.timeline.now()
    if (this.#state !== 'held') return nowMs
    if (nowMs >= this.deadlineMs) this.lose('deadline')
    else if (nowMs - this.grantedMs >= this.settings.maxHoldMs) this.lose('maxHold')
    return nowMs
  }

  onAlarm(): void {
    const nowMs = this.#look()
    if (this.#state !== 'held') return
    if (nowMs >= this.renewalDueMs) {
      this.#lateMs = nowMs - this.renewalDueMs
      this.renewalDueMs = Number.POSITIVE_INFINITY
      this.#core.renewals.add(this)
    }
    this.#core.alarms.reset(this.#alarm, this.#nextMs())
  }

  #nextMs(): number {
    return Math.min(this.#endsMs, this.renewalDueMs)
  }

  /** When it ends by itself. */
  get #endsMs(): number {
    return Math.min(this.deadlineMs, this.grantedMs + this.settings.maxHoldMs)
  }

  /** Nothing of it is left to wait for. */
  #forget(): void {
    const { held, onIdle } = this.#core
    held.delete(this)
    if (held.size === 0) for (const idle of onIdle.splice(0)) idle()
  }

  /** What every end has in common. */
  #end(): void {
    this.#core.alarms.cancel(this.#alarm)
    this.#core.alarms.stopLooking()
    this.#stopListening?.()
  }
}

/** When a lease is due: for its renewal, or to end. */
class LeaseAlarm implements Alarm {
  atMs = 0
  place = -1
  readonly keepAlive = true
  readonly #lease: HeldLease

  constructor(lease: HeldLease) {
    this.#lease = lease
  }

  fire(): void {
    this.#lease.onAlarm()
  }
}
