// How operations travel and what the procedures answer. Texts go as hex digits within JSON, so that nothing on the way has to know
// a character set; numbers come back as text, where every token is exact: one that is not a safe integer is refused, never rounded.
import { InvalidArgumentError, StoreError } from '../../lease/errors.js'
import type {
  AcquireRequest,
  Granted,
  Held,
  Json,
  LeaseRecord,
  ReleaseOutcome,
  RenewOutcome,
  RenewRequest,
  StoreLostReason,
} from '../../store/contract.js'
import { textOf } from './client.js'
import type { Row } from './server.js'

/** The row of the key is locked by somebody else; nothing was done. */
const LOCKED = -7
/** The key has no token left. */
const NO_TOKEN = -8

const BECAUSE: Record<number, Held['because']> = { [-1]: 'held', [-2]: 'reserved', [-3]: 'ended', [-4]: 'revoked' }
const LOST: Record<number, StoreLostReason> = { 0: 'expired', [-1]: 'taken', [-2]: 'revoked', [-3]: 'released' }

const CLAIM_BYTES_MAX = 255

/** The answer to one operation. */
export interface Reply {
  readonly is: number
  readonly token: number
  readonly leftUs: number
  readonly replaced: number
  readonly holder: string
  /** Whose turn has come; empty: anybody's. */
  readonly wake: string | undefined
}

export const isLocked = (reply: Reply): boolean => reply.is === LOCKED

const hexOf = (text: string) => Buffer.from(text, 'utf8').toString('hex')
const fromHex = (digits: string) => Buffer.from(digits, 'hex').toString('utf8')

/** A text as the driver sends it: bytes, whatever the character set of the connection. */
export const bytesOf = (text: string): Uint8Array => Buffer.from(text, 'utf8')

/** A claim has a column of limited size. */
export function checkClaim(claim: string): void {
  if (claim.length * 3 <= CLAIM_BYTES_MAX || Buffer.byteLength(claim) <= CLAIM_BYTES_MAX) return
  throw new InvalidArgumentError('claim', claim, `must be at most ${CLAIM_BYTES_MAX} bytes of UTF-8`)
}

/** The parameters of P_acquire: operations, their number, holders. */
export function acquireValues(requests: readonly AcquireRequest[]): [string, number, string] {
  const holders = new Map<string, number>()
  const ops = requests.map((request) => {
    const { key, claim, holder, ttlMs, queue, replaces = '', tokenFloor = 0, meta = null } = request
    const place = holders.get(holder) ?? holders.size
    holders.set(holder, place)
    const op: (string | number)[] = [hexOf(key), hexOf(claim), ttlMs, queue?.pollMs ?? 0, place]
    if (replaces !== '' || tokenFloor > 0 || meta !== null) {
      op.push(hexOf(replaces), tokenFloor, meta === null ? '' : hexOf(JSON.stringify(meta)))
    }
    return op
  })
  return [JSON.stringify(ops), ops.length, JSON.stringify([...holders.keys()].map(hexOf))]
}

export const renewValues = (leases: readonly RenewRequest[]): [string, number] => [
  JSON.stringify(leases.map(({ key, claim, ttlMs }) => [hexOf(key), hexOf(claim), ttlMs])),
  leases.length,
]

export const releaseValues = (claims: readonly { key: string; claim: string }[]): [string, number] => [
  JSON.stringify(claims.map(({ key, claim }) => [hexOf(key), hexOf(claim)])),
  claims.length,
]

/** What went as was asked. */
export const DONE: Reply = { is: 1, token: 0, leftUs: 0, replaced: -1, holder: '', wake: undefined }

/** The answers to an acquire: those that are not named were granted with the token `at_us`. */
export function acquireReplies(row: Row | undefined, count: number): Reply[] {
  const at = Number(textOf(row?.at_us))
  const replies = Array.from({ length: count }, () => ({ ...DONE, token: at }))
  for (const cells of answersOf(row)) {
    const [place, is, token, left, replaced, holder = '', wake = ''] = cells
    replies[Number(place) - 1] = {
      is: Number(is),
      token: Number(token),
      leftUs: Number(left),
      replaced: Number(replaced),
      holder: fromHex(holder),
      wake: wake === '' ? undefined : fromHex(wake),
    }
  }
  return replies
}

