// One node of a quorum: a store that may be slow, hung, or the same server as another node under a second name. Whatever it
// does becomes a reply in bounded time; what it says after that is still heard, since it is as true as any.
import type { Clock } from '../../lease/clock.js'
import { HoldfastError, InvalidArgumentError, StoreError } from '../../lease/errors.js'
import type { CallOptions, LeaseStore } from '../../store/contract.js'

/** What a node said, or why it said nothing. A StoreError tells by its outcome whether the request may have been applied. */
export type Reply<T> =
  | { readonly is: 'answer'; readonly answer: T }
  | { readonly is: 'failed'; readonly error: HoldfastError }

/** Who hears of a node's reply. */
export interface Listener<T> {
  /** Once, in time: the answer, or that it failed or took too long. */
  reply(reply: Reply<T>): void
  /** What came after the time-out. */
  late?(reply: Reply<T>): void
}

/** Whether a failed request may have been applied, or may still be on its way. */
export const isUnknown = (error: HoldfastError): boolean => error instanceof StoreError && error.outcome === 'unknown'

/** What the nodes of one quorum have said of themselves. */
export class Servers {
  readonly #nodes = new Map<string, number>()
  /** Two nodes are one server: from then on nothing is asked any more. */
  doubled: InvalidArgumentError | undefined

  /** Notes who a node is. Throws when another node is the same server: its vote would count twice (C35). */
  note(place: number, id: string): void {
    const other = this.#nodes.get(id)
    if (other !== undefined && other !== place) {
      this.doubled = new InvalidArgumentError(
        `stores[${Math.max(place, other)}]`,
        id,
        `must be another server than stores[${Math.min(place, other)}]: a server that is counted twice makes no majority`,
      )
      throw this.doubled
    }
    this.#nodes.set(id, place)
  }
}

export class Node {
  readonly store: LeaseStore
  /** Its place in the list of stores. */
  readonly place: number
  readonly #clock: Clock
  readonly #servers: Servers
  /** Whether it is known to be a server of its own. A node that cannot tell is taken at its word. */
  #known: boolean

  constructor(store: LeaseStore, place: number, clock: Clock, servers: Servers) {
    this.store = store
    this.place = place
    this.#clock = clock
    this.#servers = servers
    this.#known = store.serverId === undefined
  }

  get label(): string {
    return `node ${this.place} (${this.store.name})`
  }

  /** Sends one request, for at most `timeoutMs`. Never throws. */
  ask<T>(
    what: string,
    timeoutMs: number,
    send: (store: LeaseStore, call: CallOptions) => Promise<T>,
    listener: Listener<T>,
    keepAlive = true,
  ): void {
    let over = false
    const timer = this.#clock.setTimer(timeoutMs, () => {
      over = true
      const error = new StoreError(`${this.label} did not answer ${what} within ${Math.round(timeoutMs)} ms`, {
        outcome: 'unknown',
      })
      listener.reply({ is: 'failed', error })
    })
    if (!keepAlive) timer.keepAlive(false)
    const settle = (reply: Reply<T>) => {
      timer.cancel()
      if (over) listener.late?.(reply)
      else listener.reply(reply)
    }
    this.#send(send, { timeoutMs }).then(
      (answer) => settle({ is: 'answer', answer }),
      (thrown) => settle({ is: 'failed', error: this.#asError(what, thrown) }),
    )
  }

  /** A node has no say before it is known who it is: its first request waits for that. */
  #send<T>(send: (store: LeaseStore, call: CallOptions) => Promise<T>, call: CallOptions): Promise<T> {
    try {
      return this.#known ? send(this.store, call) : this.#identify(call).then(() => send(this.store, call))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async #identify(call: CallOptions): Promise<void> {
    let id: string | undefined
    try {
      id = await this.store.serverId?.(call)
    } catch (cause) {
      throw new StoreError(`${this.label} does not say which server it is`, { outcome: 'none', cause })
    }
    if (id !== undefined) this.#servers.note(this.place, id)
    this.#known = true
  }

  /** What a store throws that is not of the family tells nothing about what became of the request. */
  #asError(what: string, thrown: unknown): HoldfastError {
    if (thrown instanceof HoldfastError) return thrown
    const text = thrown instanceof Error ? thrown.message : String(thrown)
    return new StoreError(`${this.label} failed to answer ${what}: ${text}`, { outcome: 'unknown', cause: thrown })
  }
}
