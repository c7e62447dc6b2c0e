// Healing is never urgent, and a node that came back empty must not be met by ten thousand leases at once: a few at a time.
import type { Clock } from '../../lease/clock.js'
import type { CallOptions, Granted, Held, LeaseStore } from '../../store/contract.js'
import { type Node, type Reply, TimeLimit } from './node.js'

const AT_ONCE = 16

/** One lease to give back to a node. */
export interface Heal {
  readonly timeoutMs: number
  send(store: LeaseStore, call: CallOptions): Promise<Granted | Held>
  arrived(reply: Reply<Granted | Held>): void
}

export class Healing {
  readonly #nodes: readonly Node[]
  readonly #clock: Clock
  readonly #queues: (() => Heal | undefined)[][]
  readonly #sending: number[]

  constructor(nodes: readonly Node[], clock: Clock) {
    this.#nodes = nodes
    this.#clock = clock
    this.#queues = nodes.map(() => [])
    this.#sending = nodes.map(() => 0)
  }

  /** `prepare` is called when it is its turn: it gives undefined when the lease must not be given back any more. */
  add(place: number, prepare: () => Heal | undefined): void {
    this.#queues[place]?.push(prepare)
    this.#send(place)
  }

  #send(place: number): void {
    const node = this.#nodes[place]
    while (node !== undefined && (this.#sending[place] ?? 0) < AT_ONCE) {
      const prepare = this.#queues[place]?.shift()
      if (prepare === undefined) return
      const heal = prepare()
      if (heal === undefined) continue
      this.#sending[place] = (this.#sending[place] ?? 0) + 1
      const reply = (answer: Reply<Granted | Held>) => {
        heal.arrived(answer)
        this.#sending[place] = (this.#sending[place] ?? 1) - 1
        this.#send(place)
      }
      const late = (answer: Reply<Granted | Held>) => heal.arrived(answer)
      node.ask(
        'a healing',
        new TimeLimit(this.#clock, heal.timeoutMs, false),
        (store, call) => heal.send(store, call),
        { reply, late },
      )
    }
  }
}
