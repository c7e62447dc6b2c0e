// One error family. Every failure that Holdfast reports is a HoldfastError with a stable `code`; programs branch on the
// code or the class, people read the message. The brand is a registered symbol, so that two copies of the package in one
// process still recognise each other's errors (`instanceof` goes by the brand and the code).

const BRAND: unique symbol = Symbol.for('holdfast.error') as never

/** The stable codes, one for each way in which Holdfast says no. The table in `docs/reference/errors.md` has a row for each. */
export type ErrorCode =
  | 'INVALID_ARGUMENT'
  | 'LEASE_HELD'
  | 'LEASE_LOST'
  | 'STORE_ERROR'
  | 'STALE_TOKEN'
  | 'TOO_MANY_WAITERS'
  | 'CLOSED'
  | 'DRAIN_TIMEOUT'
  | 'KEY_REUSED'
  | 'IN_PROGRESS'
  | 'UNKNOWN_OUTCOME'
  | 'RECORDED_FAILURE'
  | 'NOT_RECORDED'
  | 'INVARIANT'

/**
 * The base of the family: everything that Holdfast throws or rejects with is one of these.
 *
 * @example
 * ```ts
 * try {
 *   await leases.acquire('report', { waitMs: 0 })
 * } catch (error) {
 *   if (error instanceof HoldfastError) console.error(error.code)
 * }
 * ```
 */
export class HoldfastError extends Error {
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.code = code
    this.name = new.target.name
    Object.defineProperty(this, BRAND, { value: true })
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    if (typeof value !== 'object' || value === null || !(BRAND in value)) return false
    if (this === HoldfastError) return true
    const code = CODES.get(this)
    if (code !== undefined) return (value as unknown as HoldfastError).code === code
    return Function.prototype[Symbol.hasInstance].call(this, value) // somebody's own subclass
  }
}

/** Which code belongs to which class: what `instanceof` compares across copies of the package. */
const CODES = new Map<unknown, ErrorCode>()

/**
 * An option, a name or a plain argument that cannot be right. Thrown before any command is sent.
 * `option` names it, `value` is what was given.
 */
export class InvalidArgumentError extends HoldfastError {
  readonly option: string
  readonly value: unknown

  constructor(option: string, value: unknown, expected: string) {
    super('INVALID_ARGUMENT', `${option} ${expected}; got ${describe(value)}`)
    this.option = option
    this.value = value
  }
}

const OBSERVED =
  ', as far as this process has seen: one that lives shorter than a ttl cannot take over from a dead holder on this store'

/** Another holds the lease: the answer of the store when it last was asked. `remainingMs` is an upper bound. */
export class LeaseHeldError extends HoldfastError {
  readonly key: string
  readonly holder: string
  readonly remainingMs: number
  readonly waitedMs: number

  /** `observed`: the store has no clock, so what is left is what this process has to watch for yet (`clock: 'observed'`). */
  constructor(key: string, held: { holder: string; remainingMs: number }, waitedMs: number, observed = false) {
    const waited = waitedMs > 0 ? ` after ${Math.round(waitedMs)} ms of waiting` : ''
    const by = held.holder === '' ? 'another' : held.holder
    super(
      'LEASE_HELD',
      `"${key}" is held by ${by}${waited}; it is free in ${Math.round(held.remainingMs)} ms unless renewed${observed ? OBSERVED : ''}`,
    )
    this.key = key
    this.holder = held.holder
    this.remainingMs = held.remainingMs
    this.waitedMs = waitedMs
  }
}

/** Why a lease ended. The first five are losses; `closing` and `released` were asked for. */
export type LostReason = 'expired' | 'taken' | 'revoked' | 'deadline' | 'maxHold' | 'closing' | 'released'

/** How the work under a lease ended, as far as it did. */
export type Outcome =
  | { readonly is: 'returned'; readonly value: unknown }
  | { readonly is: 'threw'; readonly error: unknown }

const WHY: Record<LostReason, string> = {
  expired: 'it ran out at the store',
  taken: 'another has been granted it since',
  revoked: 'an operator revoked it',
  deadline: 'it could not be renewed before its deadline',
  maxHold: 'it was held for maxHoldMs',
  closing: 'the client is closing',
  released: 'it was released',
}

