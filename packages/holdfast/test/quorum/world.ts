// A few servers, and clients that each reach them over a network of their own, in virtual time.
import { expect } from 'vitest'
import type { AcquireRequest, CallOptions, Granted, Held, LeaseRecord, LeaseStore } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { type QuorumStoreOptions, quorumStore } from '../../src/stores/quorum/index.js'
import { type FaultyStore, faultyStore, seededRandom, VirtualClock } from '../../src/testing/index.js'
import { withoutTimeouts } from '../lease/world.js'

/** How a quorum is made out of its nodes: the real one, or a naive one that must fail. */
export type MakeQuorum = (stores: readonly LeaseStore[], options: QuorumStoreOptions) => LeaseStore

export const TTL_MS = 10_000
export const NODE_TIMEOUT_MS = 100

/** One server: what it keeps can be lost. */
export class Server {
  readonly id: string
  readonly #clock: VirtualClock
  #inner: LeaseStore
  #bornMs: number

  constructor(id: string, clock: VirtualClock) {
    this.id = id
    this.#clock = clock
    this.#inner = memoryStore({ clock })
    this.#bornMs = clock.monoMs() - 10 * TTL_MS
  }

  /** It stops and starts again without its data. */
  restartEmpty(): void {
    this.#inner = memoryStore({ clock: this.#clock })
    this.#bornMs = this.#clock.monoMs()
  }

  /** A connection to it. */
  connect(): LeaseStore {
    const inner = () => this.#inner
    return {
      name: this.id,
      contract: 1,
      capabilities: inner().capabilities,
      acquire: (request) => inner().acquire(request),
      renew: (leases) => inner().renew(leases),
      release: (grant) => inner().release(grant),
      withdraw: (key, claim) => inner().withdraw(key, claim),
      inspect: (key) => inner().inspect(key),
      list: (options) => inner().list(options),
      revoke: (key, options) => inner().revoke(key, options),
      close: async () => {},
      serverId: async () => this.id,
      keptForMs: async () => this.#clock.monoMs() - this.#bornMs,
    }
  }

  inspect(key = 'k'): Promise<LeaseRecord | null> {
    return this.#inner.inspect(key)
  }

  /** The claim that holds the key here. */
  async holder(key = 'k'): Promise<string | undefined> {
    const record = await this.inspect(key)
    return record?.state === 'held' ? record.claim : undefined
  }
}

export interface ClientOptions extends QuorumStoreOptions {
  /** Whether what was given up is answered all the same, late. Default: the connection is given up with it. */
  answersLate?: boolean
}

/** One process: a connection to each server, each with faults of its own, and the quorum over them. */
export class Client {
  readonly to: readonly FaultyStore[]
  readonly store: LeaseStore
  readonly #clock: VirtualClock

  constructor(servers: readonly Server[], clock: VirtualClock, make: MakeQuorum, given: ClientOptions) {
    const { answersLate = false, ...options } = given
    this.#clock = clock
    this.to = servers.map((server) => faultyStore(server.connect(), { clock }))
    this.store = make(answersLate ? this.to.map(withoutTimeouts) : this.to, {
      clock,
      nodeTimeoutMs: NODE_TIMEOUT_MS,
      closeStores: false,
      ...options,
    })
  }

  request(claim: string, over: Partial<AcquireRequest> = {}): AcquireRequest {
    return { key: 'k', claim, holder: `holder of ${claim}`, ttlMs: TTL_MS, ...over }
  }

  /** Asks, and lets time pass until there is an answer: gives it with how long it took. Errors are answers too. */
  async ask<T>(answer: Promise<T>): Promise<{ answer: T | Error; tookMs: number }> {
    const startMs = this.#clock.monoMs()
    const either = answer.catch((error: Error) => error)
    const got = await this.#clock.advanceUntil(either)
    return { answer: got, tookMs: this.#clock.monoMs() - startMs }
  }

  async acquire(
    claim: string,
    over: Partial<AcquireRequest> = {},
    call?: CallOptions,
  ): Promise<Granted | Held | Error> {
    return (await this.ask(this.store.acquire(this.request(claim, over), call))).answer
  }

  async granted(claim: string, over: Partial<AcquireRequest> = {}): Promise<Granted> {
    const answer = await this.acquire(claim, over)
    if (answer instanceof Error || answer.is !== 'granted') throw new Error(`not granted: ${show(answer)}`)
    return answer
  }

  async renewed(claim: string): Promise<string> {
    const { answer } = await this.ask(this.store.renew([{ key: 'k', claim, ttlMs: TTL_MS }]))
    if (answer instanceof Error) throw answer
    const outcome = answer[0]
    return outcome?.is === 'lost' ? `lost: ${outcome.reason}` : (outcome?.is ?? 'nothing')
  }

  async released(claim: string): Promise<string> {
    const grant = { key: 'k', claim, token: 1, holder: claim }
    const { answer } = await this.ask(this.store.release(grant))
    if (answer instanceof Error) throw answer
    return answer.is === 'lost' ? `lost: ${answer.reason}` : answer.is
  }

  /** Cuts the connection to these servers: requests stay on their way. */
  cut(...places: number[]): void {
    for (const place of places) this.to[place]?.hang()
  }

  heal(...places: number[]): void {
    for (const place of places) this.to[place]?.heal()
  }
}

export const show = (value: unknown) =>
  value instanceof Error ? `${value.name}: ${value.message}` : JSON.stringify(value)

/** Servers and clients that share one clock. */
export function world(nodes: number, make: MakeQuorum = quorumStore, options: QuorumStoreOptions = {}) {
  const clock = new VirtualClock()
  const servers = Array.from({ length: nodes }, (_, i) => new Server(`server ${i}`, clock))
  let clients = 0
  const client = (over: ClientOptions & { places?: readonly number[] } = {}) => {
    const { places = servers.map((_, i) => i), ...given } = over
    const reached = places.flatMap((place) => servers[place] ?? [])
    return new Client(reached, clock, make, { random: seededRandom(++clients), ...options, ...given })
  }
  const holders = async () => Promise.all(servers.map((server) => server.holder()))
  /** Which claims a majority of the servers keeps. */
  const majorityHolds = async () => {
    const all = await holders()
    const claims = [...new Set(all)].filter((claim) => claim !== undefined)
    return claims.filter((claim) => all.filter((other) => other === claim).length > nodes / 2)
  }
  return { clock, servers, client, holders, majorityHolds }
}

/** The token that a server knows. */
export async function tokenAt(server: Server | undefined): Promise<number | undefined> {
  return (await server?.inspect())?.token
}

export const isGranted = (answer: Granted | Held | Error): answer is Granted =>
  !(answer instanceof Error) && answer.is === 'granted'

export const expectStoreError = (answer: unknown, outcome: 'none' | 'unknown') =>
  expect(answer).toMatchObject({ code: 'STORE_ERROR', outcome })
