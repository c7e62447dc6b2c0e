// `Idempotency-Key` for web-standard handlers: Request in, Response out.
import type { Records } from '../idempotency/contract.js'
import type { RunInfo } from '../idempotency/run.js'
import { Gate, type IdempotentOptions, type Incoming, TOO_LARGE } from './gate.js'
import { type Answer, readBounded, responseOf } from './problem.js'
import type { Captured } from './stored-response.js'

/** A web-standard handler. `run` is undefined where the request needs no key. */
export type IdempotentHandler = (request: Request, run: RunInfo | undefined) => Response | Promise<Response>

/** The header that says that a response is an earlier one. */
export const REPLAYED_HEADER = 'idempotency-replayed'

/**
 * Handles the `Idempotency-Key` header before a web-standard handler, as draft-ietf-httpapi-idempotency-key-header describes: 400 when
 * it is missing or malformed, 422 when the key was used for another request, 409 with Retry-After while the same one is running, and
 * the stored response, marked `Idempotency-Replayed: true`, when it is done. 500 when the outcome of an earlier run is unknown,
 * 503 when the records cannot be reached; refusals are problem documents (RFC 9457).
 *
 * The handler is given the run: pass its key on as the outward key. Bodies are read before, and bounded.
 *
 * @example
 * ```ts
 * const handle = idempotent(records, { scope: (request) => request.headers.get('x-tenant') ?? 'anonymous' })
 * const handler = handle(async (request, run) => {
 *   const { amount } = (await request.json()) as { amount: number }
 *   const receipt = await charge(amount, { idempotencyKey: run?.key ?? '' })
 *   return Response.json(receipt, { status: 201 })
 * })
 * ```
 */
export function idempotent(
  records: Records,
  options: IdempotentOptions<Request>,
): (handler: IdempotentHandler) => (request: Request) => Promise<Response> {
  const gate = new Gate(records, options)
  return (handler) => async (request) => {
    let buffered = request
    const incoming = incomingOf(
      request,
      () => options.scope(request),
      async (bytesMax) => {
        const { bytes, rest } = await readBounded(request.body, bytesMax)
        if (rest !== undefined) {
          rest.cancel().catch(() => {})
          return TOO_LARGE
        }
        if (request.body !== null) buffered = new Request(request, { body: bytes as Uint8Array<ArrayBuffer> })
        return bytes
      },
    )
    const verdict = await gate.through(incoming, async (run) =>
      capture(await handler(buffered, run), gate.responseBytesMax),
    )
    return verdict.is === 'pass'
      ? await handler(request, undefined)
      : responseOf(marked(verdict.response, verdict.replayed))
  }
}

export function incomingOf(
  request: Request,
  scope: () => string | Promise<string>,
  body: (bytesMax: number) => Promise<unknown>,
): Incoming {
  const { pathname, search } = new URL(request.url)
  return {
    method: request.method,
    target: pathname + search,
    contentType: request.headers.get('content-type') ?? '',
    header: (name) => request.headers.get(name) ?? undefined,
    body,
    scope,
  }
}

/** The response of a handler, read as far as it is kept. */
export async function capture(response: Response, bytesMax: number): Promise<Captured> {
  const { bytes, rest } = await readBounded(response.body, bytesMax)
  return { status: response.status, headers: [...response.headers], body: bytes, rest }
}

/** What is sent, marked if it is a repeat. */
export const marked = <A extends Answer>(answer: A, replayed: boolean): A =>
  replayed ? { ...answer, headers: [...answer.headers, [REPLAYED_HEADER, 'true'] as const] } : answer
