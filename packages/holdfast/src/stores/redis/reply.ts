// The scripts' answers, read. Small numbers stand for what is short to say; lists carry the rest (lua.ts). Drivers may give
// numbers as text, and text as buffers.
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

const BECAUSE: Record<number, Held['because']> = { [-1]: 'held', [-2]: 'reserved', [-3]: 'ended', [-4]: 'revoked' }
const LOST: Record<number, StoreLostReason> = { 0: 'expired', [-1]: 'taken', [-2]: 'revoked', [-3]: 'released' }
const FOREIGN = -9
const NO_TOKEN_LEFT = -8

/** The answer for each of so many keys: for one key, the script does not make a list of it. */
export const each = (reply: unknown, count: number): readonly unknown[] =>
  count === 1 ? [reply] : (reply as readonly unknown[])

export function readAcquire(reply: unknown, key: string, ttlMs: number): Granted | Held {
  if (!Array.isArray(reply)) return { is: 'granted', token: Number(reply), ttlMs }
  const [code, ...rest] = reply as unknown[]
  const kind = Number(code)
  if (kind === 1) {
    const [token, replaced] = rest
    return { is: 'granted', token: Number(token), ttlMs, ...replacedOf(replaced) }
  }
  if (kind === NO_TOKEN_LEFT) {
    throw new StoreError(`the next token would be beyond 2^53 - 1: "${key}" can be granted no more`, {
      outcome: 'none',
    })
  }
  if (kind === FOREIGN) throw foreign(key, rest[0])
  const [holder, token, remainingMs, replaced] = rest
  return {
    is: 'held',
    because: BECAUSE[kind] ?? 'held',
    holder: String(holder),
    token: Number(token),
    remainingMs: Number(remainingMs),
    ...replacedOf(replaced),
  }
}

export function readRenew(reply: unknown, key: string, ttlMs: number): RenewOutcome {
  const code = Number(reply)
  if (code === 1) return { is: 'renewed', ttlMs }
  if (code === FOREIGN) return { is: 'unknown', cause: foreign(key, 'something else') }
  return { is: 'lost', reason: LOST[code] ?? 'expired' }
}

export function readRelease(reply: unknown, key: string): ReleaseOutcome {
  checkOurs(reply, key)
  const code = Number(reply)
  if (code === 1) return { is: 'released' }
  return { is: 'lost', reason: LOST[code] ?? 'expired' }
}

/** Null for a key of which there is nothing to tell. */
export function readRecord(reply: unknown, key: string): LeaseRecord | null {
  if (!Array.isArray(reply)) return null
  checkOurs(reply, key)
  const [held, holder, claim, token, ttlMs, remainingMs, heldMs, changes, revoked, meta, ...waiters] =
    reply as unknown[]
  return {
    key,
    state: Number(held) === 1 ? 'held' : 'free',
    holder: String(holder),
    claim: String(claim),
    token: Number(token),
    ttlMs: Number(ttlMs),
    remainingMs: Number(remainingMs),
    heldMs: Number(heldMs),
    changes: Number(changes),
    revoked: Number(revoked) === 1,
    meta: String(meta) === '' ? null : (JSON.parse(String(meta)) as Json),
    waiters: pairs(waiters).map(([name, waitedMs]) => ({ holder: String(name), waitedMs: Number(waitedMs) })),
  }
}

/** Whether the key has a value that no Holdfast wrote. */
export const isForeign = (reply: unknown): boolean => Array.isArray(reply) && Number(reply[0]) === FOREIGN

export function checkOurs(reply: unknown, key: string): void {
  if (isForeign(reply)) throw foreign(key, (reply as unknown[])[1])
}

const foreign = (key: string, type: unknown) =>
  new StoreError(
    `"${key}" has a value in Redis that Holdfast did not write (a ${String(type)}), and leaves alone: give redisStore another prefix, or remove it`,
    { outcome: 'none', lasting: true },
  )

const replacedOf = (replaced: unknown) => (Number(replaced) === -1 ? {} : { replaced: Number(replaced) === 1 })

function pairs(flat: readonly unknown[]): [unknown, unknown][] {
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]])
}