/** The answers to a renewal or a release: those that are not named went as was asked. */
export function plainReplies(row: Row | undefined, count: number, wake?: string): Reply[] {
  const replies = Array.from({ length: count }, (): Reply => ({ ...DONE, wake }))
  for (const [place, is, digits = '-'] of answersOf(row)) {
    replies[Number(place) - 1] = { ...DONE, is: Number(is), wake: digits === '-' ? undefined : fromHex(digits) }
  }
  return replies
}

/** The answer of a procedure for one key: `is,wake`. */
export function oneReply(row: Row | undefined): Reply {
  const [is, digits = '-'] = textOf(row?.answers).split(',')
  return { ...DONE, is: Number(is), wake: digits === '-' ? undefined : fromHex(digits) }
}

function answersOf(row: Row | undefined): string[][] {
  const text = textOf(row?.answers)
  if (text === '') return []
  return text
    .slice(0, -1)
    .split(';')
    .map((answer) => answer.split(','))
}

export function readAcquire(reply: Reply, key: string, ttlMs: number): Granted | Held {
  const { is, token, leftUs, holder, replaced } = reply
  if (is === NO_TOKEN) {
    throw new StoreError(`the next token of "${key}" would be beyond 2^53 - 1: this key can be granted no more`, {
      outcome: 'none',
    })
  }
  const replacedToo = replaced === -1 ? {} : { replaced: replaced === 1 }
  if (is === 1) return { is: 'granted', token: safe(token, key), ttlMs, ...replacedToo }
  return {
    is: 'held',
    because: BECAUSE[is] ?? 'held',
    holder,
    token: safe(token, key),
    remainingMs: Math.ceil(leftUs / 1000),
    ...replacedToo,
  }
}

export const readRenew = ({ is }: Reply, ttlMs: number): RenewOutcome =>
  is === 1 ? { is: 'renewed', ttlMs } : { is: 'lost', reason: LOST[is] ?? 'expired' }

export const readRelease = ({ is }: Reply): ReleaseOutcome =>
  is === 1 ? { is: 'released' } : { is: 'lost', reason: LOST[is] ?? 'expired' }

/** Records out of rows that have one waiter each; null for a key that was never granted and has no queue. */
export function readRecords(rows: readonly Row[]): { key: string; record: LeaseRecord | null }[] {
  const byKey = new Map<string, Row[]>()
  for (const row of rows) {
    const key = textOf(row.lease_key)
    const same = byKey.get(key)
    if (same === undefined) byKey.set(key, [row])
    else same.push(row)
  }
  return [...byKey].map(([key, same]) => ({ key, record: readRecord(key, same) }))
}

function readRecord(key: string, rows: readonly Row[]): LeaseRecord | null {
  const [row = {}] = rows
  const number = (column: string) => Number(textOf(row[column]))
  const [atUs, expiresUs, changes] = [number('at_us'), number('expires_us'), number('changes')]
  const claim = textOf(row.claim)
  const held = claim !== '' && atUs < expiresUs
  const waiters = rows
    .filter((waiter) => waiter.since_us !== null)
    .map((waiter) => ({
      holder: textOf(waiter.waiter),
      waitedMs: Math.max(0, Math.floor((atUs - Number(textOf(waiter.since_us))) / 1000)),
    }))
  if (changes === 0 && waiters.length === 0) return null
  const meta = textOf(row.meta)
  return {
    key,
    state: held ? 'held' : 'free',
    holder: textOf(row.holder),
    claim,
    token: safe(number('token'), key),
    ttlMs: number('ttl_ms'),
    remainingMs: held ? Math.ceil((expiresUs - atUs) / 1000) : 0,
    heldMs: held ? Math.max(0, Math.floor((atUs - number('granted_us')) / 1000)) : 0,
    changes,
    revoked: held && number('revoked') === 1,
    meta: meta === '' ? null : (JSON.parse(meta) as Json),
    waiters,
  }
}

export function safe(token: number, key: string): number {
  if (Number.isSafeInteger(token)) return token
  throw new StoreError(`the row of "${key}" has a token beyond 2^53 - 1, which no Holdfast wrote: correct it`, {
    outcome: 'none',
  })
}
