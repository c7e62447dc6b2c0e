// A store over an engine that has records with versions, but no clock to compare with. A verb is: take what stands there, run the
// protocol on it, write the outcome over that very version; and once more from the start when somebody else was quicker. Expiry
// is observed: a contender writes over a holder that has given no sign of life for the record's ttl, on the contender's own
// monotonic clock. A write whose outcome is unknown is read back; it fails by its version when it arrives after another's.
import { type Clock, systemClock } from '../../lease/clock.js'
import { ClosedError, StoreError } from '../../lease/errors.js'
import { byText } from '../../lease/keys.js'
import { type Random, systemRandom } from '../../lease/random.js'
import type {
  CallOptions,
  Granted,
  Held,
  LeaseRecord,
  LeaseStore,
  RenewOutcome,
  StoreCapabilities,
} from '../contract.js'
import { untilEither } from '../ending.js'
import * as protocol from '../protocol.js'
import { inParallel } from './parallel.js'
import { NotYet, type Versioned, type VersionedRecords, type WriteKind } from './records.js'
import { Sightings } from './sightings.js'
import { recordOf, stateOf } from './state.js'
import { Watch } from './watch.js'

/** What an observed store is made of. */
export interface ObservedStoreParts<Read extends Versioned> {
  readonly name: string
  readonly capabilities: StoreCapabilities
  readonly records: VersionedRecords<Read>
  readonly clock?: Clock
  readonly random?: Random
}

/** How often a verb is tried against others who write the same key at the same moment. */
const TRIES = 12
/** So many of them at once; after that others are given time. */
const HURRIED_TRIES = 4
const PAUSE_MS_MAX = 50
/** A timer may fire a moment early: with no more than this left, a call's time is over. */
const OVER_MS = 5
/** So many leases are renewed at once. */
const RENEWED_AT_ONCE = 32
/** The last versions of so many keys are remembered, so that whoever wrote last need not read first. */
const KEYS_MAX = 20_000

const RULES: protocol.Rules = {
  nextToken: protocol.counterToken, // the engine's takes its place
  endedRetentionMs: protocol.ENDED_RETENTION_MS,
}

type Transition<Answer> = (state: protocol.KeyState, nowMs: number) => protocol.Step<Answer>

/** What a verb came to. */
interface Done<Answer> {
  readonly answer: Answer
  /** The token that stands there now. */
  readonly token: number
}

/** A store of records with versions. */
export interface ObservedStore<Read extends Versioned> extends LeaseStore {
  /** Whether nothing but the token is left to remember, as far as this process has seen: such a record may be deleted. */
  isForgettable(key: string, read: Read): boolean
}

