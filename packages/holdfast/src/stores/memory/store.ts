// The reference store: the protocol's states in a Map, under a clock that the caller may move by hand. One process only.
// It is what unit tests of users run on, and what the simulation puts behind a hostile network.
import { type Clock, systemClock } from '../../lease/clock.js'
import { ClosedError, StoreError } from '../../lease/errors.js'
import { byText, KEY_BYTES_MAX } from '../../lease/keys.js'
import { systemRandom } from '../../lease/random.js'
import type { LeaseRecord, LeaseStore, StoreCapabilities, Turn } from '../../store/contract.js'
import * as protocol from '../../store/protocol.js'

/** How a memory store is set up. */
export interface MemoryStoreOptions {
  /** Whose monotonic clock decides expiry. Default: this machine's. */
  clock?: Clock
  /** How long a withdrawn claim is remembered, in ms. Default 60,000, or two ttls of the key when those are longer. */
  endedRetentionMs?: number
  /** After how many ms a key that is free is forgotten (its token goes on rising). Default: 24 hours. */
  retentionMs?: number
}

/** A store in this process's memory. */
export interface MemoryStore extends LeaseStore {
  /** A name of its own: a quorum refuses two nodes that are one. */
  serverId(): Promise<string>
  /** Forgets free keys last used more than `olderThanMs` ago (default: the retention). Gives how many. Tokens go on rising (G2). */
  prune(options?: { olderThanMs?: number }): number
}

/** What a memory store can do and promise, as data. */
export const memoryCapabilities: StoreCapabilities = {
  clock: 'injected',
  tokens: 'counter',
  holdSurvives: ['client restart'],
  tokensSurvive: ['pruning'],
  ttlMsMin: 1,
  ttlMsGrain: 1,
  wakeUp: 'push',
  fair: true,
  tellsTurns: true,
  tokenFloor: true,
  keyBytesMax: KEY_BYTES_MAX,
}

const DAY_MS = 86_400_000

/** After this many grants the store looks for keys to forget: the cost is shared out over the grants. */
const GRANTS_PER_PRUNE = 10_000

/**
 * A store that keeps leases in memory: for tests, for one process, and as the reference of what a store must do (G1 to G4, G6,
 * G11 hold within the process; nothing outlives it).
 *
 * @example
 * ```ts
 * const leases = createLeases({ store: memoryStore() })
 * await leases.hold('report', ({ signal }) => writeReport(signal))
 * ```
 */
export function memoryStore(options: MemoryStoreOptions = {}): MemoryStore {
  const clock = options.clock ?? systemClock
  const retentionMs = options.retentionMs ?? DAY_MS
  const states = new Map<string, protocol.KeyState>()
  const lastUseMs = new Map<string, number>()
  const watchers = new Map<string, Set<Watcher>>()
  const id = `memory ${systemRandom.claim()}`
  let closed = false
  let prunedToken = 0
  let grants = 0

  const rules: protocol.Rules = {
    nextToken: protocol.counterToken,
    endedRetentionMs: options.endedRetentionMs ?? protocol.ENDED_RETENTION_MS,
    tellsTurns: true,
  }

  const stateOf = (key: string) => states.get(key) ?? protocol.unknownKey(prunedToken)

  function checkOpen(): void {
    if (closed)
      throw new StoreError('the memory store is closed', { outcome: 'none', cause: new ClosedError('closed') })
  }

  /** One atomic step on one key. */
  function step<Answer>(key: string, run: (state: protocol.KeyState, nowMs: number) => protocol.Step<Answer>): Answer {
    checkOpen()
    const before = stateOf(key)
    const nowMs = clock.monoMs()
    const { state, answer, wake, told } = run(before, nowMs)
    if (state !== before) {
      states.set(key, state)
      lastUseMs.set(key, nowMs)
    }
    if (wake !== undefined)
      for (const watcher of watchers.get(key) ?? []) if (wake === '' || wake === watcher.claim) watcher.hint(told)
    return answer
  }

  function prune({ olderThanMs = retentionMs }: { olderThanMs?: number } = {}): number {
    const nowMs = clock.monoMs()
    let count = 0
    for (const [key, state] of states) {
      if (nowMs - (lastUseMs.get(key) ?? 0) < olderThanMs || !protocol.isForgettable(state, nowMs)) continue
      prunedToken = Math.max(prunedToken, state.token)
      states.delete(key)
      lastUseMs.delete(key)
      count++
    }
    return count
  }

  return {
    name: 'memory',
    contract: 1,
    capabilities: memoryCapabilities,
    prune,

    async acquire(request) {
      if (++grants % GRANTS_PER_PRUNE === 0) prune()
      return step(request.key, (state, nowMs) => protocol.acquire(state, request, nowMs, rules))
    },

    async renew(leases) {
      return leases.map(({ key, claim, ttlMs }) =>
        step(key, (state, nowMs) => protocol.renew(state, claim, ttlMs, nowMs)),
      )
    },

    async release({ key, claim }) {
      return step(key, (state, nowMs) => protocol.release(state, claim, nowMs, rules))
    },

    async withdraw(key, claim) {
      step(key, (state, nowMs) => protocol.withdraw(state, claim, nowMs, rules))
    },

    async inspect(key) {
      return step(key, (state, nowMs) => ({ state, answer: protocol.record(key, state, nowMs) }))
    },

    async *list({ prefix = '', free = false } = {}) {
      checkOpen()
      for (const key of [...states.keys()].filter((name) => name.startsWith(prefix)).sort(byText)) {
        const record = protocol.record(key, stateOf(key), clock.monoMs())
        if (record !== null && (free || record.state === 'held' || record.waiters.length > 0)) yield record
      }
    },

    async revoke(key, { force = false } = {}) {
      return step<LeaseRecord | null>(key, (state, nowMs) => {
        const before = protocol.record(key, state, nowMs)
        const next = protocol.revoke(state, force, nowMs, rules)
        return { ...next, answer: next.answer ? before : null }
      })
    },

    watch(key, { claim, signal }) {
      const watcher = new Watcher(claim)
      const peers = watchers.get(key) ?? new Set()
      watchers.set(key, peers.add(watcher))
      if (closed) watcher.end()
      if (protocol.mayBeFree(stateOf(key), claim, clock.monoMs())) watcher.hint()
      return watcher.until(signal, () => {
        peers.delete(watcher)
        if (peers.size === 0) watchers.delete(key)
      })
    },

    serverId: async () => id,

    async close() {
      closed = true
      for (const peers of watchers.values()) for (const watcher of peers) watcher.end()
    },
  }
}

/** One who waits for hints: those that come while it is busy count as one. */
class Watcher {
  readonly claim: string
  #pending = false
  #turn: Turn | undefined
  #ended = false
  #wake: (() => void) | undefined

  constructor(claim: string) {
    this.claim = claim
  }

  hint(told?: number): void {
    this.#pending = true
    if (told !== undefined) this.#turn = { token: told }
    this.#wake?.()
  }

  /** Ends the watch, as its signal does. */
  end(): void {
    this.#ended = true
    this.#wake?.()
  }

  async *until(signal: AbortSignal, done: () => void): AsyncGenerator<Turn | undefined> {
    const end = () => this.end()
    signal.addEventListener('abort', end)
    try {
      while (!signal.aborted && !this.#ended) {
        if (this.#pending) {
          const turn = this.#turn
          this.#pending = false
          this.#turn = undefined
          yield turn
          continue
        }
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    } finally {
      signal.removeEventListener('abort', end)
      done()
    }
  }
}
