// The first of the two stages of a lock. Callers of one process line up here, per key, first in first out; only the head
// contends at the store. At its release the lease is handed to the next in line with one command and a new token.
//
//   idle ──ask──▶ contending ──granted──▶ owned ──release──▶ handing over (somebody waits here) ──▶ owned, or contending
//                     │                     │                giving back  (nobody does)         ──▶ idle, or contending
//                     └─ refused, aborted ──┴─ lost ──▶ the next in line contends, or idle
import type { Alarm } from './alarms.js'
import type { Core } from './core.js'
import { ClosedError, StoreError, TooManyWaitersError } from './errors.js'
import { Fifo, type Place } from './fifo.js'
import { HeldLease, type Home, type Released } from './lease.js'
import type { LeaseSettings } from './options.js'
import { releaseAtStore } from './renewal.js'
import { Contender, type Handover, type Refusal, type Verdict, type Who } from './waiting.js'

/** How long the next in line leaves the key alone after handovers in a row, where the store cannot say who else waits. */
const YIELD_MS = 50

/** How a call for a lease ends: with a lease, with the answer that another holds it, or with an error. */
export type Answer = HeldLease | { readonly is: 'held'; readonly held: Who; readonly waitedMs: number }

/** All keys of one client that somebody of this process holds or wants. */
export class LocalQueues {
  readonly #core: Core
  readonly #queues = new Map<string, LocalQueue>()

  constructor(core: Core) {
    this.#core = core
  }

