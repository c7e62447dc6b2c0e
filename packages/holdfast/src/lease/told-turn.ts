// A turn that the store told with its token, as a grant (ADR 0025): for how long, and from when on, its claim may believe.
import type { Turn } from '../store/contract.js'
import type { GrantedClaim } from './granted.js'
import type { LeaseSettings } from './options.js'

/**
 * What one who waits tells the store of how soon it asks again: longer than it means to, by what a question may take to arrive. The
 * store keeps a turn for so long; told less, a head whose wake-up was lost would miss its turn while its next question is on its way.
 */
export const QUEUE_TOLD_MS = 1_500
/**
 * A turn that is told with its token counts as a grant when the last answer is no older than this: where a lease changes hands
 * so fast, one round trip less is much. Elsewhere it is nothing, and a full term is worth more than a short one.
 */
const TOLD_WITHIN_MS = 250

/** A question that the store refused: when it was sent, and the biggest token that the store knew of then. */
export interface RefusedQuestion {
  readonly sentMs: number
  readonly token: number
}

/**
 * The term that a turn begins with; undefined where it is but a hint. Its token says that it came after the last refusal; so the
 * store keeps it until one poll after that question arrived, and surely until one poll after it was sent (G5). Told too late, or of
 * a turn before, it is a hint like any other (G8).
 */
export function termOfTurn(
  turn: Turn,
  refused: RefusedQuestion,
  { ttlMs, marginMs }: LeaseSettings,
  nowMs: number,
): Pick<GrantedClaim, 'token' | 'sentMs' | 'ttlMs' | 'toldMarginMs'> | undefined {
  if (!Number.isSafeInteger(turn.token) || turn.token <= refused.token) return undefined
  const termMs = Math.min(ttlMs, QUEUE_TOLD_MS)
  if (nowMs - refused.sentMs > Math.min(TOLD_WITHIN_MS, termMs / 4)) return undefined
  return { token: turn.token, sentMs: refused.sentMs, ttlMs: termMs, toldMarginMs: (marginMs * termMs) / ttlMs }
}
