// How long the lease, its margin and the grace of the command are, checked against each other before anything is asked of a
// store: the command must be dead before the store would let another in.
import { usageError } from '../exit.js'
import { exactDuration } from '../text.js'

export interface Terms {
  readonly ttlMs: number
  /** How long before the store's expiry the holder stops believing: the time in which the command is ended. */
  readonly marginMs: number
  /** From SIGTERM to SIGKILL. */
  readonly graceMs: number
}

/** Below this the watchdog would have no time to act. */
const TTL_MS_MIN = 3_000

/** What is kept between SIGKILL and the store's expiry, for a machine that is busy. */
const SPARE_MS = 250

const GRACE_MS_DEFAULT_MAX = 10_000

/** The margin of a ttl: a fifth, at least a second. */
export const marginOf = (ttlMs: number): number => Math.max(1_000, Math.ceil(ttlMs / 5))

export function terms(ttlMs: number, graceMs: number | undefined): Terms {
  if (ttlMs < TTL_MS_MIN)
    throw usageError(`--ttl must be at least ${exactDuration(TTL_MS_MIN)}, got ${exactDuration(ttlMs)}`)
  const marginMs = marginOf(ttlMs)
  const graceMsMax = marginMs - SPARE_MS
  if (graceMs !== undefined && graceMs > graceMsMax) {
    throw usageError(
      `--grace must be at most ${exactDuration(graceMsMax)} with --ttl ${exactDuration(ttlMs)} (the margin of ` +
        `${exactDuration(marginMs)}, less ${SPARE_MS} ms), got ${exactDuration(graceMs)}; raise --ttl or lower --grace`,
    )
  }
  return { ttlMs, marginMs, graceMs: graceMs ?? Math.min(Math.floor(marginMs / 2), GRACE_MS_DEFAULT_MAX) }
}
