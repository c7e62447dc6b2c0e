// The words of etcd's JSON gateway: keys and values travel as base64, ids and revisions as decimal text. Ids are never made
// numbers (they do not fit); a revision becomes one only where it is a token, and is then refused when it is not exact.
import { StoreError } from '../../lease/errors.js'

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Text that is its own UTF-8: the usual one. */
const ASCII = /^[\0-\x7f]*$/

/** Text as base64 of its UTF-8. */
export function encode(text: string): string {
  if (ASCII.test(text)) return btoa(text)
  let units = ''
  for (const byte of encoder.encode(text)) units += String.fromCharCode(byte)
  return btoa(units)
}

/** The text that was encoded. */
export function decode(base64: string | undefined): string {
  if (base64 === undefined) return ''
  return decoder.decode(Uint8Array.from(atob(base64), (unit) => unit.charCodeAt(0)))
}

/** What etcd answered. */
export function parsed<Answer>(text: string, what: string): Answer {
  try {
    return JSON.parse(text) as Answer
  } catch (cause) {
    throw new StoreError(
      `the answer to ${what} is no JSON, so it is not etcd's (${text.slice(0, 100)}): is it etcd that the endpoint names, and what is in between?`,
      { outcome: 'unknown', cause },
    )
  }
}

/** A value that Holdfast wrote. */
export function valueIn<Value extends object>({ key, value }: KeyValue): Value {
  let said: unknown
  try {
    said = JSON.parse(decode(value))
  } catch {}
  if (typeof said === 'object' && said !== null) return said as Value
  throw new StoreError(
    `"${decode(key)}" in etcd has a value that Holdfast did not write, and leaves alone: give the store a prefix of its own, or remove it`,
    { outcome: 'none', lasting: true },
  )
}

/** A key with its value, as etcd gives it. Fields that are zero or empty are left out. */
export interface KeyValue {
  readonly key: string
  readonly value?: string
  readonly create_revision?: string
  readonly mod_revision?: string
  readonly version?: string
  readonly lease?: string
}

export interface Header {
  readonly cluster_id?: string
  readonly member_id?: string
  readonly revision?: string
}

export interface RangeAnswer {
  readonly kvs?: readonly KeyValue[]
  readonly more?: boolean
  readonly count?: string
}

export interface OpAnswer {
  readonly response_range?: RangeAnswer
  readonly response_delete_range?: { readonly deleted?: string }
  readonly response_txn?: TxnAnswer
}

export interface TxnAnswer {
  readonly header?: Header
  readonly succeeded?: boolean
  readonly responses?: readonly OpAnswer[]
}

/** One condition of a transaction; without `result` one of equality. */
export type Compare = Readonly<Record<string, string>>
/** One step of a transaction. */
export type Op = Readonly<Record<string, unknown>>

export interface Txn {
  readonly compare?: readonly Compare[]
  readonly success?: readonly Op[]
  readonly failure?: readonly Op[]
}

/** A key, or all keys of a range; both as base64. */
export interface Range {
  readonly key: string
  readonly range_end?: string
}

/** Holds for a key that is not there; for a range that is empty. A condition that says nothing else is "version equals 0". */
export const isAbsent = (range: Range): Compare => ({ ...range })

export const isCreatedAt = (key: string, revision: string): Compare => ({
  key,
  target: 'CREATE',
  create_revision: revision,
})

/** Holds when nothing in the range is older than this. */
export const isNoneBefore = (range: Range, revision: string): Compare => ({
  ...range,
  target: 'CREATE',
  result: 'GREATER',
  create_revision: before(revision),
})

export const isModifiedAt = (key: string, revision: string): Compare => ({ key, target: 'MOD', mod_revision: revision })

/** Does not hold for a key that is not there. */
export const hasValue = (key: string, value: string): Compare => ({ key, target: 'VALUE', value: encode(value) })

export const isOnLease = (key: string, lease: string): Compare => ({ key, target: 'LEASE', lease })

export const put = (key: string, value: string, lease?: string): Op => ({
  request_put: lease === undefined ? { key, value: encode(value) } : { key, value: encode(value), lease },
})
export const get = (range: Range, more: Readonly<Record<string, unknown>> = {}): Op => ({
  request_range: { ...range, ...more },
})
export const del = (range: Range): Op => ({ request_delete_range: range })
export const nested = (txn: Txn): Op => ({ request_txn: txn })

/** In the order in which they were created. */
export const OLDEST_FIRST = { sort_order: 'ASCEND', sort_target: 'CREATE' } as const
export const NEWEST_FIRST = { sort_order: 'DESCEND', sort_target: 'CREATE' } as const

/** The revision one before. */
export const before = (revision: string): string => String(BigInt(revision) - 1n)
export const after = (revision: string): string => String(BigInt(revision) + 1n)

/** A revision as a token: a safe integer, never rounded. */
export function tokenOf(revision: string | undefined): number {
  const token = Number(revision ?? '0')
  if (Number.isSafeInteger(token)) return token
  throw new StoreError(`etcd's revision ${revision} is beyond 2^53 - 1: it cannot be a token`, { outcome: 'none' })
}
