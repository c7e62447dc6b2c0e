// No ghosts on any node (G6): a claim that was given up is withdrawn on every node, also on those that did not answer, in the
// background, until each has confirmed it. As long as one has not, its grants to that claim do not count.
import type { Clock } from '../../lease/clock.js'
import type { Random } from '../../lease/random.js'
import { type Node, TimeLimit } from './node.js'
import { idOf } from './terms.js'

/** A node that comes back must not be met by everything at once. */
const AT_ONCE = 16
const FIRST_DELAY_MS = 100
const DELAY_MS_MAX = 5_000
/** After that nothing can be left of a request but one ghost of one ttl, on a minority of nodes. */
const TRY_FOR_MS = 60_000

interface Withdrawal {
  readonly key: string
  readonly claim: string
  readonly untilMs: number
  attempt: number
}

export class Withdrawals {
  readonly #nodes: readonly Node[]
  readonly #clock: Clock
  readonly #random: Random
  readonly #timeoutMs: number
  readonly #queues: Withdrawal[][]
  readonly #sending: number[]
  /** For each claim, the nodes on which it has not been confirmed yet. */
  readonly #open = new Map<string, Set<number>>()
  #closed = false

  constructor(nodes: readonly Node[], clock: Clock, random: Random, timeoutMs: number) {
    this.#nodes = nodes
    this.#clock = clock
    this.#random = random
    this.#timeoutMs = timeoutMs
    this.#queues = nodes.map(() => [])
    this.#sending = nodes.map(() => 0)
  }

  /** The nodes on which the claim is being withdrawn: they have no vote for it. */
  of(id: string): ReadonlySet<number> | undefined {
    return this.#open.get(id)
  }

  /** Withdraws a claim on these nodes, for two of its ttls at least. */
  add(key: string, claim: string, places: readonly number[], ttlMs: number): void {
    if (this.#closed) return
    const untilMs = this.#clock.monoMs() + Math.max(TRY_FOR_MS, 2 * ttlMs)
    for (const place of places) {
      if (!this.begin(idOf(key, claim), place)) continue
      this.#queues[place]?.push({ key, claim, untilMs, attempt: 0 })
      this.#send(place)
    }
  }

  /** Notes that a withdrawal is on its way. False when there is one already. */
  begin(id: string, place: number): boolean {
    const open = this.#open.get(id) ?? new Set()
    if (open.has(place)) return false
    this.#open.set(id, open.add(place))
    return true
  }

  /** The node has confirmed it, or it was given up. */
  done(id: string, place: number): void {
    const open = this.#open.get(id)
    open?.delete(place)
    if (open?.size === 0) this.#open.delete(id)
  }

  close(): void {
    this.#closed = true
    for (const queue of this.#queues) queue.length = 0
  }

  #send(place: number): void {
    const node = this.#nodes[place]
    while (node !== undefined && (this.#sending[place] ?? 0) < AT_ONCE) {
      const next = this.#queues[place]?.shift()
      if (next === undefined) return
      this.#sending[place] = (this.#sending[place] ?? 0) + 1
      next.attempt++
      const ended = (retry: boolean) => {
        this.#sending[place] = (this.#sending[place] ?? 1) - 1
        if (retry) this.#later(place, next)
        else this.done(idOf(next.key, next.claim), place)
        this.#send(place)
      }
      node.ask(
        'a withdrawal',
        new TimeLimit(this.#clock, this.#timeoutMs, false),
        (store, call) => store.withdraw(next.key, next.claim, call),
        { reply: ({ is }) => ended(is === 'failed') },
      )
    }
  }

  #later(place: number, withdrawal: Withdrawal): void {
    if (this.#closed || this.#clock.monoMs() >= withdrawal.untilMs) {
      this.done(idOf(withdrawal.key, withdrawal.claim), place)
      return
    }
    const longestMs = Math.min(DELAY_MS_MAX, FIRST_DELAY_MS * 2 ** Math.min(withdrawal.attempt - 1, 10))
    const timer = this.#clock.setTimer(longestMs * (1 - this.#random.unit() / 2), () => {
      this.#queues[place]?.push(withdrawal)
      this.#send(place)
    })
    timer.keepAlive(false)
  }
}
