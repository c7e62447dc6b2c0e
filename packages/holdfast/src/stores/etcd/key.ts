// One key in etcd: what stands there, read in one transaction, and what that means.
import type { LeaseRecord, StoreLostReason } from '../../store/contract.js'
import type { Gateway, Limits } from './gateway.js'
import { type GrantValue, HELD, type Names, REVOKED, type WaiterValue } from './names.js'
import {
  decode,
  get,
  type KeyValue,
  NEWEST_FIRST,
  OLDEST_FIRST,
  type Op,
  type OpAnswer,
  type Txn,
  type TxnAnswer,
  tokenOf,
  valueIn,
} from './wire.js'

/** A waiter, as it stands in the queue. */
export interface Place {
  readonly claim: string
  readonly value: WaiterValue
  readonly kv: KeyValue
}

/** What was read of a key, from one claim's point of view. */
export interface Seen {
  /** The revision at which this was true. */
  readonly revision: string
  readonly held: { readonly claim: string; readonly revoked: boolean; readonly kv: KeyValue } | undefined
  readonly grant: { readonly value: GrantValue; readonly token: number; readonly changes: number } | undefined
  readonly last: string
  /** What is remembered of the claim: that it was withdrawn, or revoked by force. */
  readonly ended: string
  readonly queue: readonly Place[]
  readonly own: Place | undefined
}

/** Reads all of that. `waiters`: how many of the queue, first in line first. */
export const look = (names: Names, claim: string, waiters: number): Op[] => [
  get({ key: names.held }),
  get({ key: names.record }),
  get({ key: names.last }),
  get({ key: names.ended(claim) }),
  get({ key: names.waiting(claim) }),
  get(names.queue, { ...OLDEST_FIRST, limit: String(waiters) }),
]

/** The newest in line that came before `place`; the newest of all when there is no place. */
export const lookBefore = (names: Names, revision: string | undefined): Op =>
  get(names.queue, {
    ...NEWEST_FIRST,
    limit: '1',
    ...(revision === undefined ? {} : { max_create_revision: revision }),
  })

/** The answers to `look`. */
export function seen(answers: readonly OpAnswer[], revision: string, claim: string): Seen {
  const first = (place: number) => answers[place]?.response_range?.kvs?.[0]
  const own = first(4)
  return {
    revision,
    held: heldBy(first(0)),
    grant: grantIn(first(1)),
    last: decode(first(2)?.value),
    ended: decode(first(3)?.value),
    own: own === undefined ? undefined : { claim, value: valueIn(own), kv: own },
    queue: placesIn(answers[5]),
  }
}

export function heldBy(kv: KeyValue | undefined): Seen['held'] {
  if (kv === undefined) return undefined
  const value = decode(kv.value)
  return { claim: value.slice(1), revoked: value.startsWith(REVOKED), kv }
}

export function grantIn(kv: KeyValue | undefined): Seen['grant'] {
  if (kv === undefined) return undefined
  return { value: valueIn(kv), token: tokenOf(kv.mod_revision), changes: Number(kv.version ?? 0) }
}

export const placesIn = (answer: OpAnswer | undefined): Place[] =>
  (answer?.response_range?.kvs ?? []).map((kv) => {
    const key = decode(kv.key)
    return { claim: key.slice(key.indexOf('\0') + 1), value: valueIn(kv), kv }
  })

export const TXN = '/v3/kv/txn'

export const run = (gateway: Gateway, what: string, txn: Txn, limits: Limits): Promise<TxnAnswer> =>
  gateway.ask<TxnAnswer>(what, TXN, txn, limits)

/** What stands at the key now. */
export async function read(
  gateway: Gateway,
  names: Names,
  claim: string,
  limits: Limits,
  waiters = 1_000,
): Promise<Seen> {
  const answer = await run(gateway, 'a look', { success: look(names, claim, waiters) }, limits)
  return seen(answer.responses ?? [], answer.header?.revision ?? '0', claim)
}

/** Why a claim does not hold. */
export function whyLost(at: Seen, claim: string): StoreLostReason {
  if (at.held?.claim === claim) return at.held.revoked ? 'revoked' : 'expired'
  if (at.ended !== '') return at.ended === 'revoked' ? 'revoked' : 'released'
  if (at.last === claim) return 'released'
  if (at.held === undefined && (at.grant === undefined || at.grant.value.claim === claim)) return 'expired'
  return at.held === undefined && at.grant?.value.claim === at.last ? 'expired' : 'taken'
}

/** Whether a claim gave the key back, the last to do so. */
export const gaveBack = (at: Seen, claim: string): boolean => at.last === claim && at.ended !== 'revoked'

/** As people see it. `remainingMs`: what is left of the holder's etcd lease. */
export function recordOf(key: string, at: Seen, remainingMs: number, wallMs: number): LeaseRecord | null {
  if (at.grant === undefined && at.queue.length === 0) return null
  const { value, token = 0, changes = 0 } = at.grant ?? {}
  const isHeld = at.held !== undefined
  return {
    key,
    state: isHeld ? 'held' : 'free',
    holder: value?.holder ?? '',
    claim: at.held?.claim ?? (value === undefined || at.last === value.claim ? '' : value.claim),
    token,
    ttlMs: value?.ttlMs ?? 0,
    remainingMs: isHeld ? remainingMs : 0,
    heldMs: isHeld ? Math.max(0, wallMs - (value?.atMs ?? wallMs)) : 0,
    changes,
    revoked: at.held?.revoked ?? false,
    meta: (value?.meta ?? null) as LeaseRecord['meta'],
    waiters: at.queue.map((place) => ({
      holder: place.value.holder,
      waitedMs: Math.max(0, wallMs - place.value.sinceMs),
    })),
  }
}

export const asHeld = (claim: string) => HELD + claim
export const asRevoked = (claim: string) => REVOKED + claim
