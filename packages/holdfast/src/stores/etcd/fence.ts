// Fences for what the application keeps in etcd: the check of the token and the write are one transaction (G7). What was admitted
// stands as text of fixed width, so that etcd can compare it. And the owner's check: compares that hold only while the grant does.
import { type AdmitOptions, checkGrant, resourceOf } from '../../fence/fence.js'
import { type Clock, systemClock } from '../../lease/clock.js'
import { InvalidArgumentError, StaleTokenError } from '../../lease/errors.js'
import { checkKey } from '../../lease/keys.js'
import type { Grant } from '../../store/contract.js'
import { type EtcdConnection, Gateway } from './gateway.js'
import { asHeld, run } from './key.js'
import { namesOf } from './names.js'
import {
  type Compare,
  decode,
  del,
  encode,
  get,
  hasValue,
  isAbsent,
  isModifiedAt,
  nested,
  type Op,
  put,
  type TxnAnswer,
} from './wire.js'

/** What `etcdFence` takes. */
export interface EtcdFenceOptions extends EtcdConnection {
  /** What the fences' own keys begin with: default `holdfast-fence/`. */
  readonly prefix?: string
  /** What the store was given: where the leases are, for `whileHeld`. Default `holdfast/`. */
  readonly leases?: string
  /** For time-outs. Default: this machine's. */
  readonly clock?: Clock
}

/** A transaction as etcd's JSON gateway takes it: keys and values are base64. */
export interface EtcdTransaction {
  readonly compare?: readonly Readonly<Record<string, string>>[]
  readonly success?: readonly Readonly<Record<string, unknown>>[]
  readonly failure?: readonly Readonly<Record<string, unknown>>[]
}

/** What became of it. */
export interface EtcdTransactionAnswer {
  readonly succeeded: boolean
  readonly responses: readonly unknown[]
}

/** A fence in an application's etcd. */
export interface EtcdFence {
  /** Sets a key, if the grant is admitted (G7). Rejects with StaleTokenError when a bigger token, or an equal one of another claim, was. */
  put(grant: Grant, key: string, value: string, options?: AdmitOptions): Promise<void>
  /** Deletes a key, if the grant is admitted (G7). Rejects with StaleTokenError as `put` does. */
  delete(grant: Grant, key: string, options?: AdmitOptions): Promise<void>
  /** The application's own transaction, if the grant is admitted, in the same step (G7). Rejects with StaleTokenError as `put` does. */
  transaction(grant: Grant, txn: EtcdTransaction, options?: AdmitOptions): Promise<EtcdTransactionAnswer>
  /** The same as the body of one request to `/v3/kv/txn`, for code that sends it itself. Give its answer to `verify`. */
  statement(grant: Grant, txn: EtcdTransaction, options?: AdmitOptions): EtcdTransaction
  /** The verdict on the answer to `statement`: throws StaleTokenError when the grant was refused (G7). */
  verify(grant: Grant, answer: unknown, options?: AdmitOptions): EtcdTransactionAnswer
  /**
   * Compares that hold only while the grant does, for a transaction in the etcd that keeps the lease: then the commit depends on still
   * holding (G1). They remember nothing: use them beside `put` and `transaction`, or where all writers use them.
   */
  whileHeld(grant: Grant): readonly Readonly<Record<string, string>>[]
}

function checkTransaction(txn: unknown): void {
  const parts = typeof txn === 'object' && txn !== null ? (txn as Record<string, unknown>) : undefined
  if (
    parts !== undefined &&
    ['compare', 'success', 'failure'].every((of) => parts[of] === undefined || Array.isArray(parts[of]))
  )
    return
  throw new InvalidArgumentError('txn', txn, 'must be a transaction of the JSON gateway: { compare, success, failure }')
}

/** As many digits as the biggest token has. */
const DIGITS = 16
const fixed = (token: number) => String(token).padStart(DIGITS, '0')

