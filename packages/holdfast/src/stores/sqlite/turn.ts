// Who writes when. SQLite lets one connection of one process write at a time, and its own waiting blocks the event loop and
// starves (one process of four took 27,172 transactions while another took one). So the steps of this process queue here, in
// order; those that are asked for together share a transaction; while another process has the lock, it is tried again every
// one to two ms, never blocking and never backing off, since whoever polls slower loses; and a process that writes without
// a break leaves gaps once it notices that it is not alone.
import type { Clock, Timer } from '../../lease/clock.js'
import { ClosedError, HoldfastError, StoreError } from '../../lease/errors.js'
import type { Random } from '../../lease/random.js'
import type { CallOptions } from '../../store/contract.js'
import type { Connection, Connections } from './connection.js'
import { failure, isBusy, outcomeOf } from './failure.js'

/** How long a step waits for the lock when its caller set no time-out. */
export const LOCK_WAIT_MS = 5_000

/** A transaction takes no further steps after so long. */
const TRANSACTION_MS = 2

/** After so long the event loop must turn, and others may get the lock. */
const BURST_MS = 5

/** The gap left to others: longer than the pause between two of their tries. */
const GAP_MS = 2

/** How long after a refused try the next one comes. */
const RETRY_MS_MIN = 1
const RETRY_MS_MAX = 2

/** Others are taken to want the lock for so long after the last sign of them. */
const CONTENDED_MS = 100

/** Writing has paused, as far as others are concerned, when there was none for so long. */
const PAUSE_MS = 1

/** What a caller wants done. */
export interface Work<Value> {
  /** Within a transaction. May be called again when that was undone. Throws a HoldfastError only before it writes. */
  run(connection: Connection): Value
  /** The same as a single statement, which is its own transaction; undefined when it must be `run`, and nothing was changed. */
  plain?(connection: Connection): Value | undefined
}

/** Somebody's work in the queue. */
interface Job {
  run(connection: Connection): void
  /** Whether it could be done without a transaction. */
  plain(connection: Connection): boolean
  /** After the commit. */
  done(): void
  fail(error: HoldfastError): void
  readonly askedMonoMs: number
  readonly giveUpMonoMs: number
  readonly call: CallOptions | undefined
}

/**
 * The queue of one process for the write lock.
 *
 * idle -> a step is asked for -> the microtasks of this turn -> transaction -> idle
 *                                       |                            |
 *                                       +-- lock taken: 1 to 2 ms ---+
 *                                       +-- written for 5 ms: a turn of the event loop, and a gap when others want it
 */
export class Turns {
  readonly #connections: Connections
  readonly #path: string
  readonly #clock: Clock
  readonly #random: Random

  #jobs: Job[] = []
  #scheduled: 'no' | 'soon' | 'after this turn of the loop' = 'no' // when `#flush` will be called
  #timer: Timer | undefined
  #closed = false
  #singly = 0 // so many steps get transactions of their own, since one of them undid the one they shared
  #busy: unknown // the last answer, when it was that another has the lock

  #loopTurnMonoMs: number | undefined // when this process first wrote in this turn of the event loop
  #burstMonoMs = 0 // since when it has been writing without a pause
  #wroteMonoMs = 0
  #contendedUntilMonoMs = 0
  #version: unknown

  constructor(options: { connections: Connections; path: string; clock: Clock; random: Random }) {
    this.#connections = options.connections
    this.#path = options.path
    this.#clock = options.clock
    this.#random = options.random
  }

