// A store with the habits of the locks that people write: the right steps, of which any may be replaced by a wrong one. The
// cases of the suite are proved on it, since a case that no wrong store fails proves nothing.
import type { Clock } from '../../src/lease/clock.js'
import { StoreError } from '../../src/lease/errors.js'
import type { LeaseRecord, LeaseStore, RenewOutcome, RenewRequest, Turn } from '../../src/store/contract.js'
import * as right from '../../src/store/protocol.js'
import { memoryCapabilities } from '../../src/stores/memory/index.js'
import { type ConformanceTarget, VirtualClock } from '../../src/testing/index.js'

/** What a store does, step by step. Each field may be a bad habit. */
export interface Habits {
  acquire: typeof right.acquire
  renew: typeof right.renew
  release: typeof right.release
  withdraw: typeof right.withdraw
  revoke: typeof right.revoke
  record: typeof right.record
  mayBeFree: typeof right.mayBeFree
  nextToken: right.Rules['nextToken']
  /** What is found when a key is read: here an expiry may do more than expire. */
  read(state: right.KeyState, nowMs: number): right.KeyState
  /** What `list` leaves behind. */
  list(state: right.KeyState, nowMs: number): right.KeyState
  /** The name under which a key is kept. */
  nameOf(key: string): string
  /** Names of its own that a store takes when it grants a key. */
  namesBeside(key: string): string[]
  /** Whether it writes in another step than it looks. */
  looksThenWrites: boolean
  /** Whether two handles see one data. */
  shared: boolean
  renewMany(
    leases: readonly RenewRequest[],
    renewOne: (lease: RenewRequest) => Promise<RenewOutcome>,
  ): Promise<RenewOutcome[]>
  isUnder(prefix: string, key: string): boolean
  order(a: string, b: string): number
  /** What of an answer reaches the caller. */
  answer(value: object): object
  /** What a free key may lose when it is pruned, and what is kept of all keys that were. */
  isForgettable: typeof right.isForgettable
  tokenAfterPruning(token: number): number
  /** Whether a watcher of a key that may be free hears so at the start. */
  hintsAtStart: boolean
  /** Whether a change wakes this watcher; `wake` is empty for anybody. */
  isHintFor(wake: string, claim: string, verb: string): boolean
  watchEnds: 'at abort or close' | 'at abort' | 'never'
  /** What a call to a closed store is answered with; undefined: it goes on working. */
  closedError(): Error | undefined
  closesOnce: boolean
  /** What an acquire whose signal has aborted does. */
  aborted: 'acquires' | 'throws the reason' | 'acquires, then says none'
}

export const goodHabits: Habits = {
  ...right,
  nextToken: right.counterToken,
  read: (state) => state,
  list: (state) => state,
  nameOf: (key) => key,
  namesBeside: () => [],
  looksThenWrites: false,
  shared: true,
  renewMany: (leases, renewOne) => Promise.all(leases.map(renewOne)),
  isUnder: (prefix, key) => key.startsWith(prefix),
  order: (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)),
  answer: (value) => value,
  tokenAfterPruning: (token) => token,
  hintsAtStart: true,
  isHintFor: (wake, claim) => wake === '' || wake === claim,
  watchEnds: 'at abort or close',
  closedError: () => new StoreError('closed', { outcome: 'none' }),
  closesOnce: false,
  aborted: 'acquires',
}

interface Data {
  readonly states: Map<string, right.KeyState>
  readonly watchers: Set<{ readonly name: string; readonly claim: string; hint(told?: number): void }>
  prunedToken: number
}

const emptyData = (): Data => ({ states: new Map(), watchers: new Set(), prunedToken: 0 })

/** A target for the suite: a store with these habits, in virtual time. */
export function naiveTarget(habits: Habits): ConformanceTarget {
  const clock = new VirtualClock()
  const data = emptyData()
  return {
    store: naiveStore(habits, clock, data),
    passMs: (ms) => clock.advance(ms),
    open: () => naiveStore(habits, clock, habits.shared ? data : emptyData()),
    prune() {
      for (const [name, state] of data.states) {
        if (!habits.isForgettable(state, clock.monoMs())) continue
        data.prunedToken = Math.max(data.prunedToken, habits.tokenAfterPruning(state.token))
        data.states.delete(name)
      }
    },
  }
}

