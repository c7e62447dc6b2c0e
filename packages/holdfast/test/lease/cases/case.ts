// Cases of the field as data: each runs against the client, which must pass, and against the naive one, which must fail for
// the reason that the case names. Time is the platform's own, moved by the test runner, so that both run unmodified.
import type { Grant, LeaseStore } from '../../../src/index.js'
import { memoryStore } from '../../../src/stores/memory/index.js'
import { type FaultyStore, faultyStore } from '../../../src/testing/index.js'

/** What a case asks of a lease. */
export interface CaseLease {
  readonly key: string
  readonly token: number
  readonly grant: Grant
  readonly held: boolean
  readonly remainingMs: number
  readonly signal: AbortSignal
  renew(): Promise<void>
  release(): Promise<unknown>
}

export interface CaseOptions {
  ttlMs?: number
  waitMs?: number
  renewEveryMs?: number
  renew?: boolean
  signal?: AbortSignal
}

/** What a case asks of a client. */
export interface CaseClient {
  acquire(key: string, options?: CaseOptions): Promise<CaseLease>
  tryAcquire(key: string, options?: CaseOptions): Promise<CaseLease | null>
  hold<T>(key: string, options: CaseOptions, work: (lease: CaseLease) => T | PromiseLike<T>): Promise<T>
}

export interface ClientCase {
  /** The number of the case: it stands in the test's title. */
  readonly id: `C${string}`
  readonly title: string
  /** What is said of the naive client, and so why it fails. */
  readonly naive: RegExp
  run(stage: Stage): Promise<void>
}

/** What a case plays on: a store behind a network with faults, clients, and time to move. */
export interface Stage {
  client(): CaseClient
  readonly memory: LeaseStore
  readonly net: FaultyStore
  /** Lets time pass for everybody. */
  advance(ms: number): Promise<void>
  /** The host of the clients sleeps: the store's time and the time of day go on, its monotonic clock stands still. */
  sleep(ms: number): void
  /** The outcome of a promise, which must come within so many ms. */
  outcome<T>(promise: Promise<T>, withinMs: number): Promise<Outcome<T>>
}

export type Outcome<T> = { readonly value: T; readonly error?: undefined } | { readonly error: Error }

export interface Time {
  advance(ms: number): Promise<void>
  stepWall(ms: number): void
}

export function makeStage(make: (store: LeaseStore) => CaseClient, time: Time): Stage {
  let sleptMs = 0
  const storeClock = {
    monoMs: () => performance.now() + sleptMs,
    wallMs: () => Date.now(),
    setTimer: () => ({ cancel() {}, keepAlive() {} }),
  }
  const memory = memoryStore({ clock: storeClock })
  const net = faultyStore(memory)
  return {
    client: () => make(net),
    memory,
    net,
    advance: time.advance,
    sleep(ms) {
      sleptMs += ms
      time.stepWall(ms)
    },
    async outcome<T>(promise: Promise<T>, withinMs: number) {
      let settled: Outcome<T> | undefined
      promise.then(
        (value) => {
          settled = { value }
        },
        (error) => {
          settled = { error }
        },
      )
      for (let passedMs = 0; settled === undefined && passedMs < withinMs; passedMs += 10) await time.advance(10)
      return settled ?? fail(`no answer within ${withinMs} ms`)
    },
  }
}

/** The case has failed, and this is why. */
export function fail(why: string): never {
  throw new Error(why)
}

export function check(condition: unknown, why: string): asserts condition {
  if (!condition) fail(why)
}
