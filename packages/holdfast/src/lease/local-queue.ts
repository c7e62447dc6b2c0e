// The first of the two stages of a lock. Callers of one process line up here, per key, first in first out; only the head
// contends at the store. At its release the lease is handed to the next in line with one command and a new token.
//
//   idle ──ask──▶ contending ──granted──▶ owned ──release──▶ handing over (somebody waits here) ──▶ owned, or contending
//                     │                     │                giving back  (nobody does)         ──▶ idle, or contending
//                     └─ refused, aborted ──┴─ lost ──▶ the next in line contends, or idle
import type { Alarm } from './alarms.js'
import type { Audience, Contest, Handover, Refusal, Verdict, Who } from './contest.js'
import type { Core } from './core.js'
import { ClosedError, StoreError, TooManyWaitersError } from './errors.js'
import { Fifo, type Place } from './fifo.js'
import type { Home } from './granted.js'
import { HeldLease, type Released } from './lease.js'
import type { LeaseSettings } from './options.js'
import { releaseAtStore } from './renewal.js'
import { Contender } from './waiting.js'

/** How long the next in line leaves the key alone after handovers in a row, where the store cannot say who else waits. */
const YIELD_MS = 50

/** How a call for a lease ends: with a lease, with the answer that another holds it, or with an error. */
export type Answer = HeldLease | { readonly is: 'held'; readonly held: Who; readonly waitedMs: number }

/** How many keys are remembered without a look at whether anybody still holds or wants them. */
const REMEMBERED = 256

/** All keys of one client that somebody of this process holds or wants, and some of those that nobody does any more. */
export class LocalQueues {
  readonly #core: Core
  #queues = new Map<string, LocalQueue>()
  /** With so many keys, those that nobody holds or wants are forgotten. */
  #most = REMEMBERED

  constructor(core: Core) {
    this.#core = core
  }

