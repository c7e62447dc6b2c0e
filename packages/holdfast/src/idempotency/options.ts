// Options of `once`, checked where they come in and against each other, before any command is sent. Defaults stand here.
import { type Clock, systemClock } from '../lease/clock.js'
import { InvalidArgumentError } from '../lease/errors.js'
import { checkHolder, checkKey } from '../lease/keys.js'
import { checkFunction, checkMethods, checkOptions, duration, holderLabel } from '../lease/options.js'
import { type Random, systemRandom } from '../lease/random.js'
import { type Codec, failureCodec, plainCodec } from './codec.js'
import { FINGERPRINT_LENGTH_MAX, type Records } from './contract.js'
import type { RunInfo } from './run.js'

/** What becomes of a failed run: told to repeats, as if it had not been, or nobody knows whether its effect happened. */
export type FailureDecision = 'record' | 'forget' | 'unknown'

/** What is known of a failure beside the error. */
export interface FailureInfo {
  /** The signal of the run had aborted before the work failed: it may have been stopped half-way. */
  readonly interrupted: boolean
}

/** What a run after an unknown one comes to: run the work again, stop with UnknownOutcomeError, or record what was found out. */
export type UnknownDecision<T> = 'run' | 'stop' | { readonly value: T }

/** What the record and its two transactions have in common. */
export interface RecordOptions<T> {
  /** What must happen once: scope (tenant, endpoint) and the client's key, by `keyOf`. At most 512 bytes of UTF-8. */
  key: string
  /** What tells a repeat from another request with the same key: `fingerprintOf(payload)`. */
  fingerprint: string
  /** How long the outcome is kept, in ms, by the clock of the records. Default 24 hours. */
  retentionMs?: number | undefined
  /** How the result is written. Default: plain data, exactly; whatever it cannot carry is refused. */
  codec?: Codec<T> | undefined
  /** The longest result as text, in bytes of UTF-8. Default 1 MiB. */
  resultBytesMax?: number | undefined
  /** A label for people: which process runs. Default `host:pid`. */
  holder?: string | undefined
}

/** Options of `once`. Durations are in ms. */
export interface OnceOptions<T> extends RecordOptions<T> {
  /** How long to wait for the same request when it is running elsewhere. 0: InProgressError at once. Default 10,000. */
  waitMs?: number | undefined
  /** Ends the wait; while the work runs, aborts its signal. */
  signal?: AbortSignal | undefined
  /** How long a run goes on without a renewal before it counts as dead. Renewed at half of it. Default 30,000. */
  ttlMs?: number | undefined
  /** Time-out of one call to the records. Default an eighth of the ttl, at most 2,000. */
  callTimeoutMs?: number | undefined
  /**
   * What to do when a run ended without a record. `stop` (default): UnknownOutcomeError, for a person. `run`: the work runs again,
   * and should give its effect the same outward key. A function runs in place of the work, alone, and may look: it answers one of
   * the two, or the result that it found.
   */
  onUnknown?: 'stop' | 'run' | ((run: RunInfo) => UnknownDecision<T> | Promise<UnknownDecision<T>>) | undefined
  /**
   * What becomes of a failure. Default: `unknown` when the run had been interrupted, else `forget`, so that a repeat runs again and
   * the key may be used with a corrected payload.
   */
  onFailure?: ((error: unknown, info: FailureInfo) => FailureDecision) | undefined
  /** How a recorded failure is written, and what a repeat is told. Default: name, message and code; RecordedFailureError. */
  failureCodec?: Codec<unknown> | undefined
  /** Time and timers. Default: this machine's. */
  clock?: Clock | undefined
  /** Claims and jitter. Default: the platform's generator. */
  random?: Random | undefined
}

/** All that is known of how to run once. */
export interface OnceSettings<T> extends RecordSettings<T> {
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
  readonly ttlMs: number
  readonly marginMs: number
  readonly callTimeoutMs: number
  readonly onUnknown: NonNullable<OnceOptions<T>['onUnknown']>
  readonly onFailure: NonNullable<OnceOptions<T>['onFailure']>
  readonly failureCodec: Codec<unknown>
  readonly clock: Clock
  readonly random: Random
}

export interface RecordSettings<T> {
  readonly key: string
  readonly fingerprint: string
  readonly retentionMs: number
  readonly codec: Codec<T>
  readonly resultBytesMax: number
  readonly holder: string
}

const DAY_MS = 86_400_000
const TTL_MS = 30_000
const WAIT_MS = 10_000
const CALL_TIMEOUT_MS_MAX = 2_000
const RESULT_BYTES_MAX = 2 ** 20

