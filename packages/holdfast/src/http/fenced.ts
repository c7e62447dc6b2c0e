// `fenced`: a guard before a server's handler. It reads the grant, asks a fence, and answers a holder that came too late with 412. That
// is admission at the door: between it and the handler's own write a bigger token may be admitted, so the write should be fenced as
// well, with the same grant; what its fence throws becomes a 412 too.
import { InvalidArgumentError, StaleTokenError } from '../lease/errors.js'
import { checkFunction, checkOptions } from '../lease/options.js'
import type { Grant } from '../store/contract.js'
import { checkHeaderName } from './fenced-fetch.js'
import { GRANT_HEADER, parseGrant } from './grant-header.js'
import { type Problem, problemAnswer, responseOf } from './problem.js'

/** Options of `fenced`. */
export interface FencedOptions {
  /**
   * Which lease key a request needs, from its URL, in full, with the prefix of the client that holds it: a grant for another key says
   * nothing about this resource, and is refused with 403.
   */
  key(request: Request): string | Promise<string>
  /**
   * Asks a fence, of whatever kind, and rejects with StaleTokenError when it refuses. The grant's claim is what was sent: its digest,
   * unless the client sends it in full.
   */
  admit(grant: Grant, request: Request): unknown
  /** The name of the header. Default `Fencing-Grant`. */
  header?: string | undefined
  /** The status of a request that has no grant; `pass` lets it through, with no grant. Default 428. */
  missing?: 428 | 400 | 401 | 403 | 'pass' | undefined
}

/** A web-standard handler behind the guard. */
export type FencedHandler = (request: Request, grant: Grant | undefined) => Response | Promise<Response>

/**
 * Puts a guard before a web-standard handler: 412 for a token that is smaller than one that the fence has admitted (G7), 400 for a
 * malformed header, 428 when it is missing, 403 for a grant of another key; each as a problem document (RFC 9457). StaleTokenError of
 * the handler's own fenced write becomes a 412 too. Other errors pass.
 *
 * @example
 * ```ts
 * const admitted = new Map<string, number>() // in real life a fence, such as that of Postgres or Redis
 * const guard = fenced({
 *   key: (request) => `invoice:${new URL(request.url).pathname.split('/').at(-1)}`,
 *   admit({ key, token }) {
 *     if (token < (admitted.get(key) ?? 0)) throw new StaleTokenError(key, token)
 *     admitted.set(key, token)
 *   },
 * })
 * const handler = guard(async (request, grant) => Response.json({ writtenUnder: grant?.token }))
 * ```
 */
export function fenced(options: FencedOptions): (handler: FencedHandler) => (request: Request) => Promise<Response> {
  checkOptions(options)
  const { header = GRANT_HEADER, missing = 428 } = options
  checkFunction('key', options.key)
  checkFunction('admit', options.admit)
  checkHeaderName(header)
  if (![428, 400, 401, 403, 'pass'].includes(missing)) {
    throw new InvalidArgumentError('missing', missing, "must be 428, 400, 401, 403 or 'pass'")
  }

  return (handler) => async (request) => {
    const value = request.headers.get(header)
    if (value === null) {
      if (missing === 'pass') return await handler(request, undefined)
      return refusal({
        status: missing,
        code: 'GRANT_MISSING',
        title: 'A grant is required',
        detail: `This resource is written under a lease only: send its grant in ${header}.`,
      })
    }
    let grant: Grant
    try {
      grant = parseGrant(value)
    } catch {
      return refusal({
        status: 400,
        code: 'GRANT_MALFORMED',
        title: 'The grant cannot be read',
        detail: `${header} must be as in token="7", key="invoice%3A42", claim="sha256-...".`,
      })
    }
    if (grant.key !== (await options.key(request))) {
      return refusal({
        status: 403,
        code: 'GRANT_OF_ANOTHER_KEY',
        title: 'The grant is for another key',
        detail: 'This resource is written under another lease.',
      })
    }
    try {
      await options.admit(grant, request)
      return await handler(request, grant)
    } catch (error) {
      if (!(error instanceof StaleTokenError)) throw error
      return refusal({
        status: 412,
        code: 'STALE_TOKEN',
        title: 'The token is stale',
        detail: 'A later holder of the lease has been admitted: stop this work.',
      })
    }
  }
}

const refusal = (problem: Problem): Response => responseOf(problemAnswer(problem))
