// Transactions of different keys that are asked for while a request is under way go together in the next one, at the end of the turn
// of the event loop: a request costs much more than what is in it. In etcd they are transactions inside one that has no conditions,
// so each has its own conditions and its own answer; they share a revision, which is a token for each key apart. Whoever asks while
// nothing is under way is alone, and is sent as it is.
import type { Clock, Timer } from '../../lease/clock.js'
import { StoreError } from '../../lease/errors.js'
import { EtcdError } from './failure.js'
import type { Gateway, Limits } from './gateway.js'
import { run, TXN } from './key.js'
import { del, encode, nested, type Op, parsed, type Txn, type TxnAnswer } from './wire.js'

/** So many share a request at most: the server works on one part while this process makes the next. */
const TOGETHER_MAX = 32

/** The first is a setting of the server (--max-txn-ops), which counts them along each path: their number, and what the largest has inside. */
const TOO_MANY = /too many operations/
const TOO_MUCH = /too many operations|too large|larger than max/

interface Asked {
  readonly what: string
  readonly key: string
  readonly txn: Txn
  readonly limits: Limits
  resolve(answer: TxnAnswer): void
  reject(error: unknown): void
}

export class Together {
  readonly #gateway: Gateway
  readonly #clock: Clock
  readonly #rights: readonly Op[]
  #underWay = 0
  #waiting: Asked[] = []
  #most = TOGETHER_MAX

  constructor(gateway: Gateway, clock: Clock, prefix: string) {
    this.#gateway = gateway
    this.#clock = clock
    // Many an etcd checks no rights for what is inside (GHSA-rfx7-8w68-q57q): so something is written outside, which is not there.
    this.#rights = gateway.hasUser ? [del({ key: encode(`${prefix}rights`) })] : []
  }

  /** The answer to this transaction, of which nothing concerns another Holdfast key. Rejects as if it had been sent alone. */
  ask(what: string, key: string, txn: Txn, limits: Limits): Promise<TxnAnswer> {
    if (limits.signal !== undefined) return this.#counted(run(this.#gateway, what, txn, limits))
    return new Promise((resolve, reject) => {
      if (this.#waiting.push({ what, key, txn, limits, resolve, reject }) > 1) return
      if (this.#underWay === 0) queueMicrotask(this.#flush)
      else atEndOfTurn(this.#flush)
    })
  }

  readonly #flush = (): void => {
    let waiting = this.#waiting
    this.#waiting = []
    const nowMonoMs = this.#clock.monoMs()
    while (waiting.length > 0) {
      const part: Asked[] = []
      const left: Asked[] = []
      const keys = new Set<string>()
      for (const asked of waiting) {
        if (asked.limits.untilMonoMs <= nowMonoMs) void this.#alone(asked)
        else if (part.length === this.#most || keys.has(asked.key)) left.push(asked)
        else part.push(asked)
        keys.add(asked.key)
      }
      void this.#counted(this.#send(part))
      waiting = left
    }
  }

  async #send(part: readonly Asked[]): Promise<void> {
    const [first] = part
    if (first === undefined) return
    if (part.length === 1) return await this.#alone(first)
    const what = part.every((asked) => asked.what === first.what) ? first.what : 'a transaction'
    const open = new Set(part)
    const untilMonoMs = part.reduce((latest, { limits }) => Math.max(latest, limits.untilMonoMs), 0)
    const done = this.#endInTime(open, untilMonoMs)
    try {
      const body = JSON.stringify({ success: [...part.map(({ txn }) => nested(txn)), ...this.#rights] })
      const text = await this.#gateway.once(what, TXN, body, { untilMonoMs, signal: undefined })
      const { header, responses = [] } = parsed<TxnAnswer>(text, what)
      for (const [i, { resolve, reject }] of part.entries()) {
        const answer = responses[i]?.response_txn
        if (answer !== undefined) resolve({ ...answer, header: header ?? {} })
        else reject(new StoreError(`etcd left out the answer to ${what}`, { outcome: 'unknown' }))
      }
    } catch (error) {
      done()
      const left = [...open]
      if (!(error instanceof StoreError) || error.outcome === 'unknown') for (const { reject } of left) reject(error)
      else await this.#apart(left, error)
    } finally {
      done()
    }
  }

  /** Nothing was done: so each is asked alone, and what is wrong with one is told to that one; or fewer together, where it was too much. */
  async #apart(part: readonly Asked[], error: StoreError): Promise<void> {
    const said = error instanceof EtcdError ? error.said : ''
    if (!TOO_MUCH.test(said)) {
      await Promise.all(part.map((asked) => this.#alone(asked)))
      return
    }
    const half = Math.ceil(part.length / 2)
    if (TOO_MANY.test(said)) this.#most = Math.min(this.#most, half)
    await Promise.all([this.#send(part.slice(0, half)), this.#send(part.slice(half))])
  }

  /** Those whose time is over before that of the others give up: whether theirs was done, they do not know. */
  #endInTime(open: Set<Asked>, latestMonoMs: number): () => void {
    const endpoint = this.#gateway.endpoint
    let timer: Timer | undefined
    const arm = () => {
      const ends = [...open].map(({ limits }) => limits.untilMonoMs).filter((untilMonoMs) => untilMonoMs < latestMonoMs)
      timer = ends.length === 0 ? undefined : this.#clock.setTimer(Math.min(...ends) - this.#clock.monoMs(), end)
    }
    const end = () => {
      const nowMonoMs = this.#clock.monoMs()
      for (const asked of open) {
        if (asked.limits.untilMonoMs > nowMonoMs) continue
        open.delete(asked)
        asked.reject(this.#gateway.late(endpoint, asked.what))
      }
      arm()
    }
    arm()
    return () => timer?.cancel()
  }

  async #alone({ what, txn, limits, resolve, reject }: Asked): Promise<void> {
    await run(this.#gateway, what, txn, limits).then(resolve, reject)
  }

  async #counted<Value>(work: Promise<Value>): Promise<Value> {
    this.#underWay++
    try {
      return await work
    } finally {
      this.#underWay--
    }
  }
}

/** After what has come meanwhile from the network was read. */
const atEndOfTurn: (fn: () => void) => void =
  typeof setImmediate === 'function' ? (fn) => void setImmediate(fn) : queueMicrotask