/** Below, timers and the network leave a run no time to be renewed. */
const TTL_MS_MIN = 100
/** Ten years: far from where whole ms lose precision. */
const MS_MAX = 10 * 366 * DAY_MS

const forgetUnlessInterrupted = (_: unknown, { interrupted }: FailureInfo): FailureDecision =>
  interrupted ? 'unknown' : 'forget'

let label: string | undefined

function thisProcess(): string {
  label ??= holderLabel(undefined)
  return label
}

export function settleRecord<T>(options: RecordOptions<T>): RecordSettings<T> {
  checkOptions(options)
  const { key, fingerprint, retentionMs = DAY_MS, codec, resultBytesMax = RESULT_BYTES_MAX, holder } = options
  checkKey('key', key)
  checkFingerprint(fingerprint)
  if (codec !== undefined) checkMethods('codec', codec, ['encode', 'decode'], 'must have encode and decode')
  if (!Number.isSafeInteger(resultBytesMax) || resultBytesMax < 1) {
    throw new InvalidArgumentError('resultBytesMax', resultBytesMax, 'must be a whole number of bytes, 1 or more')
  }
  if (holder !== undefined) checkHolder(holder)
  return {
    key,
    fingerprint,
    retentionMs: wholeMs('retentionMs', retentionMs, 1),
    codec: codec ?? (plainCodec as Codec<T>),
    resultBytesMax,
    holder: holder ?? thisProcess(),
  }
}

export function settleOnce<T>(options: OnceOptions<T>): OnceSettings<T> {
  const { key, fingerprint, retentionMs, codec, resultBytesMax, holder } = settleRecord(options)
  const {
    signal,
    onUnknown = 'stop',
    onFailure = forgetUnlessInterrupted,
    failureCodec: failures = failureCodec,
  } = options
  const ttlMs = wholeMs('ttlMs', options.ttlMs ?? TTL_MS, TTL_MS_MIN)
  const marginMs = Math.max(20, ttlMs / 10)
  const callTimeoutMs = duration('callTimeoutMs', options.callTimeoutMs ?? Math.min(CALL_TIMEOUT_MS_MAX, ttlMs / 8))
  if (callTimeoutMs <= 0 || ttlMs / 2 + callTimeoutMs >= ttlMs - marginMs) {
    throw new InvalidArgumentError(
      'callTimeoutMs',
      callTimeoutMs,
      `must be above 0 and below ${ttlMs / 2 - marginMs}: a run is renewed at half of ttlMs (${ttlMs}), and the answer must come before its deadline`,
    )
  }
  if (signal !== undefined) checkMethods('signal', signal, ['addEventListener'], 'must be an AbortSignal')
  if (onUnknown !== 'stop' && onUnknown !== 'run' && typeof onUnknown !== 'function') {
    throw new InvalidArgumentError('onUnknown', onUnknown, "must be 'stop', 'run' or a function")
  }
  checkFunction('onFailure', onFailure)
  checkMethods('failureCodec', failures, ['encode', 'decode'], 'must have encode and decode')
  // Named one by one: an object that is spread into a larger one is slow for all who read it.
  return {
    key,
    fingerprint,
    retentionMs,
    codec,
    resultBytesMax,
    holder,
    waitMs: duration('waitMs', options.waitMs ?? WAIT_MS, true),
    signal,
    ttlMs,
    marginMs,
    callTimeoutMs,
    onUnknown,
    onFailure,
    failureCodec: failures,
    clock: options.clock ?? systemClock,
    random: options.random ?? systemRandom,
  }
}

/** Refuses what are no records, such as a lease store. */
export function checkRecords(records: unknown): asserts records is Records {
  checkMethods(
    'records',
    records,
    ['begin', 'extend', 'finish', 'withdraw'],
    'must be records, such as those of redisRecords(client)',
  )
}

function checkFingerprint(fingerprint: unknown): void {
  if (typeof fingerprint === 'string' && fingerprint !== '' && fingerprint.length <= FINGERPRINT_LENGTH_MAX) {
    checkKey('fingerprint', fingerprint, 4 * FINGERPRINT_LENGTH_MAX)
    return
  }
  throw new InvalidArgumentError(
    'fingerprint',
    fingerprint,
    `must be text of 1 to ${FINGERPRINT_LENGTH_MAX} characters: fingerprintOf(payload)`,
  )
}

/** A fraction is rounded up. */
function wholeMs(option: string, value: unknown, min: number): number {
  const ms = Math.ceil(duration(option, value))
  if (ms >= min && ms <= MS_MAX) return ms
  throw new InvalidArgumentError(option, value, `must be from ${min} to ${MS_MAX} ms (ten years)`)
}