/** Makes a store of records with versions (G1 to G4, G6, G11, G13; `clock: 'observed'`). */
export function observedStore<Read extends Versioned>(parts: ObservedStoreParts<Read>): ObservedStore<Read> {
  const { name, capabilities, records, clock = systemClock, random = systemRandom } = parts
  const sightings = new Sightings(clock)
  const last = new Map<string, Read | null>()
  const closing = new AbortController()
  const grainMs = capabilities.ttlMsGrain
  const rounded = (ttlMs: number) => Math.ceil(ttlMs / grainMs) * grainMs

  function remember(key: string, read: Read | null): Read | null {
    last.delete(key)
    last.set(key, read)
    if (last.size > KEYS_MAX) {
      for (const oldest of last.keys()) {
        last.delete(oldest)
        break
      }
    }
    return read
  }

  const stateNow = (key: string, read: Read | null) => stateOf(key, read, sightings, clock.wallMs())

  function check(): void {
    if (closing.signal.aborted)
      throw new StoreError(`the ${name} store is closed`, { outcome: 'none', cause: new ClosedError() })
  }

  /** One verb on one key. */
  async function step<Answer>(
    key: string,
    call: CallOptions | undefined,
    kindOf: (answer: Answer, before: protocol.KeyState, after: protocol.KeyState) => WriteKind,
    run: Transition<Answer>,
    later?: (leftMs: number, state: protocol.KeyState) => Answer,
  ): Promise<Done<Answer>> {
    check()
    const untilMs = clock.monoMs() + (call?.timeoutMs ?? Number.POSITIVE_INFINITY)
    const isOver = () => untilMs - clock.monoMs() <= OVER_MS
    /** All requests of the call share its time. */
    const rest = (): CallOptions | undefined =>
      call?.timeoutMs === undefined ? call : { ...call, timeoutMs: Math.max(1, untilMs - clock.monoMs()) }
    let doubt: unknown
    for (let attempt = 1; ; attempt++) {
      const isRemembered = last.has(key) && attempt === 1
      const read = isRemembered
        ? (last.get(key) ?? null)
        : remember(key, await again(() => records.read(key, rest()), doubt))
      const before = stateNow(key, read)
      const at = { monoMs: clock.monoMs(), wallMs: clock.wallMs() }
      const { state, answer } = run(before, at.monoMs)
      if (state === before) {
        // What is said without a write has to be said of what stands there now.
        if (!isRemembered) return { answer, token: state.token }
        last.delete(key)
        continue
      }
      const kind = kindOf(answer, before, state)
      const next = recordOf(state, read?.record, kind, at)
      let written: Read | NotYet<Read> | undefined
      try {
        written = await records.write(key, next, read, kind, rest())
      } catch (error) {
        last.delete(key)
        if (!(error instanceof StoreError) || error.outcome === 'none') throw again.failed(error, doubt)
        doubt = error
        if (attempt >= TRIES || isOver()) throw error
        continue // Read back: it was applied, or it can be no more, or it is written once more over the same version.
      }
      if (written instanceof NotYet) {
        const now = stateNow(key, remember(key, written.read))
        if (later === undefined) throw new StoreError(`"${key}" cannot be written yet`, { outcome: 'none' })
        return { answer: later(written.leftMs, now), token: now.token }
      }
      if (written !== undefined) {
        stateNow(key, remember(key, written)) // seen now
        return { answer, token: written.record.token }
      }
      last.delete(key)
      if (attempt >= TRIES || isOver())
        throw again.failed(
          new StoreError(`${attempt} times others wrote "${key}" at the same moment: try again later`, {
            outcome: 'none',
          }),
          doubt,
        )
      if (attempt >= HURRIED_TRIES) await pause(Math.min(PAUSE_MS_MAX, attempt * 5) * random.unit())
    }
  }

  const pause = (ms: number) => new Promise<void>((resolve) => clock.setTimer(ms, resolve))

  /** A grant that is repeated is a sign of life as well: others may have seen the first one long before its caller did. */
  const kindOf = (answer: Granted | Held, before: protocol.KeyState, after: protocol.KeyState): WriteKind =>
    answer.is === 'held' ? 'other' : after.changes > before.changes ? 'grant' : 'renewal'

  async function renewOne(key: string, claim: string, ttlMs: number, call?: CallOptions): Promise<RenewOutcome> {
    const longMs = rounded(ttlMs)
    // A renewal is a sign of life even where it makes the term no longer.
    const { answer } = await step<RenewOutcome>(
      key,
      call,
      () => 'renewal',
      (state, nowMs) => {
        const renewed = protocol.renew(state, claim, longMs, nowMs)
        return renewed.answer.is === 'lost' ? { ...renewed, state } : renewed
      },
    )
    return answer
  }

  return {
    name,
    contract: 1,
    capabilities,

    async acquire(request, call) {
      const ttlMs = rounded(request.ttlMs)
      const { answer, token } = await step<Granted | Held>(
        request.key,
        call,
        kindOf,
        (state, nowMs) => protocol.acquire(state, { ...request, ttlMs }, nowMs, RULES),
        (leftMs, { token }) => ({ is: 'held', because: 'new', holder: '', token, remainingMs: leftMs }),
      )
      return answer.is === 'granted' ? { ...answer, token } : answer
    },

    async renew(leases, call) {
      check()
      return inParallel(leases, RENEWED_AT_ONCE, async ({ key, claim, ttlMs }): Promise<RenewOutcome> => {
        try {
          return await renewOne(key, claim, ttlMs, call)
        } catch (cause) {
          if (leases.length === 1) throw cause
          return { is: 'unknown', cause }
        }
      })
    },

    async release({ key, claim }, call) {
      return (
        await step(
          key,
          call,
          () => 'other',
          (state, nowMs) => protocol.release(state, claim, nowMs, RULES),
        )
      ).answer
    },

    async withdraw(key, claim, call) {
      await step(
        key,
        call,
        () => 'other',
        (state, nowMs) => protocol.withdraw(state, claim, nowMs, RULES),
      )
    },

    async inspect(key, call) {
      check()
      const read = remember(key, await records.read(key, call))
      return protocol.record(key, stateNow(key, read), clock.monoMs())
    },

    async *list({ prefix = '', free = false } = {}) {
      check()
      const found: LeaseRecord[] = []
      for await (const { key, read } of records.list(prefix)) {
        const record = protocol.record(key, stateNow(key, read), clock.monoMs())
        if (record !== null && (free || record.state === 'held')) found.push(record)
      }
      yield* found.sort((a, b) => byText(a.key, b.key))
    },

    async revoke(key, { force = false } = {}, call) {
      let revoked: LeaseRecord | null = null
      const { answer } = await step<LeaseRecord | null>(
        key,
        call,
        () => 'other',
        (state, nowMs) => {
          const before = protocol.record(key, state, nowMs)
          const next = protocol.revoke(state, force, nowMs, RULES)
          // Read back after a write whose reply was lost: what it freed stands there as revoked.
          const isDone = state.ended.some((entry) => entry.revoked && entry.claim === revoked?.claim)
          if (next.answer) revoked = before
          else if (!isDone) revoked = null
          return { ...next, answer: revoked }
        },
      )
      return answer
    },

    ...(records.watch === undefined
      ? {}
      : {
          watch: (key, { claim, signal }) =>
            untilEither(signal, closing.signal, (either) =>
              new Watch({
                clock,
                signal: either,
                seen: (ending) => records.watch?.(key, ending) ?? [],
                read: () => records.read(key),
                judge: (read: Read | null) => {
                  const state = stateNow(key, remember(key, read))
                  const nowMs = clock.monoMs()
                  return { mayBeFree: protocol.mayBeFree(state, claim, nowMs), leftMs: state.expiresMs - nowMs }
                },
              }).hints(),
            ),
        }),

    isForgettable: (key, read) => protocol.isForgettable(stateNow(key, read), clock.monoMs()),

    async close() {
      if (closing.signal.aborted) return
      closing.abort()
      await records.close()
    },
  }
}

/** Asks again after a write of unknown outcome: a failure leaves that in doubt. */
async function again<T>(ask: () => Promise<T>, doubt: unknown): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    throw again.failed(error, doubt)
  }
}
again.failed = (error: unknown, doubt: unknown): unknown =>
  doubt === undefined || (error instanceof StoreError && error.outcome === 'unknown')
    ? error
    : new StoreError(doubt instanceof Error ? doubt.message : String(doubt), { outcome: 'unknown', cause: error })