  /** Calls `resolve` or `reject`, once. */
  ask(key: string, settings: LeaseSettings, resolve: (answer: Answer) => void, reject: (error: unknown) => void): void {
    let queue = this.#queues.get(key)
    if (queue === undefined) {
      if (this.#queues.size >= this.#most) this.#sweep()
      queue = new LocalQueue(this.#core, key)
      this.#queues.set(key, queue)
    }
    queue.ask(settings, resolve, reject)
  }

  /**
   * Into a new Map, so many at once that a key costs no more for it: a Map that changes with each lease is copied again and again,
   * and keeps from the collector what it held (see held.ts).
   */
  #sweep(): void {
    const busy = new Map<string, LocalQueue>()
    for (const [key, queue] of this.#queues) if (queue.busy) busy.set(key, queue)
    this.#queues = busy
    this.#most = 2 * busy.size + REMEMBERED
  }

  /** The client closes: whoever waits is turned away. */
  turnAway(): void {
    for (const queue of [...this.#queues.values()])
      queue.turnAway(new ClosedError('these leases are closing: the wait was ended'))
  }
}

/** A caller that waits: in line, or as the one that contends. */
interface Waiter extends Contest {
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

class LocalQueue implements Home, Audience {
  readonly #core: Core
  readonly #key: string
  /** Made when somebody lines up: most keys have no line. */
  #line: Fifo<Waiter> | undefined
  /** Those in line who ask only once: the next answer that the head gets is theirs as well. */
  #oneTimers: Set<Waiter> | undefined
  #owner: HeldLease | undefined
  #head: Waiter | undefined
  #contender: Contender | undefined
  #givingBack = false
  #handovers = 0
  /** The lease was given back for others to have a turn: the next in line asks a little later. */
  #yield = false

  constructor(core: Core, key: string) {
    this.#core = core
    this.#key = key
  }

  ask(settings: LeaseSettings, resolve: (answer: Answer) => void, reject: (error: unknown) => void): void {
    const nowMs = this.#core.timeline.now()
    // An owner whose deadline is over has lost the lease before anybody is refused, or lines up, on its account.
    void this.#owner?.held
    const { busy } = this
    if (busy && this.#isAnsweredAtOnce(settings, resolve, reject)) return
    const waiter: Waiter = {
      key: this.#key,
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
    if (busy) this.#lineUp(waiter)
    else this.#contend(waiter, nowMs)
  }

  /** One who asks only once is told what is known here; and the line has an end. */
  #isAnsweredAtOnce(
    { waitMs }: LeaseSettings,
    resolve: (answer: Answer) => void,
    reject: (error: unknown) => void,
  ): boolean {
    // One that is just being lost, whose listeners ask here, is no owner any more.
    if (waitMs === 0 && this.#owner?.held === true) {
      resolve(this.#ownedAnswer(this.#owner, 0))
      return true
    }
    const last = waitMs === 0 ? this.#contender?.last : undefined
    if (last?.is === 'held') resolve({ is: 'held', held: last.held, waitedMs: 0 })
    else if (last?.is === 'failed') reject(last.error)
    else if (this.#lineSize >= this.#core.maxLocalWaiters)
      reject(new TooManyWaitersError(this.#key, this.#core.maxLocalWaiters))
    else return false
    return true
  }

  turnAway(error: unknown): void {
    for (const waiter of [...(this.#line ?? [])]) this.#leaveLine(waiter, () => waiter.reject(error))
    if (this.#head !== undefined) this.#giveUp(this.#head, () => error)
  }

  /** Home: the holder has ended its lease. */
  giveBack(lease: HeldLease, done: (released: Released) => void): void {
    if (this.#owner === lease) this.#owner = undefined
    const next = this.#mayHandOver(lease) ? this.#next() : undefined
    if (next === undefined) this.#release(lease, done)
    else this.#handOver(lease, next, done)
  }

  /** Home: the lease was lost, or lingers without a holder. */
  leave(lease: HeldLease): void {
    if (this.#owner !== lease) return
    this.#owner = undefined
    this.#goOn()
  }

  /** Somebody of this process holds the key, is asking for it, or is giving it back. */
  get busy(): boolean {
    return this.#owner !== undefined || this.#head !== undefined || this.#givingBack
  }

  get #lineSize(): number {
    return this.#line?.size ?? 0
  }

  /** A store that queues says itself whose turn it is; another is given the lease back after some handovers in a row. */
  #mayHandOver(lease: HeldLease): boolean {
    if (this.#lineSize === 0) return false
    // With an acquire of the old claim still on its way, it has to be withdrawn, which a handover does not do.
    if (lease.requests.acquires > 0) return false
    return this.#core.store.capabilities.fair || this.#handovers < this.#core.maxHandovers
  }

  #release(lease: HeldLease, done: (released: Released) => void): void {
    this.#givingBack = true
    this.#yield = this.#handovers >= this.#core.maxHandovers && this.#lineSize > 0
    this.#handovers = 0
    releaseAtStore(this.#core, lease, (released) => {
      this.#givingBack = false
      this.#goOn()
      done(released)
    })
  }

  #handOver(lease: HeldLease, next: Waiter, done: (released: Released) => void): void {
    this.#handovers++
    const told = (replaced: boolean | undefined, error?: unknown) => {
      const { events } = this.#core
      const { key, token } = lease
      if (replaced === true) {
        if (events.wanted('released')) events.emit({ type: 'released', key, token })
        done({ is: 'released' })
      } else if (replaced === false) {
        events.emit({ type: 'lost', key, token, reason: 'expired' })
        done({ is: 'lost', reason: 'expired' })
      } else {
        events.emit({ type: 'release-failed', key, token, cause: error })
        done({ is: 'unknown', cause: error })
      }
    }
    this.#contend(next, this.#core.timeline.now(), { from: lease, told: once(told) })
  }

  #lineUp(waiter: Waiter): void {
    this.#line ??= new Fifo()
    waiter.place = this.#line.push(waiter)
    const { settings } = waiter
    if (settings.waitMs === 0) {
      this.#oneTimers ??= new Set()
      this.#oneTimers.add(waiter)
    } else this.#limit(waiter, () => this.#leaveLine(waiter, () => this.#settleRefused(waiter, this.#lineRefusal())))
    this.#listen(waiter, () => this.#leaveLine(waiter, () => waiter.reject(settings.signal?.reason)))
  }

  #contend(waiter: Waiter, nowMs: number, handover?: Handover): void {
    this.#head = waiter
    waiter.place = undefined
    this.#oneTimers?.delete(waiter)
    this.#unbind(waiter)
    const contender = new Contender(this.#core, waiter, this, handover)
    this.#contender = contender
    const pauseMs = this.#yield ? YIELD_MS : 0
    this.#yield = false
    this.#listen(waiter, () => this.#giveUp(waiter, () => waiter.settings.signal?.reason))
    contender.start(nowMs, pauseMs)
  }

  /** Audience: the end of the contest. */
  ended(contender: Contender, verdict: Verdict): void {
    const waiter = this.#head
    if (this.#contender !== contender || waiter === undefined) return
    this.#endContest(waiter)
    if (verdict.is === 'granted') {
      const { granted } = verdict
      const lease = new HeldLease(this.#core, this, this.#key, waiter.settings, granted)
      this.#owner = lease
      if (this.#core.events.wanted('acquired')) {
        const waitedMs = granted.heardMs - waiter.startedMs
        this.#core.events.emit({ type: 'acquired', key: this.#key, token: lease.token, waitedMs })
      }
      waiter.resolve(lease)
      if (this.#oneTimers !== undefined && this.#oneTimers.size > 0)
        this.#answerOneTimers({ is: 'held', held: this.#ownedAnswer(lease, 0).held })
      return
    }
    this.#settleRefused(waiter, verdict)
    this.#goOn()
  }

  /** Audience: the head was refused, or could not ask. That is also the answer for those who ask only once. */
  refused(contender: Contender, refusal: Refusal): void {
    const head = this.#head
    if (this.#contender !== contender || head === undefined) return
    // Only now: until its first attempt is answered its patience does not end, and most are granted then.
    if (head.settings.waitMs > 0 && head.alarm === undefined) this.#limit(head, () => this.#outOfPatience(head))
    if (refusal.is === 'held' && !head.told && head.settings.waitMs > 0) {
      head.told = true
      const { holder, remainingMs } = refusal.held
      if (this.#core.events.wanted('waiting'))
        this.#core.events.emit({ type: 'waiting', key: this.#key, holder, remainingMs })
    }
    this.#answerOneTimers(refusal)
  }

  #answerOneTimers(refusal: Refusal): void {
    for (const waiter of [...(this.#oneTimers ?? [])])
      this.#leaveLine(waiter, () => this.#settleRefused(waiter, refusal))
  }

  #outOfPatience(waiter: Waiter): void {
    const last = this.#contender?.last
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

  /** The next in line contends. */
  #goOn(): void {
    if (this.busy) return
    const next = this.#next()
    if (next !== undefined) this.#contend(next, this.#core.timeline.now())
    else {
      this.#handovers = 0
      this.#yield = false
    }
  }

  /** The next in line. Who shares a signal with those before may have been aborted, and not been told yet. */
  #next(): Waiter | undefined {
    for (;;) {
      const next = this.#line?.shift()
      const signal = next?.settings.signal
      if (next === undefined || signal?.aborted !== true) return next
      this.#leaveLine(next, () => next.reject(signal.reason))
    }
  }

  #leaveLine(waiter: Waiter, settle: () => void): void {
    if (waiter.place !== undefined) this.#line?.remove(waiter.place)
    waiter.place = undefined
    this.#oneTimers?.delete(waiter)
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
