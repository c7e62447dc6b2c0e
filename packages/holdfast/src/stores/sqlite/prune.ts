// Forgetting keys that nobody uses any more, a few rows at a time. The file remembers the biggest token that it forgot, and a
// key without a row starts above it: so tokens go on rising (G2), also when the machine's clock was set back meanwhile.
import type { CallOptions } from '../../store/contract.js'
import { isForgettable } from '../../store/protocol.js'
import type { Connection } from './connection.js'
import * as sql from './sql.js'
import type { Turns } from './turn.js'

/**
 * After this many steps of this process as many keys are looked at. A new key takes two steps, acquire and release, so that
 * pruning keeps up with them.
 */
const STEPS_PER_PASS = 512
const KEYS_PER_PASS = 512

/** Pruning as it goes on by itself: a pass over a few keys, every few hundred steps. */
export class Pruning {
  readonly #turns: Turns
  readonly #retentionMs: number
  #after = ''
  #steps = 0

  constructor(turns: Turns, retentionMs: number) {
    this.#turns = turns
    this.#retentionMs = retentionMs
  }

  /** Counts a step. */
  wrote(): void {
    if (++this.#steps < STEPS_PER_PASS) return
    this.#steps = 0
    const pass = this.#turns.write({ run: (connection) => prunePass(connection, this.#after, this.#retentionMs) })
    pass.then(
      ({ last }) => {
        this.#after = last ?? ''
      },
      () => {}, // the next pass will do
    )
  }
}

/** Looks at every key. Gives how many were forgotten. */
export async function pruneAll(turns: Turns, olderThanMs: number, call?: CallOptions): Promise<number> {
  let after: string | undefined = ''
  let forgotten = 0
  while (after !== undefined) {
    const from: string = after
    const pass = await turns.write({ run: (connection) => prunePass(connection, from, olderThanMs) }, call)
    forgotten += pass.forgotten
    after = pass.last
  }
  return forgotten
}

/**
 * Looks at the next few keys after `after`; `last` is where to go on. Within a write transaction. A token that is ahead of the clock
 * is kept until the clock has passed it: else those of all keys would be.
 */
function prunePass(connection: Connection, after: string, olderThanMs: number): Pass {
  const nowMs = connection.nowMs()
  const old = connection
    .read(sql.PRUNE_CANDIDATES, after, KEYS_PER_PASS, nowMs - olderThanMs)
    .map((row) => ({ key: row[sql.KEY_CELL] as string, state: sql.decode(row).state }))
    .filter(({ state }) => isForgettable(state, nowMs) && state.token < (nowMs + 1) * 1_000)
  if (old.length > 0) {
    connection.write(sql.RAISE_PRUNED_TOKEN, Math.max(...old.map(({ state }) => state.token)))
    connection.write(sql.FORGET, JSON.stringify(old.map(({ key }) => key)))
  }
  const last = connection.read(sql.PRUNE_CURSOR, after, KEYS_PER_PASS)[0]?.[0]
  return { forgotten: old.length, last: typeof last === 'string' ? last : undefined }
}

interface Pass {
  readonly forgotten: number
  readonly last: string | undefined
}