  ask(key: string, settings: LeaseSettings): Promise<Answer> {
    // First a look at who has it: an owner whose deadline is over loses it now, and with nobody in line its queue is forgotten.
    this.#queues.get(key)?.look()
    let queue = this.#queues.get(key)
    if (queue === undefined) {
      queue = new LocalQueue(this.#core, key, () => this.#queues.delete(key))
      this.#queues.set(key, queue)
    }
    return queue.ask(settings)
  }

  /** The client closes: whoever waits is turned away. */
  turnAway(): void {
    for (const queue of [...this.#queues.values()])
      queue.turnAway(new ClosedError('these leases are closing: the wait was ended'))
  }
}

/** A caller that waits: in line, or as the one that contends. */
interface Waiter {
  readonly settings: LeaseSettings
  readonly startedMs: number
  readonly untilMs: number
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
  place: Place<Waiter> | undefined
  alarm: Alarm | undefined
  stopListening: (() => void) | undefined
  /** Whether the event of its waiting was emitted. */
  told: boolean
}

class LocalQueue implements Home {
  readonly #core: Core
  readonly #key: string
  readonly #forget: () => void
  readonly #line = new Fifo<Waiter>()
  /** Those in line who ask only once: the next answer that the head gets is theirs as well. */
  readonly #oneTimers = new Set<Waiter>()
  #owner: HeldLease | undefined
  #head: Waiter | undefined
  #contender: Contender | undefined
  #givingBack = false
  #handovers = 0
  /** The lease was given back for others to have a turn: the next in line asks a little later. */
  #yield = false

  constructor(core: Core, key: string, forget: () => void) {
    this.#core = core
    this.#key = key
    this.#forget = forget
  }

  ask(settings: LeaseSettings): Promise<Answer> {
    const nowMs = this.#core.timeline.now()
    if (settings.waitMs === 0) {
      const owner = this.#owner
      // Not read anew: a look may end the lease, and with it this queue.
      if (owner !== undefined && owner.endError === undefined) return Promise.resolve(this.#ownedAnswer(owner, 0))
      const last = this.#contender?.last
      if (last?.is === 'held') return Promise.resolve({ is: 'held', held: last.held, waitedMs: 0 })
      if (last?.is === 'failed') return Promise.reject(last.error)
    }
    if (this.#busy && this.#line.size >= this.#core.maxLocalWaiters) {
      return Promise.reject(new TooManyWaitersError(this.#key, this.#core.maxLocalWaiters))
    }
    return new Promise<Answer>((resolve, reject) => {
      const waiter: Waiter = {
        settings,
        startedMs: nowMs,
        untilMs: nowMs + settings.waitMs,
        resolve,
        reject,
        place: undefined,
        alarm: undefined,
        stopListening: undefined,
        told: false,
      }
      if (this.#busy) this.#lineUp(waiter)
      else this.#contend(waiter)
    })
  }

  /** An owner whose deadline is over has lost the lease before anybody is refused, or lines up, on its account. */
  look(): void {
    void this.#owner?.held
  }

  turnAway(error: unknown): void {
    for (const waiter of [...this.#line]) this.#leaveLine(waiter, () => waiter.reject(error))
    if (this.#head !== undefined) this.#giveUp(this.#head, () => error)
  }

  /** Home: the holder has ended its lease. */
  giveBack(lease: HeldLease): Promise<Released> {
    if (this.#owner === lease) this.#owner = undefined
    const next = this.#mayHandOver(lease) ? this.#next() : undefined
    return next === undefined ? this.#release(lease) : this.#handOver(lease, next)
  }

  /** Home: the lease was lost, or lingers without a holder. */
  leave(lease: HeldLease): void {
    if (this.#owner !== lease) return
    this.#owner = undefined
    this.#goOn()
  }

  /** Somebody of this process holds the key, is asking for it, or is giving it back. */
  get #busy(): boolean {
    return this.#owner !== undefined || this.#head !== undefined || this.#givingBack
  }

  /** A store that queues says itself whose turn it is; another is given the lease back after some handovers in a row. */
  #mayHandOver(lease: HeldLease): boolean {
    if (this.#line.size === 0) return false
    // With an acquire of the old claim still on its way, it has to be withdrawn, which a handover does not do.
    if (lease.requests.acquires > 0) return false
    return this.#core.store.capabilities.fair || this.#handovers < this.#core.maxHandovers
  }

  async #release(lease: HeldLease): Promise<Released> {
    this.#givingBack = true
    this.#yield = this.#handovers >= this.#core.maxHandovers && this.#line.size > 0
    this.#handovers = 0
    const released = await releaseAtStore(this.#core, lease)
    this.#givingBack = false
    this.#goOn()
    return released
  }

  #handOver(lease: HeldLease, next: Waiter): Promise<Released> {
    this.#handovers++
    return new Promise((resolve) => {
      const told = (replaced: boolean | undefined, error?: unknown) => {
        const { events } = this.#core
        const { key, token } = lease
        if (replaced === true) {
          if (events.wanted('released')) events.emit({ type: 'released', key, token })
          resolve({ is: 'released' })
        } else if (replaced === false) {
          events.emit({ type: 'lost', key, token, reason: 'expired' })
          resolve({ is: 'lost', reason: 'expired' })
        } else {
          events.emit({ type: 'release-failed', key, token, cause: error })
          resolve({ is: 'unknown', cause: error })
        }
      }
      this.#contend(next, { from: lease, told: once(told) })
    })
  }

  #lineUp(waiter: Waiter): void {
    waiter.place = this.#line.push(waiter)
    const { settings } = waiter
    if (settings.waitMs === 0) this.#oneTimers.add(waiter)
    else this.#limit(waiter, () => this.#leaveLine(waiter, () => this.#settleRefused(waiter, this.#lineRefusal())))
    this.#listen(waiter, () => this.#leaveLine(waiter, () => waiter.reject(settings.signal?.reason)))
  }

  #contend(waiter: Waiter, handover?: Handover): void {
    this.#head = waiter
    waiter.place = undefined
    this.#oneTimers.delete(waiter)
    this.#unbind(waiter)
    const { settings, startedMs, untilMs } = waiter
    const contender = new Contender(this.#core, {
      key: this.#key,
      settings,
      startedMs,
      untilMs,
      pauseMs: this.#yield ? YIELD_MS : 0,
      ...(handover === undefined ? undefined : { handover }),
      onRefusal: (refusal) => this.#onRefusal(waiter, refusal),
    })
    this.#contender = contender
    this.#yield = false
    if (settings.waitMs > 0) this.#limit(waiter, () => this.#outOfPatience(waiter))
    this.#listen(waiter, () => this.#giveUp(waiter, () => settings.signal?.reason))
    void contender.run().then((verdict) => {
      if (verdict !== undefined && this.#contender === contender) this.#verdict(waiter, verdict)
    })
  }

  #verdict(waiter: Waiter, verdict: Verdict): void {
    this.#endContest(waiter)
    if (verdict.is === 'granted') {
      const lease = new HeldLease(this.#core, this, this.#key, waiter.settings, verdict.granted)
      this.#owner = lease
      const waitedMs = this.#core.timeline.now() - waiter.startedMs
      if (this.#core.events.wanted('acquired'))
        this.#core.events.emit({ type: 'acquired', key: this.#key, token: lease.token, waitedMs })
      waiter.resolve(lease)
      this.#answerOneTimers({ is: 'held', held: this.#ownedAnswer(lease, 0).held })
      return
    }
    this.#settleRefused(waiter, verdict)
    this.#goOn()
  }

  /** The head was refused, or could not ask: that is also the answer for those who ask only once. */
  #onRefusal(head: Waiter, refusal: Refusal): void {
    if (refusal.is === 'held' && !head.told && head.settings.waitMs > 0) {
      head.told = true
      const { holder, remainingMs } = refusal.held
      if (this.#core.events.wanted('waiting'))
        this.#core.events.emit({ type: 'waiting', key: this.#key, holder, remainingMs })
    }
    this.#answerOneTimers(refusal)
  }

  #answerOneTimers(refusal: Refusal): void {
    for (const waiter of [...this.#oneTimers]) this.#leaveLine(waiter, () => this.#settleRefused(waiter, refusal))
  }

  #outOfPatience(waiter: Waiter): void {
    if (this.#contender?.mayStop !== true) return // its first attempt may still be answered; then it ends
    const last = this.#contender.last
    this.#stopContest(waiter)
    if (last !== undefined) this.#settleRefused(waiter, last)
    this.#goOn()
  }

  #giveUp(waiter: Waiter, reason: () => unknown): void {
    this.#stopContest(waiter)
    waiter.reject(reason())
    this.#goOn()
  }

  #settleRefused(waiter: Waiter, refusal: Refusal): void {
    if (refusal.is === 'failed') waiter.reject(refusal.error)
    else waiter.resolve({ is: 'held', held: refusal.held, waitedMs: this.#core.timeline.now() - waiter.startedMs })
  }

  #stopContest(waiter: Waiter): void {
    const contender = this.#contender
    this.#endContest(waiter)
    contender?.stop()
  }

  #endContest(waiter: Waiter): void {
    this.#contender = undefined
    this.#head = undefined
    this.#unbind(waiter)
  }

  /** The next in line contends; with nobody left this queue is forgotten. */
  #goOn(): void {
    if (this.#busy) return
    const next = this.#next()
    if (next === undefined) this.#forget()
    else this.#contend(next)
  }

  /** The next in line. Who shares a signal with those before may have been aborted, and not been told yet. */
  #next(): Waiter | undefined {
    for (;;) {
      const next = this.#line.shift()
      const signal = next?.settings.signal
      if (next === undefined || signal?.aborted !== true) return next
      this.#leaveLine(next, () => next.reject(signal.reason))
    }
  }

  #leaveLine(waiter: Waiter, settle: () => void): void {
    if (waiter.place !== undefined) this.#line.remove(waiter.place)
    waiter.place = undefined
    this.#oneTimers.delete(waiter)
    this.#unbind(waiter)
    settle()
  }

  #limit(waiter: Waiter, fire: () => void): void {
    if (waiter.untilMs !== Number.POSITIVE_INFINITY) waiter.alarm = this.#core.alarms.set(waiter.untilMs, fire)
  }

  #listen(waiter: Waiter, fire: () => void): void {
    const { signal } = waiter.settings
    if (signal !== undefined) waiter.stopListening = this.#core.aborts.on(signal, fire)
  }

  #unbind(waiter: Waiter): void {
    if (waiter.alarm !== undefined) this.#core.alarms.cancel(waiter.alarm)
    waiter.alarm = undefined
    waiter.stopListening?.()
    waiter.stopListening = undefined
  }

  #ownedAnswer(owner: HeldLease, waitedMs: number): Extract<Answer, { is: 'held' }> {
    return {
      is: 'held',
      held: { holder: this.#core.holder, remainingMs: owner.remainingMs + owner.settings.marginMs },
      waitedMs,
    }
  }

  /** What one in line is told whose patience is over: who holds the key, as far as this process knows (G13). */
  #lineRefusal(): Refusal {
    if (this.#owner !== undefined) return { is: 'held', held: this.#ownedAnswer(this.#owner, 0).held }
    const last = this.#contender?.last
    if (last !== undefined) return last
    return {
      is: 'failed',
      error: new StoreError(`the store has not answered for "${this.#key}" yet`, { outcome: 'none' }),
    }
  }
}

/** The first call counts. */
function once<Args extends unknown[]>(fn: (...args: Args) => void): (...args: Args) => void {
  let done = false
  return (...args) => {
    if (done) return
    done = true
    fn(...args)
  }
}
