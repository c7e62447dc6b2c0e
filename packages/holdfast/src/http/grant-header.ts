// How a grant travels in a header: a dictionary of strings (RFC 9651), such as
//
//   Fencing-Grant: token="1764543210123456", key="invoice%3A42", claim="sha256-N3t…"
//
// The token is text, since integers of structured fields end at 15 digits. The key is percent-encoded, since their strings are ASCII.
// The claim is sent as its digest: whoever knows the claim itself can renew and release the lease, and headers end up in logs. A fence
// compares claims only for equality, for which the digest does as well.
import { checkGrant } from '../fence/fence.js'
import { sha256 } from '../idempotency/sha256.js'
import { InvalidArgumentError } from '../lease/errors.js'
import type { Grant } from '../store/contract.js'

/** The default name of the header. */
export const GRANT_HEADER = 'Fencing-Grant'

/** How the claim is sent: as its digest, or as it is. */
export type ClaimForm = 'digest' | 'full'

/**
 * The value of the header for a grant. With `full` the claim itself is sent: for where the same resource's fence is also used with
 * the grant itself, and the way there is as safe as the lease is important.
 *
 * Throws InvalidArgumentError for what is no grant.
 *
 * @example
 * ```ts
 * const value = formatGrant(grant) // token="7", key="reports%2Fdaily", claim="sha256-…"
 * ```
 */
export function formatGrant(grant: Grant, claim: ClaimForm = 'digest'): string {
  checkGrant(grant)
  const sent = claim === 'full' ? `full-${grant.claim}` : `sha256-${sha256(grant.claim)}`
  return `token="${grant.token}", key="${encode(grant.key)}", claim="${encode(sent)}"`
}

/**
 * The grant in the value of a header. Its claim is what was sent (`sha256-…`), its holder is empty.
 *
 * Throws InvalidArgumentError for what is no such value.
 *
 * @example
 * ```ts
 * const received = parseGrant('token="7", key="reports%2Fdaily", claim="sha256-abc"')
 * ```
 */
export function parseGrant(value: string): Grant {
  const members = new Map<string, string>()
  let rest = value.trim()
  while (rest !== '') {
    const member =
      /^([a-z*][a-z0-9_.*-]*)=(?:"([\x20\x21\x23-\x5b\x5d-\x7e]*)"|(\?[01]|[\w.:/+-]+))[\t ]*(?:,[\t ]*(?=\S)|$)/.exec(
        rest,
      )
    if (member === null) throw malformed(value)
    const [all, name = '', text] = member
    if (members.has(name)) throw malformed(value) // which of the two is meant?
    if (text !== undefined) members.set(name, text)
    rest = rest.slice(all.length)
  }
  const token = members.get('token') ?? ''
  const grant = {
    key: decode(members.get('key'), value),
    token: Number(token),
    claim: decode(members.get('claim'), value),
  }
  if (!/^[1-9]\d{0,15}$/.test(token)) throw malformed(value)
  const claim = grant.claim.startsWith('full-') ? grant.claim.slice(5) : grant.claim
  const received: Grant = { ...grant, claim, holder: '' }
  checkGrant(received)
  return received
}

const malformed = (value: string) =>
  new InvalidArgumentError('grant', value, 'must be as in token="7", key="invoice%3A42", claim="sha256-..."')

/** Everything but letters, digits and -._~ as %XX of its UTF-8. */
const encode = (text: string): string =>
  encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)

function decode(text: string | undefined, value: string): string {
  if (text === undefined) throw malformed(value)
  try {
    return decodeURIComponent(text)
  } catch {
    throw malformed(value)
  }
}