/**
 * The lease ended without the holder's asking (G5), or, as the reason of `lease.signal`, was given back.
 * When `hold` rejects with it, `outcome` carries what the work returned or threw (G10): nothing is swallowed.
 */
export class LeaseLostError extends HoldfastError {
  readonly key: string
  readonly token: number
  readonly reason: LostReason
  outcome: Outcome | undefined

  constructor(key: string, token: number, reason: LostReason, options?: { cause?: unknown }) {
    super('LEASE_LOST', `the lease on "${key}" (token ${token}) ended: ${WHY[reason]}`, options)
    this.key = key
    this.token = token
    this.reason = reason
  }
}

/**
 * The store could not be reached, refused, or did not answer (G13). `outcome` tells what is known of the command:
 * `none`, it was certainly not applied; `unknown`, it may have been. `lasting`: asking again will not help until somebody changes
 * something (a right, a name, a setting), so whoever waits for the lease is told at once; a renewal is tried until the deadline.
 */
export class StoreError extends HoldfastError {
  readonly outcome: 'none' | 'unknown'
  readonly lasting: boolean

  constructor(message: string, options: { outcome: 'none' | 'unknown'; lasting?: boolean; cause?: unknown }) {
    super('STORE_ERROR', message, options)
    this.outcome = options.outcome
    this.lasting = options.lasting === true
  }
}

/** A fence refused a write (G7): it has admitted a bigger token for this resource, or this very token of another claim. */
export class StaleTokenError extends HoldfastError {
  readonly resource: string
  readonly token: number
  /** The biggest token that the fence has admitted, where it can tell. */
  readonly admitted: number | undefined

  constructor(resource: string, token: number, admitted?: number) {
    const seen = admitted === undefined ? 'a bigger token' : `token ${admitted}`
    super('STALE_TOKEN', `token ${token} is stale for "${resource}": its fence has admitted ${seen}; stop this work`)
    this.resource = resource
    this.token = token
    this.admitted = admitted
  }
}

/** More than `maxLocalWaiters` callers of this process already wait for the key. */
export class TooManyWaitersError extends HoldfastError {
  readonly key: string

  constructor(key: string, limit: number) {
    super(
      'TOO_MANY_WAITERS',
      `${limit} callers of this process already wait for "${key}": shed load, or raise maxLocalWaiters`,
    )
    this.key = key
  }
}

/** The client was closed: nothing new is acquired, and those who waited are turned away. */
export class ClosedError extends HoldfastError {
  constructor(what = 'these leases are closed') {
    super('CLOSED', what)
  }
}

/** `close()` ran out of `drainMs` before all work had ended (G12). `keys` were not released; their ttl frees them. */
export class DrainTimeoutError extends HoldfastError {
  readonly keys: readonly string[]

  constructor(keys: readonly string[], drainMs: number) {
    super(
      'DRAIN_TIMEOUT',
      `after ${drainMs} ms work still ran under ${keys.map((key) => `"${key}"`).join(', ')}: not released`,
    )
    this.keys = keys
  }
}

/** A mistake of Holdfast's own, found at run time. Please report it. */
export class InvariantError extends HoldfastError {
  constructor(message: string) {
    super('INVARIANT', `Holdfast broke a rule of its own: ${message}; please report this`)
  }
}

CODES.set(InvalidArgumentError, 'INVALID_ARGUMENT')
CODES.set(LeaseHeldError, 'LEASE_HELD')
CODES.set(LeaseLostError, 'LEASE_LOST')
CODES.set(StoreError, 'STORE_ERROR')
CODES.set(StaleTokenError, 'STALE_TOKEN')
CODES.set(TooManyWaitersError, 'TOO_MANY_WAITERS')
CODES.set(ClosedError, 'CLOSED')
CODES.set(DrainTimeoutError, 'DRAIN_TIMEOUT')
CODES.set(InvariantError, 'INVARIANT')

/** For the classes of other files: `instanceof` compares by the code. */
export function registerError(errorClass: unknown, code: ErrorCode): void {
  CODES.set(errorClass, code)
}

/** Throws when `condition` does not hold: stays on in production. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new InvariantError(message)
}

/** A value as a message shows it: short, and never a reason to throw. */
function describe(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 80 ? `${value.slice(0, 77)}...` : value)
  if (typeof value === 'number' && Object.is(value, -0)) return '-0'
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'an array' : 'an object'
  return String(value)
}