/**
 * A fence for what the application keeps in etcd.
 *
 * Throws InvalidArgumentError for options that cannot be right.
 *
 * @example
 * ```ts no-run
 * const fence = etcdFence({ endpoints: ['http://127.0.0.1:2379'] })
 * await leases.hold('config', async ({ grant }) => {
 *   await fence.put(grant, 'config/current', 'blue') // rejects with StaleTokenError when a later holder has written
 * })
 * ```
 */
export function etcdFence(options: EtcdFenceOptions): EtcdFence {
  if (typeof options !== 'object' || options === null) {
    throw new InvalidArgumentError('options', options, 'must be an object with `endpoints`')
  }
  const { prefix = 'holdfast-fence/', leases = 'holdfast/', clock = systemClock } = options
  checkKey('prefix', prefix, 128)
  checkKey('leases', leases, 128)
  const gateway = new Gateway(options, clock)

  function statement(grant: Grant, txn: EtcdTransaction, admit?: AdmitOptions): EtcdTransaction {
    checkGrant(grant)
    checkTransaction(txn)
    const key = encode(prefix + resourceOf(grant, admit))
    const mine = `${fixed(grant.token)}:${grant.claim}`
    const own = nested(txn as { compare?: readonly Compare[]; success?: readonly Op[]; failure?: readonly Op[] })
    // First what is usual, then what is rare: a smaller token, this very one, none.
    const first = { compare: [isAbsent({ key })], success: [put(key, mine), own], failure: [get({ key })] }
    const again = { compare: [hasValue(key, mine)], success: [own], failure: [nested(first)] }
    const smaller: Compare = { key, target: 'VALUE', result: 'LESS', value: encode(fixed(grant.token)) }
    return { compare: [smaller], success: [put(key, mine), own], failure: [nested(again)] }
  }

  function verify(grant: Grant, answer: unknown, admit?: AdmitOptions): EtcdTransactionAnswer {
    checkGrant(grant)
    const outer = answer as TxnAnswer | null | undefined
    const again = outer?.responses?.[0]?.response_txn
    const first = again?.responses?.[0]?.response_txn
    let own: TxnAnswer | undefined
    if (outer?.succeeded === true) own = outer.responses?.[1]?.response_txn
    else if (again?.succeeded === true) own = first
    else if (first?.succeeded === true) own = first.responses?.[1]?.response_txn
    else {
      const admitted = decode(first?.responses?.[0]?.response_range?.kvs?.[0]?.value)
      if (admitted !== '')
        throw new StaleTokenError(resourceOf(grant, admit), grant.token, Number(admitted.slice(0, DIGITS)))
    }
    if (own === undefined)
      throw new InvalidArgumentError(
        'answer',
        answer,
        'must be what etcd answers to the statement, as JSON: whether it was admitted cannot be told from anything else',
      )
    return { succeeded: own.succeeded === true, responses: own.responses ?? [] }
  }

  async function transaction(grant: Grant, txn: EtcdTransaction, admit?: AdmitOptions): Promise<EtcdTransactionAnswer> {
    const body = statement(grant, txn, admit)
    const limits = gateway.limits(undefined)
    return verify(grant, await run(gateway, 'a fenced write', body as Parameters<typeof run>[2], limits), admit)
  }

  return {
    async put(grant, key, value, admit) {
      checkKey('key', key)
      if (typeof value !== 'string') throw new InvalidArgumentError('value', value, 'must be a string')
      await transaction(grant, { success: [put(encode(key), value)] }, admit)
    },

    async delete(grant, key, admit) {
      checkKey('key', key)
      await transaction(grant, { success: [del({ key: encode(key) })] }, admit)
    },

    transaction,
    statement,
    verify,

    whileHeld(grant) {
      checkGrant(grant)
      const { held, record } = namesOf(leases, grant.key)
      return [hasValue(held, asHeld(grant.claim)), isModifiedAt(record, String(grant.token))]
    },
  }
}
