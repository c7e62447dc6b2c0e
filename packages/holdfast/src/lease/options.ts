// Options are checked where they come in, against each other, before any command is sent: one message each, naming the
// option and the value. Defaults stand here and nowhere else.
import type { Json, LeaseStore } from '../store/contract.js'
import type { Clock } from './clock.js'
import { InvalidArgumentError } from './errors.js'
import type { EventListener } from './events.js'
import { checkHolder } from './keys.js'
import type { Random } from './random.js'
import type { RetryPolicy } from './retry.js'

/** How a lease is taken and held. Every one can be set for a client and for a single call. Durations are in ms. */
export interface LeaseOptions {
  /** How long a grant lasts if it is not renewed. A fraction is rounded up. Default 30,000. */
  ttlMs?: number | undefined
  /** How long before the store's expiry the holder stops believing (G5). Default a tenth of the ttl, at least 20. */
  marginMs?: number | undefined
  /** How often a held lease is renewed. Default half of the ttl; up to 15 % is taken off, at random and to share calls. */
  renewEveryMs?: number | undefined
  /** Whether the client renews by itself. Default true. */
  renew?: boolean | undefined
  /** Time-out of one call to the store. Default an eighth of the ttl, at most 2,000. */
  callTimeoutMs?: number | undefined
  /** A lease held for longer is lost, with reason `maxHold`. Default none. */
  maxHoldMs?: number | undefined
  /** The key stays taken for at least this long after the grant, also when the work ends earlier. Default none. */
  minHoldMs?: number | undefined
  /** Small JSON that `inspect` shows, at most 4 KiB. */
  meta?: Json | undefined
}

/** How long, and how, to wait for a lease. */
export interface WaitOptions {
  /** How long to wait. 0: one attempt. `Infinity`: until the signal aborts. Default 10,000. */
  waitMs?: number | undefined
  /** Ends the wait, and aborts `lease.signal` once the lease is held. */
  signal?: AbortSignal | undefined
  /** When to ask again. Default: quick at first, then about once a second. */
  retry?: RetryPolicy | undefined
}

/** Options of `acquire`, `hold` and `coalesce`. */
export interface AcquireOptions extends LeaseOptions, WaitOptions {}

/** Options of `tryAcquire` and `tryHold`, which never wait. */
export interface TryOptions extends LeaseOptions {
  /** Ends the attempt, and aborts `lease.signal` once the lease is held. */
  signal?: AbortSignal | undefined
}

/** Options of `createLeases`. */
export interface ClientOptions extends LeaseOptions {
  /** Where the leases are kept. Closed with the client, unless `closeStore` is false. */
  store: LeaseStore
  /** Put before every key. Default none. */
  prefix?: string | undefined
  /** A label for people: which process this is. Never compared. Default `host:pid`. */
  holder?: string | undefined
  /** As for `acquire`. */
  waitMs?: number | undefined
  /** As for `acquire`. */
  retry?: RetryPolicy | undefined
  /** Receives events. What it throws is caught. */
  onEvent?: EventListener | undefined
  /** How many callers of this process may wait for one key. Default 10,000. */
  maxLocalWaiters?: number | undefined
  /** How often in a row a lease is handed to the next local waiter where the store cannot tell who else waits. Default 16. */
  maxHandovers?: number | undefined
  /** How long `close` waits for work to end. Default 10,000. */
  drainMs?: number | undefined
  /** Whether `close` closes the store as well. Default true; give false when clients share a store. */
  closeStore?: boolean | undefined
  /** Time and timers. Default: this machine's. */
  clock?: Clock | undefined
  /** Claims and jitter. Default: the platform's generator. */
  random?: Random | undefined
}

