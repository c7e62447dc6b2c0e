// How the operations of one verb get to the server: together, skipping rows that somebody else has locked; and those alone, asked for
// again at a growing pace, so that a transaction which sits on a row takes neither the others' turn nor the pool's connections.
import type { Clock } from '../../lease/clock.js'
import { StoreError } from '../../lease/errors.js'
import type { CallOptions } from '../../store/contract.js'
import { Gathered } from '../../store/gather.js'
import { blamesOne } from './failure.js'
import type { Server } from './server.js'
import { isLocked, type Reply } from './wire.js'

/** When a call has no limit of its own. */
export const CALL_MS = 10_000

/** With less time left than this share of it nothing is sent any more: its answer might come too late to be known. */
const LAST_SHARE = 0.25
const LAST_MS_MIN = 100
const LAST_MS_MAX = 1_000

export interface LaneOptions<Op> {
  readonly server: Server
  readonly clock: Clock
  /** How one of them is called in errors. */
  readonly what: string
  /** How many statements are under way: while one commits, the next is made. */
  readonly statements: number
  /** How many operations share a statement at most. */
  readonly operations: number
  /** Sends one statement; its operations are in the order of their keys. */
  send(ops: readonly Op[], timeoutMs: number): Promise<readonly Reply[]>
}

export class Lane<Op extends { readonly key: string }> {
  readonly #options: LaneOptions<Op>
  readonly #together: Gathered<Op, Reply>

  constructor(options: LaneOptions<Op>) {
    this.#options = options
    const { clock, statements, operations, send } = options
    this.#together = new Gathered({
      keyOf: ({ key }: Op) => key,
      blamesOne,
      clock,
      statements,
      operations,
      send: (ops, timeoutMs = CALL_MS) => inKeyOrder(ops, (sorted) => send(sorted, timeoutMs)),
    })
  }

  /** The answer to one operation. `lockedMs`: for how long at most a row that somebody else has locked is waited for. */
  async ask(op: Op, call: CallOptions | undefined, lockedMs = Number.POSITIVE_INFINITY): Promise<Reply> {
    const { server, clock, what, send } = this.#options
    const askedMonoMs = clock.monoMs()
    const reply = await this.#together.ask(op, call)
    if (!isLocked(reply)) return reply
    const endMonoMs = Math.min(askedMonoMs + (call?.timeoutMs ?? CALL_MS), clock.monoMs() + lockedMs)
    return untilUnlocked(server, clock, what, endMonoMs, async (leftMs) => (await send([op], leftMs))[0] ?? reply)
  }
}

/** Asks again until the row is not locked by others, or the time is over. */
export async function untilUnlocked(
  server: Server,
  clock: Clock,
  what: string,
  endMonoMs: number,
  send: (leftMs: number) => Promise<Reply>,
): Promise<Reply> {
  const lastMs = Math.max(LAST_MS_MIN, Math.min(LAST_MS_MAX, LAST_SHARE * (endMonoMs - clock.monoMs())))
  for (let attempt = 0; ; attempt++) {
    await server.pause(attempt)
    const leftMs = endMonoMs - clock.monoMs()
    if (leftMs <= lastMs) {
      throw new StoreError(
        `${what} was not done: another transaction has locked the row of this key for that long: see information_schema.innodb_trx for who`,
        { outcome: 'none' },
      )
    }
    const reply = await send(leftMs)
    if (!isLocked(reply)) return reply
  }
}

/** Rows are locked in one order by all, so that nobody waits in a circle. */
async function inKeyOrder<Op extends { readonly key: string }>(
  ops: readonly Op[],
  send: (sorted: readonly Op[]) => Promise<readonly Reply[]>,
): Promise<readonly Reply[]> {
  if (ops.length === 1) return send(ops)
  const order = ops.map((op, place) => ({ op, place }))
  order.sort((a, b) => (a.op.key < b.op.key ? -1 : 1))
  const replies = await send(order.map(({ op }) => op))
  const inPlace: Reply[] = new Array(ops.length)
  for (const [i, { place }] of order.entries()) inPlace[place] = replies[i] as Reply
  return inPlace
}