function naiveStore(habits: Habits, clock: Clock, data: Data): LeaseStore {
  const rules: right.Rules = {
    nextToken: habits.nextToken,
    endedRetentionMs: right.ENDED_RETENTION_MS,
    tellsTurns: true,
  }
  const closing = new AbortController()
  let closed = false

  const read = (name: string) =>
    habits.read(data.states.get(name) ?? right.unknownKey(data.prunedToken), clock.monoMs())

  async function step<Answer>(
    verb: string,
    key: string,
    run: (state: right.KeyState, nowMs: number) => right.Step<Answer>,
  ): Promise<Answer> {
    const error = closed ? habits.closedError() : undefined
    if (error !== undefined) throw error
    const name = habits.nameOf(key)
    const { state, answer, wake, told } = run(read(name), clock.monoMs())
    if (habits.looksThenWrites) await Promise.resolve()
    data.states.set(name, state)
    for (const watcher of data.watchers) {
      if (wake !== undefined && watcher.name === name && habits.isHintFor(wake, watcher.claim, verb)) watcher.hint(told)
    }
    return (typeof answer === 'object' && answer !== null ? habits.answer(answer) : answer) as Answer
  }

  return {
    name: 'naive',
    contract: 1,
    capabilities: memoryCapabilities,
    async acquire(request, call) {
      const aborted = call?.signal?.aborted === true
      if (aborted && habits.aborted === 'throws the reason') throw call.signal?.reason
      const answer = await step('acquire', request.key, (state, nowMs) => habits.acquire(state, request, nowMs, rules))
      if (answer.is === 'granted') for (const name of habits.namesBeside(request.key)) data.states.set(name, taken)
      if (aborted && habits.aborted !== 'acquires') throw new StoreError('aborted', { outcome: 'none' })
      return answer
    },
    renew: (leases) =>
      habits.renewMany(leases, ({ key, claim, ttlMs }) =>
        step('renew', key, (state, nowMs) => habits.renew(state, claim, ttlMs, nowMs)),
      ),
    release: ({ key, claim }) => step('release', key, (state, nowMs) => habits.release(state, claim, nowMs, rules)),
    withdraw: (key, claim) => step('withdraw', key, (state, nowMs) => habits.withdraw(state, claim, nowMs, rules)),
    inspect: (key) => step('inspect', key, (state, nowMs) => ({ state, answer: habits.record(key, state, nowMs) })),
    async *list({ prefix = '', free = false } = {}) {
      const error = closed ? habits.closedError() : undefined
      if (error !== undefined) throw error
      const keys = [...data.states.keys()].filter((key) => habits.isUnder(prefix, key)).sort(habits.order)
      for (const key of keys) {
        data.states.set(key, habits.list(read(key), clock.monoMs()))
        const record = habits.record(key, read(key), clock.monoMs())
        const listed = record !== null && (free || record.state === 'held' || record.waiters.length > 0)
        if (listed) yield habits.answer(record) as LeaseRecord
      }
    },
    revoke: (key, { force = false } = {}) =>
      step<LeaseRecord | null>('revoke', key, (state, nowMs) => {
        const next = habits.revoke(state, force, nowMs, rules)
        return { ...next, answer: next.answer ? habits.record(key, state, nowMs) : null }
      }),
    watch(key, { claim, signal }) {
      const ends = habits.watchEnds === 'at abort or close' ? [signal, closing.signal] : [signal]
      const hints = new Hints(habits.nameOf(key), claim, habits.watchEnds === 'never' ? [] : ends)
      data.watchers.add(hints)
      if (habits.hintsAtStart && habits.mayBeFree(read(hints.name), claim, clock.monoMs())) hints.hint()
      return hints.run()
    },
    async close() {
      if (closed && habits.closesOnce) throw new TypeError('cannot close what is closed')
      closed = true
      closing.abort()
    },
  }
}

/** What a store keeps under a name of its own: to whoever takes the name for a key, it is held for ever. */
const taken: right.KeyState = { ...right.unknownKey(1), claim: 'own', changes: 1, expiresMs: Number.MAX_VALUE }

class Hints {
  #pending = false
  #turn: Turn | undefined
  #wake = () => {}

  constructor(
    readonly name: string,
    readonly claim: string,
    private readonly ends: readonly AbortSignal[],
  ) {}

  hint(told?: number): void {
    this.#pending = true
    if (told !== undefined) this.#turn = { token: told }
    this.#wake()
  }

  async *run(): AsyncGenerator<Turn | undefined> {
    for (const signal of this.ends) signal.addEventListener('abort', () => this.#wake())
    while (!this.ends.some((signal) => signal.aborted)) {
      if (this.#pending) {
        const turn = this.#turn
        this.#pending = false
        this.#turn = undefined
        yield turn
      } else
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
    }
  }
}