/** All that is known of how to take and hold a lease. */
export interface LeaseSettings {
  readonly ttlMs: number
  readonly marginMs: number
  readonly renewEveryMs: number
  readonly renew: boolean
  readonly callTimeoutMs: number
  readonly maxHoldMs: number
  readonly minHoldMs: number
  /** Renewed until it has ended: then the store may let it share what expires. */
  readonly shares: boolean
  readonly meta: Json | undefined
  readonly waitMs: number
  readonly retry: RetryPolicy | undefined
  readonly signal: AbortSignal | undefined
}

const TTL_MS = 30_000
const WAIT_MS = 10_000
const MARGIN_MS_MIN = 20
const CALL_TIMEOUT_MS_MAX = 2_000
const META_BYTES_MAX = 4_096

/** Ten years: longer than any lease, and far from where whole ms lose precision. */
const TTL_MS_MAX = 10 * 366 * 86_400_000

type Given = AcquireOptions & { readonly waitMs?: number | undefined }
type DurationName = Exclude<Extract<keyof Given, `${string}Ms`>, undefined>

/** The settings of a client, or of one call on top of them. */
export function settle(given: Given, base: Given | undefined, store: LeaseStore): LeaseSettings {
  const pick = <Name extends keyof Given>(name: Name): Given[Name] =>
    given[name] === undefined ? base?.[name] : given[name]
  const ms = (name: DurationName, byDefault: number, endless?: boolean) =>
    duration(name, orDefault(pick(name), byDefault), endless)

  const ttlMs = Math.ceil(ms('ttlMs', TTL_MS))
  if (ttlMs < 1) throw new InvalidArgumentError('ttlMs', ttlMs, 'must be above 0')
  if (ttlMs > TTL_MS_MAX) throw new InvalidArgumentError('ttlMs', ttlMs, `must be at most ${TTL_MS_MAX} (ten years)`)
  if (ttlMs < store.capabilities.ttlMsMin) {
    throw new InvalidArgumentError(
      'ttlMs',
      ttlMs,
      `must be at least ${store.capabilities.ttlMsMin} on the ${store.name} store`,
    )
  }
  const marginMs = ms('marginMs', Math.max(MARGIN_MS_MIN, ttlMs / 10))
  const renewEveryMs = ms('renewEveryMs', ttlMs / 2)
  const callTimeoutMs = ms('callTimeoutMs', Math.min(CALL_TIMEOUT_MS_MAX, ttlMs / 8))
  const renew = orDefault(pick('renew'), true)
  if (typeof renew !== 'boolean') throw new InvalidArgumentError('renew', renew, 'must be true or false')
  if (marginMs >= ttlMs && pick('marginMs') === undefined)
    throw new InvalidArgumentError('ttlMs', ttlMs, `must be above the default of marginMs (${marginMs})`)
  if (marginMs >= ttlMs)
    throw new InvalidArgumentError(
      'marginMs',
      marginMs,
      `must be below ttlMs (${ttlMs}): nothing would be left to hold`,
    )
  if (renewEveryMs <= 0) throw new InvalidArgumentError('renewEveryMs', renewEveryMs, 'must be above 0')
  if (callTimeoutMs <= 0) throw new InvalidArgumentError('callTimeoutMs', callTimeoutMs, 'must be above 0')
  if (renew && renewEveryMs + callTimeoutMs >= ttlMs - marginMs) {
    throw new InvalidArgumentError(
      'ttlMs',
      ttlMs,
      `is too short: renewEveryMs (${renewEveryMs}) + callTimeoutMs (${callTimeoutMs}) must be below ttlMs - marginMs (${ttlMs - marginMs}); raise ttlMs, or give renew: false`,
    )
  }
  const maxHoldMs = ms('maxHoldMs', Number.POSITIVE_INFINITY, true)
  if (maxHoldMs <= 0) throw new InvalidArgumentError('maxHoldMs', maxHoldMs, 'must be above 0')
  const minHoldMs = ms('minHoldMs', 0)
  if (minHoldMs > TTL_MS_MAX)
    throw new InvalidArgumentError('minHoldMs', minHoldMs, `must be at most ${TTL_MS_MAX} (ten years)`)
  if (minHoldMs > maxHoldMs)
    throw new InvalidArgumentError('minHoldMs', minHoldMs, `must not be above maxHoldMs (${maxHoldMs})`)
  const retry = pick('retry')
  if (retry !== undefined && typeof retry !== 'function')
    throw new InvalidArgumentError(
      'retry',
      retry,
      'must be a function of the situation, such as exponential({ minMs, maxMs })',
    )
  return {
    ttlMs,
    marginMs,
    renewEveryMs,
    renew,
    callTimeoutMs,
    maxHoldMs,
    minHoldMs,
    shares: renew && maxHoldMs === Number.POSITIVE_INFINITY,
    meta: checkMeta(pick('meta')),
    waitMs: ms('waitMs', WAIT_MS, true),
    retry,
    signal: checkSignal(given.signal),
  }
}

