// `fencedFetch`: requests that carry the grant of a lease, so that the server can refuse those of a holder that came too late.

import { InvalidArgumentError } from '../lease/errors.js'
import type { Lease } from '../lease/lease.js'
import { checkMethods } from '../lease/options.js'
import { type ClaimForm, formatGrant, GRANT_HEADER } from './grant-header.js'

/** Options of `fencedFetch`. */
export interface FencedFetchOptions {
  /** What sends the requests. Default: the platform's `fetch`. */
  fetch?: ((input: Request) => Promise<Response>) | undefined
  /** The name of the header. Default `Fencing-Grant`. */
  header?: string | undefined
  /** How the claim is sent. Default `digest`: who reads the header cannot renew or release the lease with it. */
  claim?: ClaimForm | undefined
}

const REDIRECTS_MAX = 20
const REDIRECTS = new Set([301, 302, 303, 307, 308])

/**
 * A `fetch` that puts the grant of the lease into a header of every request. It rejects with LeaseLostError, before anything is sent,
 * when the lease is not held, and aborts what is under way with the lease's signal (G5).
 *
 * A redirect to another origin is not followed: its response is given as it is, so that the grant does not leak. One within the
 * origin is followed with the grant, unless the request says otherwise; in browsers, which do not tell where a redirect leads, none
 * is. What the server makes of the grant is up to its guard (`fenced`), and to the fence of its own writes (G7).
 *
 * @example
 * ```ts no-run
 * await leases.hold('invoice:42', async (lease) => {
 *   const send = fencedFetch(lease)
 *   const response = await send('https://billing.example/invoices/42', { method: 'PUT', body: '{"paid":true}' })
 *   if (response.status === 412) log('a later holder has written')
 * })
 * ```
 */
export function fencedFetch(
  lease: Pick<Lease, 'grant' | 'signal' | 'assertHeld'>,
  options: FencedFetchOptions = {},
): (input: string | URL | Request, init?: RequestInit) => Promise<Response> {
  checkMethods('lease', lease, ['assertHeld'], 'must be a lease')
  const { fetch: send = (request: Request) => fetch(request), header = GRANT_HEADER, claim = 'digest' } = options
  checkHeaderName(header)
  if (claim !== 'digest' && claim !== 'full')
    throw new InvalidArgumentError('claim', claim, "must be 'digest' or 'full'")

  return async (input, init) => {
    lease.assertHeld()
    const asked = new Request(input, init)
    const signal = AbortSignal.any([lease.signal, asked.signal])
    const headers = new Headers(asked.headers)
    headers.set(header, formatGrant(lease.grant, claim))
    const follow = asked.redirect === 'follow'
    let request = new Request(asked, { headers, signal, ...(follow && { redirect: 'manual' as const }) })
    for (let redirects = 0; ; redirects++) {
      lease.assertHeld()
      const repeat = follow ? request.clone() : request
      const response = await send(request)
      const next = follow && redirects < REDIRECTS_MAX ? redirected(repeat, response) : undefined
      if (next === undefined) {
        void repeat.body?.cancel().catch(() => {})
        return response
      }
      void response.body?.cancel().catch(() => {})
      request = next
    }
  }
}

/** The request to follow with; undefined when the response is the answer. */
function redirected(request: Request, { status, headers }: Response): Request | undefined {
  const location = headers.get('location')
  if (location === null || !REDIRECTS.has(status)) return undefined
  const from = new URL(request.url)
  const to = safely(location, from)
  if (to === null || to.origin !== from.origin) return undefined
  const { method } = request
  const asGet =
    (status === 303 && method !== 'GET' && method !== 'HEAD') ||
    ((status === 301 || status === 302) && method === 'POST')
  if (!asGet) return new Request(to, request)
  void request.body?.cancel().catch(() => {})
  const kept = new Headers(request.headers)
  for (const name of ['content-encoding', 'content-language', 'content-location', 'content-type', 'content-length']) {
    kept.delete(name)
  }
  return new Request(to, { method: 'GET', headers: kept, signal: request.signal, redirect: 'manual' })
}

function safely(location: string, from: URL): URL | null {
  try {
    return new URL(location, from)
  } catch {
    return null
  }
}

/** Refuses what cannot name a header. */
export function checkHeaderName(header: unknown): asserts header is string {
  if (typeof header === 'string' && /^[\w!#$%&'*+.^`|~-]+$/.test(header)) return
  throw new InvalidArgumentError('header', header, 'must be the name of a header')
}
