// Names of leases as names in Kubernetes, one-to-one (G11). What Kubernetes takes as it is stands for itself, so that a Lease can be
// shared with others; all else is written out with `-` and two hexadecimal digits a byte; what is then too long goes by its digest.
import { sha256 } from '../../idempotency/sha256.js'
import { InvalidArgumentError } from '../../lease/errors.js'

const LENGTH_MAX = 253
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const OURS = 'holdfast-'
const WRITTEN_OUT = `${OURS}k-`
const DIGEST = `${OURS}h-`

const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/

export function checkNamespace(namespace: unknown): asserts namespace is string {
  if (typeof namespace === 'string' && LABEL.test(namespace)) return
  const expected = 'must name a namespace: at most 63 small letters, digits and hyphens'
  throw new InvalidArgumentError('namespace', namespace, expected)
}

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true })

/** The name of the Lease. */
export function toLeaseName(key: string): string {
  if (key.length <= LENGTH_MAX && SUBDOMAIN.test(key) && !key.startsWith(OURS)) return key
  let name = WRITTEN_OUT
  for (const byte of encoder.encode(key)) {
    const sign = String.fromCharCode(byte)
    name += /[a-z0-9]/.test(sign) ? sign : `-${byte.toString(16).padStart(2, '0')}`
  }
  return name.length <= LENGTH_MAX ? name : `${DIGEST}${sha256(key)}`
}

/** Whether the name does not tell the key, which then stands in an annotation. */
export const isDigest = (name: string): boolean => name.startsWith(DIGEST)

/** The key of a Lease; undefined where the name does not tell it, or is nobody's. */
export function fromLeaseName(name: string): string | undefined {
  if (!name.startsWith(OURS)) return name
  if (!name.startsWith(WRITTEN_OUT)) return undefined
  const text = name.slice(WRITTEN_OUT.length)
  const bytes: number[] = []
  for (let place = 0; place < text.length; place++) {
    if (text[place] !== '-') bytes.push(text.charCodeAt(place))
    else {
      bytes.push(Number.parseInt(text.slice(place + 1, place + 3), 16))
      place += 2
    }
  }
  try {
    const key = decoder.decode(Uint8Array.from(bytes))
    return toLeaseName(key) === name ? key : undefined
  } catch {
    return undefined
  }
}