  /**
   * Does the work within a write transaction, and gives its value when that has been committed. Rejects with StoreError:
   * `none` when the lock was not to be had in time, the work was given up before, or the transaction was undone; `unknown`
   * when the commit failed.
   */
  write<Value>(work: Work<Value>, call?: CallOptions): Promise<Value> {
    return new Promise((resolve, reject) => {
      const askedMonoMs = this.#clock.monoMs()
      let value: Value
      this.#submit({
        run(connection) {
          value = work.plain?.(connection) ?? work.run(connection)
        },
        plain(connection) {
          const plain = work.plain?.(connection)
          if (plain !== undefined) value = plain
          return plain !== undefined
        },
        done: () => resolve(value),
        fail: reject,
        askedMonoMs,
        giveUpMonoMs: askedMonoMs + (call?.timeoutMs ?? LOCK_WAIT_MS),
        call,
      })
    })
  }

  /** Runs `look` without the lock. Readers wait for nobody, but for a file that is being opened, closed or recovered. */
  async read<Value>(look: (connection: Connection) => Value, call?: CallOptions): Promise<Value> {
    const giveUpMonoMs = this.#clock.monoMs() + (call?.timeoutMs ?? LOCK_WAIT_MS)
    while (true) {
      if (this.#closed) throw closed(this.#path)
      try {
        return look(this.#connections.get())
      } catch (error) {
        if (error instanceof HoldfastError) throw error
        this.#connections.giveUp()
        if (!isBusy(error) || this.#clock.monoMs() >= giveUpMonoMs) throw failure(error, this.#path, 'none')
      }
      await new Promise<void>((resolve) => this.#clock.setTimer(this.#retryMs(), resolve))
      if (call?.signal?.aborted) throw givenUp(call.signal)
    }
  }

  /** Turns away whoever waits, and all who come later. */
  close(): void {
    this.#closed = true
    this.#timer?.cancel()
    const jobs = this.#jobs
    this.#jobs = []
    for (const job of jobs) job.fail(closed(this.#path))
  }

  #submit(job: Job): void {
    if (this.#closed) {
      job.fail(closed(this.#path))
      return
    }
    this.#jobs.push(job)
    if (this.#scheduled !== 'no') return
    this.#scheduled = 'soon'
    queueMicrotask(this.#flush) // not at once: steps that are asked for together share a transaction
  }

  readonly #flush = (): void => {
    this.#scheduled = 'no'
    const nowMonoMs = this.#clock.monoMs()
    this.#turnAway(nowMonoMs)
    if (this.#jobs.length === 0) return
    const connection = this.#connection(nowMonoMs)
    if (connection === undefined) return
    const [first, second] = this.#jobs
    // While others want the lock too, a refusal is likely, and only `begin` can be refused without harm to the connection.
    const alone = second === undefined && nowMonoMs >= this.#contendedUntilMonoMs ? first : undefined
    if (alone === undefined || !this.#plain(connection, alone, nowMonoMs)) {
      if (!this.#begin(connection, nowMonoMs)) return
      const jobs = this.#jobs
      this.#jobs = []
      const left = this.#transaction(connection, jobs, nowMonoMs)
      if (left.length > 0) this.#jobs = [...left, ...this.#jobs]
    }
    this.#wroteMonoMs = this.#clock.monoMs()
    if (this.#jobs.length > 0 && this.#scheduled === 'no') this.#afterLoopTurn()
    else this.#noticeLoopTurn(nowMonoMs)
  }

  /** Those whose time is over, or who no longer want it: nothing was sent for them. */
  #turnAway(nowMonoMs: number): void {
    const gone = (job: Job) => nowMonoMs >= job.giveUpMonoMs || this.#isAborted(job)
    if (!this.#jobs.some(gone)) return
    const jobs = this.#jobs
    this.#jobs = jobs.filter((job) => !gone(job))
    for (const job of jobs.filter(gone)) {
      if (this.#isAborted(job)) job.fail(givenUp(job.call?.signal))
      else job.fail(tooLate(this.#path, nowMonoMs - job.askedMonoMs, this.#busy))
    }
  }

  /**
   * Whether the caller gave up. The client makes the signal of a call only when somebody looks at it, which costs more than a
   * plain step: so a signal that is made on demand, and cannot have aborted before, is looked at only once a step had to wait.
   */
  #isAborted({ call }: Job): boolean {
    if (call === undefined || (this.#busy === undefined && !Object.hasOwn(call, 'signal'))) return false
    return call.signal?.aborted === true
  }

  /** The connection; undefined when it is not this process's turn, and `#flush` will be called. */
  #connection(nowMonoMs: number): Connection | undefined {
    if (this.#loopTurnMonoMs !== undefined && nowMonoMs - this.#loopTurnMonoMs >= BURST_MS) {
      this.#afterLoopTurn()
      return undefined
    }
    try {
      const connection = this.#connections.get()
      if (!this.#owesGap(connection, nowMonoMs)) return connection
      this.#afterMs(GAP_MS)
    } catch (error) {
      this.#refused(error, nowMonoMs, 'none')
    }
    return undefined
  }

  /** Takes the write lock. If it is not to be had, `#flush` will be called. */
  #begin(connection: Connection, nowMonoMs: number): boolean {
    try {
      connection.begin()
      this.#busy = undefined
      return true
    } catch (error) {
      if (isBusy(error)) this.#lockTaken(error, nowMonoMs)
      else this.#refused(error, nowMonoMs, 'none')
      return false
    }
  }

  /** A lone step without a transaction. Says whether it is done with, or must wait: if not, a transaction must do it. */
  #plain(connection: Connection, job: Job, nowMonoMs: number): boolean {
    try {
      if (!job.plain(connection)) return false
    } catch (error) {
      this.#refused(error, nowMonoMs, outcomeOf(error))
      return true
    }
    this.#busy = undefined
    this.#jobs = []
    job.done()
    return true
  }

  #refused(error: unknown, nowMonoMs: number, outcome: 'none' | 'unknown'): void {
    this.#connections.giveUp()
    if (isBusy(error)) {
      this.#lockTaken(error, nowMonoMs)
      return
    }
    const jobs = this.#jobs
    this.#jobs = []
    for (const job of jobs) job.fail(failure(error, this.#path, outcome))
  }

  /** Whether others want the lock while this process has been writing for long. Asked once a burst: alone, it costs nothing. */
  #owesGap(connection: Connection, nowMonoMs: number): boolean {
    if (nowMonoMs - this.#wroteMonoMs >= PAUSE_MS) {
      this.#burstMonoMs = nowMonoMs
      return false
    }
    if (nowMonoMs - this.#burstMonoMs < BURST_MS) return false
    this.#burstMonoMs = nowMonoMs
    const version = connection.dataVersion()
    if (this.#version !== undefined && version !== this.#version) this.#contendedUntilMonoMs = nowMonoMs + CONTENDED_MS
    this.#version = version
    return nowMonoMs < this.#contendedUntilMonoMs
  }

  #lockTaken(error: unknown, nowMonoMs: number): void {
    this.#busy = error
    this.#contendedUntilMonoMs = nowMonoMs + CONTENDED_MS
    this.#afterMs(this.#retryMs())
  }

  /** Runs the steps and commits them. Gives those that have to be run again, or were not run yet. */
  #transaction(connection: Connection, jobs: readonly Job[], startMonoMs: number): readonly Job[] {
    const ran: Job[] = []
    let next = 0
    try {
      for (const job of jobs) {
        next++
        try {
          job.run(connection)
          ran.push(job)
        } catch (error) {
          if (!(error instanceof HoldfastError)) {
            ran.push(job)
            throw error
          }
          job.fail(error) // an answer of its own, which wrote nothing
        }
        if (this.#singly > 0 || this.#clock.monoMs() - startMonoMs >= TRANSACTION_MS) break
      }
    } catch (error) {
      return [...this.#undone(ran, error, startMonoMs), ...jobs.slice(next)]
    }
    try {
      connection.commit()
    } catch (error) {
      if (isBusy(error)) return [...this.#undone(ran, error, startMonoMs), ...jobs.slice(next)]
      this.#connections.giveUp()
      for (const job of ran) job.fail(failure(error, this.#path, 'unknown'))
      return jobs.slice(next)
    }
    if (this.#singly > 0) this.#singly--
    for (const job of ran) job.done()
    return next < jobs.length ? jobs.slice(next) : NOBODY
  }

  /** A transaction that was undone: who shared it is tried again alone, so that one bad step does not fail its neighbours. */
  #undone(jobs: readonly Job[], error: unknown, nowMonoMs: number): readonly Job[] {
    this.#connections.giveUp()
    if (isBusy(error)) {
      this.#lockTaken(error, nowMonoMs)
      return jobs
    }
    if (jobs.length > 1) {
      this.#singly = jobs.length
      return jobs
    }
    if (this.#singly > 0) this.#singly--
    for (const job of jobs) job.fail(failure(error, this.#path, 'none'))
    return NOBODY
  }

  #retryMs(): number {
    return RETRY_MS_MIN + (RETRY_MS_MAX - RETRY_MS_MIN) * this.#random.unit()
  }

  #afterMs(delayMs: number): void {
    this.#scheduled = 'soon'
    this.#timer = this.#clock.setTimer(delayMs, this.#flush)
  }

  /** Goes on when timers and input have had their turn: a chain of awaits alone would never let them. */
  #afterLoopTurn(): void {
    this.#scheduled = 'after this turn of the loop'
    this.#noticeLoopTurn(this.#clock.monoMs())
  }

  #noticeLoopTurn(nowMonoMs: number): void {
    if (this.#loopTurnMonoMs !== undefined) return
    this.#loopTurnMonoMs = nowMonoMs
    setImmediate(this.#loopTurned)
  }

  readonly #loopTurned = (): void => {
    this.#loopTurnMonoMs = undefined
    if (this.#scheduled === 'after this turn of the loop') this.#flush()
  }
}

const NOBODY: readonly Job[] = []

const closed = (path: string) =>
  new StoreError(`the store of ${path} is closed`, { outcome: 'none', cause: new ClosedError('this store is closed') })

const givenUp = (signal: AbortSignal | undefined) =>
  new StoreError('given up by its caller before it was sent', { outcome: 'none', cause: signal?.reason })

function tooLate(path: string, waitedMs: number, busy: unknown): StoreError {
  const why =
    busy === undefined
      ? 'this process was busy with other work'
      : 'another process holds its write lock: look for a transaction that stays open'
  return new StoreError(`${path} could not be written for ${Math.round(waitedMs)} ms: ${why}`, {
    outcome: 'none',
    cause: busy,
  })
}
