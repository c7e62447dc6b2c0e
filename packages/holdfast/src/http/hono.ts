// `Idempotency-Key` for Hono 4, as a middleware. Its types are said structurally, so that nobody needs a framework that he does not use.
import type { Records } from '../idempotency/contract.js'
import { Gate, type IdempotentOptions, TOO_LARGE } from './gate.js'
import { capture, incomingOf, marked } from './idempotent.js'
import { readBounded, responseOf } from './problem.js'

/** The context of Hono: only what is used. */
export interface HonoContext {
  readonly req: { raw: Request }
  res: Response
  set(name: never, value: never): void
}

/**
 * Handles `Idempotency-Key` as `idempotent` does, for the routes of Hono that it is put before. The handler finds the run under
 * `c.get('run')`.
 *
 * @example
 * ```ts no-run
 * import { Hono } from 'hono'
 * const app = new Hono<{ Variables: { run: RunInfo } }>()
 * app.use('/payments', honoIdempotent(records, { scope: (c) => c.req.raw.headers.get('x-tenant') ?? 'anonymous' }))
 * app.post('/payments', async (c) => c.json(await charge(100, { idempotencyKey: c.get('run').key }), 201))
 * ```
 */
export function honoIdempotent<Context extends HonoContext = HonoContext>(
  records: Records,
  options: IdempotentOptions<Context>,
): (c: Context, next: () => Promise<void>) => Promise<Response | undefined> {
  const gate = new Gate(records, options)
  return async (c, next) => {
    const incoming = incomingOf(
      c.req.raw,
      () => options.scope(c),
      async (bytesMax) => {
        const { bytes, rest } = await readBounded(c.req.raw.body, bytesMax)
        if (rest !== undefined) {
          rest.cancel().catch(() => {})
          return TOO_LARGE
        }
        if (c.req.raw.body !== null) c.req.raw = new Request(c.req.raw, { body: bytes as Uint8Array<ArrayBuffer> })
        return bytes
      },
    )
    const verdict = await gate.through(incoming, async (run) => {
      c.set('run' as never, run as never)
      await next()
      return await capture(c.res, gate.responseBytesMax)
    })
    if (verdict.is === 'pass') {
      await next()
      return undefined
    }
    const response = responseOf(marked(verdict.response, verdict.replayed))
    c.res = undefined as never // Hono would add the headers of the one before
    c.res = response
    return undefined
  }
}