/** Only what is left out gets the default: null is as wrong as any other value of the wrong kind. */
const orDefault = <T>(value: T | undefined, byDefault: T): T => (value === undefined ? byDefault : value)

/** A number of ms, 0 or more; `Infinity` only where it has a meaning. */
export function duration(option: string, value: unknown, endless = false): number {
  if (typeof value === 'number' && value >= 0 && (endless || value !== Number.POSITIVE_INFINITY)) return value
  throw new InvalidArgumentError(
    option,
    value,
    `must be a ${endless ? '' : 'finite '}number of ms, 0 or more${endless ? ' (Infinity is allowed)' : ''}`,
  )
}

/** A whole number, 0 or more. */
export function count(option: string, value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number
  throw new InvalidArgumentError(option, value, 'must be a whole number, 0 or more')
}

/** The label of this process: the one given, else host and process id where the platform tells them. */
export function holderLabel(given: string | undefined): string {
  if (given !== undefined) {
    checkHolder(given)
    return given
  }
  const { process } = globalThis as {
    process?: { pid?: number; getBuiltinModule?(id: string): { hostname(): string } | undefined }
  }
  const host = process?.getBuiltinModule?.('node:os')?.hostname() || 'unknown-host'
  return process?.pid === undefined ? host : `${host}:${process.pid}`
}

/** Refuses what is not an options object: a call such as `acquire(key, 5000)` must not run with the defaults. */
export function checkOptions(options: unknown): void {
  if (typeof options !== 'object' || options === null) {
    throw new InvalidArgumentError('options', options, 'must be an object such as { ttlMs: 30_000 }')
  }
}

/** Refuses what is not an object with these methods. */
export function checkMethods(option: string, value: unknown, methods: readonly string[], expected: string): void {
  const given = value as Record<string, unknown> | null
  if (typeof given === 'object' && given !== null && methods.every((name) => typeof given[name] === 'function')) return
  throw new InvalidArgumentError(option, value, expected)
}

/** Refuses what cannot be called. */
export function checkFunction(option: string, fn: unknown): void {
  if (typeof fn !== 'function') throw new InvalidArgumentError(option, fn, 'must be a function')
}

function checkSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal === undefined) return undefined
  if (
    typeof signal === 'object' &&
    signal !== null &&
    typeof signal.aborted === 'boolean' &&
    typeof signal.addEventListener === 'function'
  )
    return signal
  throw new InvalidArgumentError('signal', signal, 'must be an AbortSignal')
}

function checkMeta(meta: Json | undefined): Json | undefined {
  if (meta === undefined) return undefined
  let text: string | undefined
  try {
    text = JSON.stringify(meta)
  } catch {
    text = undefined
  }
  if (text === undefined) throw new InvalidArgumentError('meta', meta, 'must be a value that JSON can carry')
  const bytes = new TextEncoder().encode(text).length
  if (bytes > META_BYTES_MAX)
    throw new InvalidArgumentError('meta', meta, `must be at most ${META_BYTES_MAX} bytes as JSON (it is ${bytes})`)
  return JSON.parse(text) as Json
}
