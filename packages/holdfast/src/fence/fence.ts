// The rule of every fence (G7), once. A fence is the memory, beside the data, of the biggest token that was admitted for a
// resource and of the claim that had it: whoever comes with less comes too late, however sure he is that he holds the lease.
// Stores of data say the rule in their own language, in the same atomic step as the write; this is what they must say.
import { InvalidArgumentError } from '../lease/errors.js'
import { checkKey } from '../lease/keys.js'
import type { Grant } from '../store/contract.js'

/** What a fence remembers of a resource, and what a write brings. */
export interface Admission {
  readonly token: number
  readonly claim: string
}

/** What `admit` takes beside the grant. */
export interface AdmitOptions {
  /**
   * What is guarded: default, the key of the lease. One resource belongs to one lease key in one lease store, since tokens of
   * two keys say nothing about each other.
   */
  readonly resource?: string
}

/**
 * Whether a write is admitted after `admitted`: a bigger token always, an equal one of the same claim again, and nothing else.
 * Two claims with one token come from a lease store that lost its memory; which of the two is right nobody can know, so the
 * second is refused.
 */
export function admits(admitted: Admission | undefined, asked: Admission): boolean {
  if (admitted === undefined || asked.token > admitted.token) return true
  return asked.token === admitted.token && asked.claim === admitted.claim
}

/** Refuses what is no grant: a token that is missing, rounded or text must not get past a fence by looking big enough. */
export function checkGrant(grant: unknown): asserts grant is Grant {
  if (typeof grant !== 'object' || grant === null) {
    throw new InvalidArgumentError('grant', grant, 'must be the grant of a lease: lease.grant')
  }
  const { key, token, claim } = grant as Record<string, unknown>
  checkKey('grant.key', key)
  if (typeof token !== 'number' || !Number.isSafeInteger(token) || token < 1) {
    throw new InvalidArgumentError('grant.token', token, 'must be a whole number from 1 to 2^53 - 1')
  }
  if (typeof claim !== 'string' || claim === '') {
    throw new InvalidArgumentError('grant.claim', claim, 'must be a non-empty string')
  }
}

/** The name under which the fence remembers. */
export function resourceOf(grant: Grant, { resource = grant.key }: AdmitOptions = {}): string {
  checkKey('resource', resource)
  return resource
}
