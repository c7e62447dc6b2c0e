// How the operations of one verb get to the server: together, skipping rows that somebody else has locked; and those alone, few at a
// time and never for long, so that a transaction which sits on a row takes neither the others' turn nor the pool's connections.
import type { Clock } from '../../lease/clock.js'
import { StoreError } from '../../lease/errors.js'
import type { CallOptions } from '../../store/contract.js'
import { Gathered } from '../../store/gather.js'
import type { Row } from './client.js'
import { blamesOne, codeOf } from './failure.js'
import { isLocked, LOCKED, type Reply, repliesOf } from './reply.js'
import type { Server } from './server.js'

/** How long a key that is asked for alone is waited for in the common lane, and beside it, at a time. */
const WAIT_MS = 50
const WAIT_ALONE_MS = 250
/** When a call has no limit of its own. */
const CALL_MS = 10_000
/** How many statements of one verb are under way: while one commits, the next is made. */
const STATEMENTS = 2

/** When less than this share of a call is left, a locked row is not asked for again: the answer might come too late to be known. */
const LAST_SHARE = 0.25
const LAST_MS_MIN = 200
const LAST_MS_MAX = 1_000

interface Keyed {
  readonly key: string
}

export interface LaneOptions<Op> {
  readonly server: Server
  readonly clock: Clock
  readonly verb: 'acquire' | 'renew' | 'release'
  /** How one of them is called in errors. */
  readonly what: string
  /** Operations as the function wants them: for each field, an array. */
  encode(ops: readonly Op[]): Readonly<Record<string, readonly unknown[]>>
}

export class Lane<Op extends Keyed> {
  readonly #options: LaneOptions<Op>
  readonly #together: Gathered<Op, Reply>
  readonly #alone: Gathered<Op, Reply>

  constructor(options: LaneOptions<Op>) {
    this.#options = options
    const { clock, server } = options
    const few = server.wire.connections <= 2
    const common = { keyOf: ({ key }: Op) => key, blamesOne, clock }
    this.#together = new Gathered({
      ...common,
      statements: few ? 1 : STATEMENTS,
      send: (ops, timeoutMs) => this.#send(ops, WAIT_MS, timeoutMs),
    })
    this.#alone = new Gathered({
      ...common,
      statements: few ? 1 : 2,
      operations: 1,
      slow: 0,
      send: (ops, timeoutMs) => this.#send(ops, WAIT_ALONE_MS, timeoutMs),
    })
  }

  /** The answer to one operation. `lockedMs`: for how long at most a row that somebody else has locked is waited for. */
  async ask(op: Op, call: CallOptions | undefined, lockedMs = Number.POSITIVE_INFINITY): Promise<Reply> {
    const { clock, what } = this.#options
    const askedMonoMs = clock.monoMs()
    const reply = await this.#together.ask(op, call)
    if (!isLocked(reply)) return reply
    const timeoutMs = call?.timeoutMs ?? CALL_MS
    const endMonoMs = Math.min(askedMonoMs + timeoutMs, clock.monoMs() + lockedMs)
    const lastMs = lastOf(Math.min(timeoutMs, lockedMs))
    while (true) {
      const leftMs = endMonoMs - clock.monoMs()
      if (leftMs < lastMs) throw isLockedByOthers(what)
      const again = await this.#alone.ask(op, { timeoutMs: leftMs })
      if (!isLocked(again)) return again
    }
  }

  async #send(ops: readonly Op[], waitMs: number, timeoutMs: number | undefined): Promise<Reply[]> {
    const { server, verb, what, encode } = this.#options
    try {
      const row = await server.call(what, verb, [JSON.stringify(encode(ops)), waitOf(waitMs, timeoutMs)], timeoutMs)
      return repliesOf(row) ?? ops.map(() => LOCKED)
    } catch (error) {
      if (ops.length === 1 && codeOf(error) === '55P03') return [LOCKED]
      throw error
    }
  }
}

const lastOf = (timeoutMs: number) => Math.max(LAST_MS_MIN, Math.min(LAST_MS_MAX, LAST_SHARE * timeoutMs))

/** For how long the server may wait for a lock: it has to say in time that it did so in vain. */
const waitOf = (waitMs: number, leftMs = Number.POSITIVE_INFINITY) =>
  String(Math.max(1, Math.floor(Math.min(waitMs, leftMs / 2))))

/** Sends a statement on one key again until its row is not locked by others, or the call's time is over. */
export async function alone(
  { clock, what }: { clock: Clock; what: string },
  call: CallOptions | undefined,
  send: (wait: string, leftMs: number) => Promise<Row | undefined>,
): Promise<Row | undefined> {
  const timeoutMs = call?.timeoutMs ?? CALL_MS
  const endMonoMs = clock.monoMs() + timeoutMs
  for (let attempt = 1; ; attempt++) {
    const leftMs = Math.max(1, endMonoMs - clock.monoMs())
    if (attempt > 1 && leftMs < lastOf(timeoutMs)) throw isLockedByOthers(what)
    try {
      return await send(waitOf(WAIT_ALONE_MS, leftMs), leftMs)
    } catch (error) {
      if (codeOf(error) !== '55P03') throw error
    }
  }
}

const isLockedByOthers = (what: string) =>
  new StoreError(
    `${what} was not done: another transaction has locked the row of this key for that long: see pg_locks for who`,
    { outcome: 'none' },
  )
