// Operations of one verb that a process asks for while a statement of that verb is under way go together into the next one: one
// round trip, one transaction, one commit for all of them. An operation that finds nothing under way is sent at the end of the
// turn, as it would be anyway. A statement carries each key once, so that it can lock its rows in one order.
import { type Clock, systemClock } from '../lease/clock.js'
import { StoreError } from '../lease/errors.js'
import type { CallOptions } from './contract.js'

/** So many operations share a statement at most. */
export const GATHERED_MAX = 500

/** A statement that takes longer than this keeps nobody waiting: others may be sent beside it, up to so many. */
const GIVE_WAY_MS = 50
const SLOW_MAX = 4
/** What waits for the end of the turn waits for this: in Node it takes less than half the time of `queueMicrotask`. */
const TURN = Promise.resolve()

/** How operations of one verb are sent. */
export interface GatherOptions<Op, Answer> {
  /** Sends one statement. Gives an answer for each operation, in order. `timeoutMs`: when the last of the callers gives up. */
  send(ops: readonly Op[], timeoutMs: number | undefined): Promise<readonly Answer[]>
  /** Two operations of one key go into different statements, in the order in which they were asked for. */
  keyOf(op: Op): string
  /** Whether a statement of which nothing was applied may have failed for the sake of one operation: then its halves are sent apart. */
  blamesOne(error: StoreError): boolean
  /** How many statements may be under way. Default 1. */
  readonly statements?: number
  /** How many statements that have become slow may be under way beside those. Default 4. */
  readonly slow?: number
  /** How many operations share a statement at most. Default 500. */
  readonly operations?: number
  /** Default: this machine's. */
  readonly clock?: Clock
}

interface Asked<Op, Answer> {
  readonly op: Op
  readonly giveUpMonoMs: number
  readonly call: CallOptions | undefined
  resolve(answer: Answer): void
  reject(error: unknown): void
}

interface Statement {
  readonly sentMonoMs: number
  /** Whether it counts among those that others wait for. */
  counts: boolean
}

/** One verb's operations. */
export class Gathered<Op, Answer> {
  readonly #options: GatherOptions<Op, Answer>
  readonly #clock: Clock
  #waiting: Asked<Op, Answer>[] = []
  readonly #underWay = new Set<Statement>()
  #places: number
  #flushing = false
  #impatient = false

  constructor(options: GatherOptions<Op, Answer>) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#places = options.statements ?? 1
  }

  /**
   * The answer to this operation. Rejects with what its statement was rejected with; with a StoreError of outcome `none` when
   * the caller's time was over before it was sent.
   */
  ask(op: Op, call?: CallOptions): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const giveUpMonoMs = call?.timeoutMs === undefined ? Infinity : this.#clock.monoMs() + call.timeoutMs
      this.#waiting.push({ op, giveUpMonoMs, call, resolve, reject })
      this.#flushSoon()
    })
  }

  #flushSoon(): void {
    if (this.#flushing) return
    if (this.#places <= 0) this.#waitPatiently()
    else {
      this.#flushing = true
      void TURN.then(this.#flush)
    }
  }

  readonly #flush = (): void => {
    this.#flushing = false
    while (this.#waiting.length > 0 && this.#places > 0) {
      const taken = this.#take()
      if (taken.length > 0) this.#start(taken)
    }
    if (this.#waiting.length > 0) this.#waitPatiently()
  }

  /** The operations of the next statement: those asked for first, each key once. */
  #take(): Asked<Op, Answer>[] {
    const waiting = this.#waiting
    const nowMonoMs = this.#clock.monoMs()
    const [first] = waiting
    if (waiting.length === 1 && first !== undefined) {
      this.#waiting = []
      return this.#hasGivenUp(first, nowMonoMs) ? [] : waiting
    }
    const taken: Asked<Op, Answer>[] = []
    const left: Asked<Op, Answer>[] = []
    const keys = new Set<string>()
    for (const asked of waiting) {
      if (this.#hasGivenUp(asked, nowMonoMs)) continue
      const key = this.#options.keyOf(asked.op)
      if (taken.length === (this.#options.operations ?? GATHERED_MAX) || keys.has(key)) left.push(asked)
      else taken.push(asked)
      keys.add(key)
    }
    this.#waiting = left
    return taken
  }

  /** Whether it need not be sent any more; its caller is told. */
  #hasGivenUp({ giveUpMonoMs, call, reject }: Asked<Op, Answer>, nowMonoMs: number): boolean {
    if (giveUpMonoMs > nowMonoMs && !hasAborted(call)) return false
    reject(new StoreError('not sent: the caller gave up before its turn came', { outcome: 'none' }))
    return true
  }

  #start(taken: readonly Asked<Op, Answer>[]): void {
    const statement: Statement = { sentMonoMs: this.#clock.monoMs(), counts: true }
    this.#underWay.add(statement)
    this.#places--
    this.#send(taken, statement.sentMonoMs, () => {
      this.#underWay.delete(statement)
      if (statement.counts) this.#places++
      if (this.#waiting.length > 0) this.#flushSoon()
    })
  }

  /** No async function, whose frames each statement would leave to the garbage collector. Calls `ended` once all have their answers. */
  #send(taken: readonly Asked<Op, Answer>[], nowMonoMs: number, ended: () => void): void {
    const failed = (error: unknown) => {
      const one = error instanceof StoreError && error.outcome === 'none' && this.#options.blamesOne(error)
      if (taken.length > 1 && one) {
        const half = Math.ceil(taken.length / 2)
        this.#send(taken.slice(0, half), this.#clock.monoMs(), () =>
          this.#send(taken.slice(half), this.#clock.monoMs(), ended),
        )
        return
      }
      for (const { reject } of taken) reject(error)
      ended()
    }
    let latestMonoMs = 0
    for (const { giveUpMonoMs } of taken) latestMonoMs = Math.max(latestMonoMs, giveUpMonoMs)
    const ops = taken.map(({ op }) => op)
    const timeoutMs = latestMonoMs === Infinity ? undefined : latestMonoMs - nowMonoMs
    try {
      this.#options.send(ops, timeoutMs).then((answers) => {
        for (let i = 0; i < taken.length; i++) taken[i]?.resolve(answers[i] as Answer)
        ended()
      }, failed)
    } catch (error) {
      failed(error)
    }
  }

  /** While somebody waits, a statement that is slow gives up its place. */
  #waitPatiently(): void {
    if (this.#impatient) return
    this.#impatient = true
    const timer = this.#clock.setTimer(GIVE_WAY_MS, () => {
      this.#impatient = false
      if (this.#waiting.length === 0) return
      const nowMonoMs = this.#clock.monoMs()
      const slowMax = this.#options.slow ?? SLOW_MAX
      for (const statement of this.#underWay) {
        const slow = statement.counts && nowMonoMs - statement.sentMonoMs >= GIVE_WAY_MS
        if (!slow || [...this.#underWay].filter(({ counts }) => !counts).length >= slowMax) continue
        statement.counts = false
        this.#places++
      }
      this.#flushSoon()
    })
    timer.keepAlive(false)
  }
}

/** The client makes a call's signal only when somebody looks at it, at a cost: so only one that is there is looked at. */
const hasAborted = (call: CallOptions | undefined) =>
  call !== undefined && Object.hasOwn(call, 'signal') && call.signal?.aborted === true
