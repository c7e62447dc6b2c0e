// When to ask again. A policy is a pure function of the situation, so that it can see what a plain counter cannot: who holds
// the lease, how long its term still runs, what the store last said.
import { InvalidArgumentError, type StoreError } from './errors.js'

/** What a policy knows when it decides. */
export interface Situation {
  /** How many times the store was asked so far at the policy's pace, at least 1. A wake-up is not counted. */
  readonly attempt: number
  /** Since the caller began to wait, in ms. */
  readonly elapsedMs: number
  /** Who holds the lease, if that was the last answer. */
  readonly holder: string | undefined
  /** What is left of the holder's term in ms, if that was the last answer. The client never sleeps longer than this. */
  readonly remainingMs: number | undefined
  /** What went wrong, if the store did not say who holds the lease. */
  readonly error: StoreError | undefined
  /** A random number from 0 to just below 1. */
  readonly random: number
}

/** Gives the delay in ms before the store is asked again, or null to stop with the last answer. */
export type RetryPolicy = (situation: Situation) => number | null

/** Asks once. */
export const noRetry: RetryPolicy = () => null

/** What the ready-made policies have in common. */
export interface AttemptLimit {
  /**
   * How often to ask in all, the first time included. Default: as long as `waitMs` lasts. A question in between, for a
   * wake-up or the end of a term, is not counted.
   */
  readonly maxAttempts?: number
}

/**
 * Asks again at a steady pace.
 *
 * @example
 * ```ts
 * await leases.acquire('report', { retry: fixed({ delayMs: 200, maxAttempts: 5 }) })
 * ```
 */
export function fixed(options: { readonly delayMs: number } & AttemptLimit): RetryPolicy {
  const { delayMs, maxAttempts = Number.POSITIVE_INFINITY } = options
  checkDelay('delayMs', delayMs)
  checkAttempts(maxAttempts)
  return ({ attempt }) => (attempt >= maxAttempts ? null : delayMs)
}

/**
 * Asks again ever more slowly: `minMs`, then twice as long each time, up to `maxMs`; each delay is shortened at random by up
 * to `jitter` of itself (default a half), so that contenders do not march in step.
 *
 * @example
 * ```ts
 * await leases.acquire('report', { retry: exponential({ minMs: 50, maxMs: 2_000 }) })
 * ```
 */
export function exponential(
  options: { readonly minMs: number; readonly maxMs: number; readonly jitter?: number } & AttemptLimit,
): RetryPolicy {
  const { minMs, maxMs, jitter = 0.5, maxAttempts = Number.POSITIVE_INFINITY } = options
  checkDelay('minMs', minMs)
  checkDelay('maxMs', maxMs)
  if (maxMs < minMs) throw new InvalidArgumentError('maxMs', maxMs, `must not be below minMs (${minMs})`)
  if (typeof jitter !== 'number' || !(jitter >= 0 && jitter <= 1))
    throw new InvalidArgumentError('jitter', jitter, 'must be a number from 0 to 1')
  checkAttempts(maxAttempts)
  return ({ attempt, random }) => {
    if (attempt >= maxAttempts) return null
    const delayMs = Math.min(maxMs, minMs * 2 ** Math.min(attempt - 1, 30))
    return delayMs * (1 - jitter * random)
  }
}

/** Without a policy of the caller's: quick at first, then about once a second, and slower while the store is in trouble. */
export const defaultRetry: RetryPolicy = (situation) =>
  situation.error === undefined ? whenHeld(situation) : whenFailing(situation)

const whenHeld = exponential({ minMs: 25, maxMs: 1_000 })
const whenFailing = exponential({ minMs: 50, maxMs: 2_000 })

function checkDelay(option: string, value: unknown): void {
  if (typeof value !== 'number' || !(value >= 0) || value === Number.POSITIVE_INFINITY) {
    throw new InvalidArgumentError(option, value, 'must be a finite number of ms, 0 or more')
  }
}

function checkAttempts(value: unknown): void {
  if (value === Number.POSITIVE_INFINITY) return
  if (!Number.isSafeInteger(value) || (value as number) < 1) {
    throw new InvalidArgumentError('maxAttempts', value, 'must be a whole number, 1 or more')
  }
}

/** How often one who waits in a store's queue says that it is still there. */
export const QUEUE_POLL_MS = 1_000
/** All who wait in one process ask on ticks of this, so that a thousand of them share calls. */
const QUEUE_TICK_MS = 50

/** How long from now to the last tick within a poll. */
export const pollAfter = (nowMs: number) => Math.floor((nowMs + QUEUE_POLL_MS) / QUEUE_TICK_MS) * QUEUE_TICK_MS - nowMs
