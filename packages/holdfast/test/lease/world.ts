// The stage of the client's tests: virtual time, a memory store behind a network with faults, and clients that share it.
import { createLeases, type Lease, type LeaseEvent, type LeaseStore, type Leases } from '../../src/index.js'
import type { ClientOptions } from '../../src/lease/options.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { type FaultyStore, faultyStore, seededRandom, VirtualClock } from '../../src/testing/index.js'

export interface World {
  readonly clock: VirtualClock
  /** The store itself, to look at it and to disturb it. */
  readonly memory: LeaseStore
  /** The same store behind the network that the clients use. */
  readonly net: FaultyStore
  /** A client: another process, as far as the store can tell. All events go to `events`. */
  client(options?: Partial<ClientOptions>): Leases
  readonly events: LeaseEvent[]
  eventsOf<Type extends LeaseEvent['type']>(type: Type): Extract<LeaseEvent, { type: Type }>[]
  /** Who holds a key by the store, as the holder's label; undefined when nobody does. */
  holder(key: string): Promise<string | undefined>
}

export interface WorldOptions {
  /** Whether the store can order its waiters. Default true. */
  fair?: boolean
  /** Whether the network gives up at the client's time-out. Default true; false lets answers come late. */
  givesUp?: boolean
}

export function setUp({ fair = true, givesUp = true }: WorldOptions = {}): World {
  const clock = new VirtualClock()
  const memory = memoryStore({ clock })
  const behind: LeaseStore = { ...memory, capabilities: { ...memory.capabilities, fair } }
  const net = faultyStore(behind, { clock })
  const store = givesUp ? net : withoutTimeouts(net)
  const events: LeaseEvent[] = []
  let clients = 0
  return {
    clock,
    memory,
    net,
    events,
    client: (options) => {
      clients++
      return createLeases({
        store,
        clock,
        random: seededRandom(clients),
        holder: `process-${clients}`,
        closeStore: false,
        onEvent: (event) => events.push(event),
        ...options,
      })
    },
    eventsOf: <Type extends LeaseEvent['type']>(type: Type) =>
      events.filter((event): event is Extract<LeaseEvent, { type: Type }> => event.type === type),
    holder: async (key) => {
      const record = await memory.inspect(key)
      return record?.state === 'held' ? record.holder : undefined
    },
  }
}

/** A store that goes on when its caller has given up: its answers come late instead of never. */
export function withoutTimeouts(store: LeaseStore): LeaseStore {
  return {
    ...store,
    acquire: (request) => store.acquire(request),
    renew: (leases) => store.renew(leases),
    release: (grant) => store.release(grant),
    withdraw: (key, claim) => store.withdraw(key, claim),
  }
}

export interface Tracked<T> {
  readonly is: () => 'waiting' | 'resolved' | 'rejected'
  readonly value: () => T
  readonly error: () => unknown
}

/** What has become of a promise, to be looked at while time is moved by hand. */
export function track<T>(promise: Promise<T>): Tracked<T> {
  let state: 'waiting' | 'resolved' | 'rejected' = 'waiting'
  let value: T | undefined
  let error: unknown
  promise.then(
    (given) => {
      state = 'resolved'
      value = given
    },
    (thrown) => {
      state = 'rejected'
      error = thrown
    },
  )
  return {
    is: () => state,
    value: () => {
      if (state !== 'resolved') throw new Error(`the promise is ${state}, not resolved: ${String(error)}`)
      return value as T
    },
    error: () => {
      if (state !== 'rejected') throw new Error(`the promise is ${state}, not rejected`)
      return error
    },
  }
}

/** A promise, and the ways to settle it. */
export function gate<T = void>(): { promise: Promise<T>; open: (value: T) => void; fail: (error: unknown) => void } {
  let open: (value: T) => void = () => {}
  let fail: (error: unknown) => void = () => {}
  const promise = new Promise<T>((resolve, reject) => {
    open = resolve
    fail = reject
  })
  return { promise, open, fail }
}

/** Counts the abort events of a lease, and keeps the time and the reason of the first. */
export function watchSignal(
  lease: Pick<Lease, 'signal'>,
  clock: VirtualClock,
): { aborts: number; atMs: number; reason: unknown } {
  const seen = { aborts: 0, atMs: Number.NaN, reason: undefined as unknown }
  const { signal } = lease
  signal.addEventListener('abort', () => {
    seen.aborts++
    if (seen.aborts > 1) return
    seen.atMs = clock.monoMs()
    seen.reason = signal.reason
  })
  return seen
}
