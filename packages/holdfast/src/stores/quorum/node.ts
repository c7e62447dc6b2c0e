// One node of a quorum: a store that may be slow, hung, or the same server as another node under a second name. Whatever it
// does becomes a reply in bounded time; what it says after that is still heard, since it is as true as any.
import type { Clock, Timer } from '../../lease/clock.js'
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

/** The time that nodes have for what is asked of them at once: one timer, since one for each node would be ten for a lease. */
export class TimeLimit {
  readonly ms: number
  readonly #clock: Clock
  readonly #keepAlive: boolean
  readonly #open = new Set<() => void>()
  #timer: Timer | undefined

  /** `keepAlive`: whether the process must stay alive until then. */
  constructor(clock: Clock, ms: number, keepAlive = true) {
    this.ms = ms
    this.#clock = clock
    this.#keepAlive = keepAlive
  }

  /** Calls it when the time is over, unless it has ended by then. */
  begin(onTime: () => void): void {
    this.#open.add(onTime)
    if (this.#timer !== undefined) return
    this.#timer = this.#clock.setTimer(this.ms, () => {
      const late = [...this.#open]
      this.#open.clear()
      for (const over of late) over()
    })
    if (!this.#keepAlive) this.#timer.keepAlive(false)
  }

  end(onTime: () => void): void {
    if (!this.#open.delete(onTime) || this.#open.size > 0) return
    this.#timer?.cancel()
    this.#timer = undefined
  }
}

/** What the nodes of one quorum have said of themselves. */
export class Servers {
  readonly #ids = new Map<number, string>()
  /** Two nodes are one server: from then on nothing is asked any more. */
  doubled: InvalidArgumentError | undefined

  /** Notes who a node is. Throws when another node is the same server: its vote would count twice (C35). */
  note(place: number, id: string): void {
    const isNew = !this.#ids.has(place)
    const other = [...this.#ids].find(([one, known]) => known === id && one !== place)?.[0]
    if (other === undefined) {
      this.#ids.set(place, id)
      return
    }
    if (!isNew)
      throw new StoreError(
        `node ${place} leads to the server of node ${other} now, and has no vote: see where its address leads, or take it out`,
        { outcome: 'none' },
      )
    this.doubled = new InvalidArgumentError(
      `stores[${Math.max(place, other)}]`,
      id,
      `must be another server than stores[${Math.min(place, other)}], and no replica of it: a server that is counted twice makes no majority`,
    )
    throw this.doubled
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
  /** How often it has said so. */
  #identities = 0
  #identifying: Promise<void> | undefined
  /** How many requests it has neither answered nor let run out of time. */
  #underWay = 0
  readonly #onIdle: (() => void)[] = []

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

  /** Sends one request, and waits no longer than the limit. Never throws. */
  ask<T>(
    what: string,
    limit: TimeLimit,
    send: (store: LeaseStore, call: CallOptions) => Promise<T>,
    listener: Listener<T>,
  ): void {
    let over = false
    let sent = false
    const known = this.#identities
    const onTime = () => {
      over = true
      this.#failed(known)
      const text = `${this.label} did not answer ${what} within ${Math.round(limit.ms)} ms`
      listener.reply({ is: 'failed', error: new StoreError(text, { outcome: sent ? 'unknown' : 'none' }) })
      this.#ended()
    }
    this.#underWay++
    limit.begin(onTime)
    const settle = (reply: Reply<T>) => {
      limit.end(onTime)
      if (!over) {
        if (reply.is === 'failed' && isTrouble(reply.error)) this.#failed(known)
        listener.reply(reply)
        this.#ended()
      } else if (sent) listener.late?.(reply)
    }
    const call = { timeoutMs: limit.ms }
    const go = (): Promise<T> => {
      if (over) return Promise.reject(new Error('too late to be sent'))
      sent = true
      return send(this.store, call)
    }
    this.#when(go, call).then(
      (answer) => settle({ is: 'answer', answer }),
      (thrown) => settle({ is: 'failed', error: this.#asError(what, thrown) }),
    )
  }

  /** Resolves when nothing that was asked is under way any more. */
  idle(): Promise<void> {
    return this.#underWay === 0 ? Promise.resolve() : new Promise((resolve) => this.#onIdle.push(resolve))
  }

  #ended(): void {
    this.#underWay--
    if (this.#underWay === 0) for (const idle of this.#onIdle.splice(0)) idle()
  }

  /** A node has no say before it is known which server it is: what it is asked waits for that. */
  #when<T>(go: () => Promise<T>, call: CallOptions): Promise<T> {
    try {
      return this.#known ? go() : this.#identified(call).then(go)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * After a failure it may be another server, so it is asked anew; and since everything else waits for that, a node that hangs
   * is sent one question at a time, not all that is going on. Not when it has been asked since the request began.
   */
  #failed(identities: number): void {
    if (identities === this.#identities) this.#known = this.store.serverId === undefined
  }

  #identified(call: CallOptions): Promise<void> {
    if (this.#identifying !== undefined) return this.#identifying
    const limit = new TimeLimit(this.#clock, call.timeoutMs ?? 0, false)
    const ended = () => {
      if (this.#identifying === identifying) this.#identifying = undefined
    }
    const identifying = this.#identify(call).finally(() => {
      limit.end(ended)
      ended()
    })
    this.#identifying = identifying
    limit.begin(ended) // its answer may be lost
    return identifying
  }

  async #identify(call: CallOptions): Promise<void> {
    let id: string | undefined
    try {
      id = await this.store.serverId?.(call)
    } catch (cause) {
      throw new StoreError(`${this.label} does not say which server it is: ${messageOf(cause)}`, {
        outcome: 'none',
        lasting: cause instanceof StoreError && cause.lasting,
        cause,
      })
    }
    if (id !== undefined) this.#servers.note(this.place, id)
    this.#known = true
    this.#identities++
  }

  /** What a store throws that is not of the family tells nothing about what became of the request. */
  #asError(what: string, thrown: unknown): HoldfastError {
    if (thrown instanceof HoldfastError) return thrown
    const text = `${this.label} failed to answer ${what}: ${messageOf(thrown)}`
    return new StoreError(text, { outcome: 'unknown', cause: thrown })
  }
}

/** Trouble with the node, not with what it was asked. */
const isTrouble = (error: HoldfastError): boolean => error instanceof StoreError

const messageOf = (thrown: unknown) => (thrown instanceof Error ? thrown.message : String(thrown))
