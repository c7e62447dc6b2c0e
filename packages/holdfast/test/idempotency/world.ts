// The stage of the tests of `once`: virtual time, records in memory behind a network that can lose requests and replies.

import type { Records } from '../../src/idempotency/contract.js'
import { fingerprintOf, type OnceOptions, once, type RunInfo } from '../../src/idempotency/index.js'
import { StoreError } from '../../src/index.js'
import { memoryRecords } from '../../src/stores/memory/index.js'
import { seededRandom, VirtualClock } from '../../src/testing/index.js'

export type Verb = 'begin' | 'extend' | 'finish' | 'withdraw'
/** What the network does to one call. */
export type Fate = 'passes' | 'request lost' | 'reply lost' | 'refused'

export interface World {
  readonly clock: VirtualClock
  /** The records themselves. */
  readonly memory: Records
  /** The same behind the network. */
  readonly net: Records
  /** What happens to the calls to come; default: all pass. */
  fate: (verb: Verb, call: number) => Fate
  /** How often each verb was sent. */
  readonly sent: Record<Verb, number>
  run<T>(work: (run: RunInfo) => T | Promise<T>, options?: Partial<OnceOptions<T>>): Promise<T>
}

export const KEY = 'tenant-1:pay:1'
export const FINGERPRINT = fingerprintOf({ amount: 100 })

export function setUp(): World {
  const clock = new VirtualClock()
  const memory = memoryRecords({ clock })
  const sent = { begin: 0, extend: 0, finish: 0, withdraw: 0 }
  async function through<T>(verb: Verb, ask: () => Promise<T>): Promise<T> {
    const fate = world.fate(verb, ++sent[verb])
    if (fate === 'refused') throw new StoreError('the server refused', { outcome: 'none' })
    if (fate === 'request lost') return await new Promise<T>(() => {})
    const answer = await ask()
    return fate === 'passes' ? answer : await new Promise<T>(() => {})
  }
  const net: Records = {
    ...memory,
    begin: (request) => through('begin', () => memory.begin(request)),
    extend: (run, ttlMs, retentionMs) => through('extend', () => memory.extend(run, ttlMs, retentionMs)),
    finish: (run, end, retentionMs) => through('finish', () => memory.finish(run, end, retentionMs)),
    withdraw: (run) => through('withdraw', () => memory.withdraw(run)),
  }
  const random = seededRandom(1)
  const world: World = {
    clock,
    memory,
    net,
    fate: () => 'passes',
    sent,
    run: (work, options) => once(net, { key: KEY, fingerprint: FINGERPRINT, clock, random, ...options }, work),
  }
  return world
}

/** How a promise ended, looked at without waiting for it. */
export function watched<T>(promise: Promise<T>): { state: 'pending' | 'done' | 'failed'; value?: T; error?: unknown } {
  const seen: { state: 'pending' | 'done' | 'failed'; value?: T; error?: unknown } = { state: 'pending' }
  promise.then(
    (value) => Object.assign(seen, { state: 'done', value }),
    (error) => Object.assign(seen, { state: 'failed', error }),
  )
  return seen
}

/** Work that ends when it is told to. */
export function held<T>(): {
  work: (run: RunInfo) => Promise<T>
  end: (value: T) => void
  fail: (error: unknown) => void
  runs: RunInfo[]
} {
  const runs: RunInfo[] = []
  let end: (value: T) => void = () => {}
  let fail: (error: unknown) => void = () => {}
  const ended = new Promise<T>((resolve, reject) => {
    end = resolve
    fail = reject
  })
  const work = (run: RunInfo) => {
    runs.push(run)
    return ended
  }
  return { work, end, fail, runs }
}
