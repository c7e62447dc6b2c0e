// What the functions answer, read. Numbers come as JSON, where every token is exact: one that is not a safe integer is refused,
// never rounded.
import { StoreError } from '../../lease/errors.js'
import type {
  Granted,
  Held,
  Json,
  LeaseRecord,
  ReleaseOutcome,
  RenewOutcome,
  StoreLostReason,
} from '../../store/contract.js'
import type { Row } from './client.js'

/** The row of the key is locked by somebody else; nothing was done. */
export const LOCKED = -7
/** The key has no token left. */
const NO_TOKEN = -8

const BECAUSE: Record<number, Held['because']> = { [-1]: 'held', [-2]: 'reserved', [-3]: 'ended', [-4]: 'revoked' }
const LOST: Record<number, StoreLostReason> = { 0: 'expired', [-1]: 'taken', [-2]: 'revoked', [-3]: 'released' }

/** The answer to one operation: a number in the plain cases. */
export type Reply = number | readonly unknown[]

/** The answers of a statement, in the order of its operations; null when it was not READ COMMITTED, and did nothing. */
export function repliesOf(row: Row | undefined): Reply[] | null {
  if (row === undefined || typeof row.plain !== 'string') return null
  const plain = JSON.parse(row.plain) as (number | null)[]
  if (typeof row.rest !== 'string') return plain as Reply[]
  const rest = JSON.parse(row.rest) as Record<string, readonly unknown[]>
  return plain.map((answer, place) => answer ?? rest[place] ?? [LOCKED])
}

export const isLocked = (reply: Reply): boolean => (typeof reply === 'number' ? reply : reply[0]) === LOCKED

export function readAcquire(reply: Reply, key: string, ttlMs: number): Granted | Held {
  if (typeof reply === 'number') return { is: 'granted', token: safe(reply, key), ttlMs }
  const code = Number(reply[0])
  if (code === 1) return { is: 'granted', token: safe(reply[1], key), ttlMs, ...replacedOf(reply[2]) }
  if (code === NO_TOKEN) {
    throw new StoreError(`the next token of "${key}" would be beyond 2^53 - 1: this key can be granted no more`, {
      outcome: 'none',
    })
  }
  const [, holder, token, remainingMs, replaced] = reply
  return {
    is: 'held',
    because: BECAUSE[code] ?? 'held',
    holder: String(holder),
    token: safe(token, key),
    remainingMs: Number(remainingMs),
    ...replacedOf(replaced),
  }
}

export function readRenew(reply: Reply, ttlMs: number): RenewOutcome {
  return reply === 1 ? { is: 'renewed', ttlMs } : { is: 'lost', reason: LOST[Number(reply)] ?? 'expired' }
}

export function readRelease(reply: Reply): ReleaseOutcome {
  return reply === 1 ? { is: 'released' } : { is: 'lost', reason: LOST[Number(reply)] ?? 'expired' }
}

/** A record as F_record gives it; null for a key that was never granted and has no queue. */
export function readRecord(text: unknown): LeaseRecord | null {
  if (typeof text !== 'string' || text === 'null') return null
  const fields = JSON.parse(text) as unknown[]
  const [key, held, holder, claim, token, ttlMs, remainingMs, heldMs, changes, revoked, meta, waiters] = fields
  const waiting = (waiters ?? []) as [string, number][]
  if (changes === 0 && waiting.length === 0) return null
  return {
    key: String(key),
    state: held === true ? 'held' : 'free',
    holder: String(holder),
    claim: String(claim),
    token: safe(token, String(key)),
    ttlMs: Number(ttlMs),
    remainingMs: Number(remainingMs),
    heldMs: Number(heldMs),
    changes: Number(changes),
    revoked: held === true && revoked === true,
    meta: typeof meta === 'string' ? (JSON.parse(meta) as Json) : null,
    waiters: waiting.map(([name, waitedMs]) => ({ holder: name, waitedMs })),
  }
}

function safe(token: unknown, key: string): number {
  if (Number.isSafeInteger(token)) return token as number
  throw new StoreError(`the row of "${key}" has a token beyond 2^53 - 1, which no Holdfast wrote: correct it`, {
    outcome: 'none',
  })
}

const replacedOf = (replaced: unknown) =>
  replaced === undefined || Number(replaced) === -1 ? {} : { replaced: Number(replaced) === 1 }
