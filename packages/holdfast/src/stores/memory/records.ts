// Records in this process's memory: the pure protocol over a Map, for tests, for one process, and as the reference of the others.
import type { Records, RecordsCapabilities } from '../../idempotency/contract.js'
import * as protocol from '../../idempotency/protocol.js'
import { type Clock, systemClock } from '../../lease/clock.js'
import { ClosedError, StoreError } from '../../lease/errors.js'
import { KEY_BYTES_MAX } from '../../lease/keys.js'

/** How memory records are set up. */
export interface MemoryRecordsOptions {
  /** Whose monotonic clock decides. Default: this machine's. */
  clock?: Clock
}

/** What memory records can do and promise, as data. */
export const memoryRecordsCapabilities: RecordsCapabilities = {
  clock: 'injected',
  survives: ['client restart'],
  keyBytesMax: KEY_BYTES_MAX,
}

/** After so many runs what is past its retention is looked for: the cost is shared out over the runs. */
const RUNS_PER_PRUNE = 1_000

/**
 * Records of `once` in this process's memory: for tests, and for one process. Nothing outlives it.
 *
 * @example
 * ```ts
 * const records = memoryRecords()
 * const receipt = await once(records, { key: 'order-1', fingerprint: fingerprintOf({ amount: 100 }) }, () => charge(100))
 * ```
 */
export function memoryRecords({ clock = systemClock }: MemoryRecordsOptions = {}): Records {
  const records = new Map<string, protocol.RecordState>()
  let closed = false
  let runs = 0
  let lastToken = 0

  /** Above all before it, so that the tokens of a key rise also when it was forgotten. */
  const nextToken = () => ++lastToken

  function step<Answer>(
    key: string,
    run: (record: protocol.RecordState | undefined, nowMs: number) => protocol.RecordStep<Answer>,
  ): Answer {
    if (closed) {
      throw new StoreError('these records are closed', {
        outcome: 'none',
        cause: new ClosedError('these records are closed'),
      })
    }
    const { record, answer } = run(records.get(key), clock.monoMs())
    if (record !== undefined) records.set(key, record)
    return answer
  }

  function pruneNow(): number {
    const nowMs = clock.monoMs()
    let forgotten = 0
    for (const [key, { keepMs }] of records) {
      if (nowMs < keepMs) continue
      records.delete(key)
      forgotten++
    }
    return forgotten
  }

  return {
    name: 'memory',
    contract: 1,
    capabilities: memoryRecordsCapabilities,
    async begin(request) {
      if (++runs % RUNS_PER_PRUNE === 0) pruneNow()
      return step(request.key, (record, nowMs) => protocol.begin(record, request, nowMs, nextToken))
    },
    extend: async ({ key, claim }, ttlMs, retentionMs) =>
      step(key, (record, nowMs) => protocol.extend(record, claim, ttlMs, retentionMs, nowMs)),
    finish: async ({ key, claim }, end, retentionMs) =>
      step(key, (record, nowMs) => protocol.finish(record, claim, end, retentionMs, nowMs)),
    withdraw: async ({ key, claim }) =>
      step<void>(key, (record, nowMs) => ({ record: protocol.withdraw(record, claim, nowMs), answer: undefined })),
    inspect: async (key) => step(key, (record, nowMs) => ({ record, answer: protocol.view(key, record, nowMs) })),
    prune: async () => pruneNow(),
    async close() {
      closed = true
    },
  }
}
