// `Idempotency-Key` for Fastify 5, as hooks of a route or of an instance. The payload that the handler sends waits in `onSend` until
// it is recorded. Fastify's types are said structurally.
import type { Records } from '../idempotency/contract.js'
import type { RunInfo } from '../idempotency/run.js'
import { type Clock, systemClock } from '../lease/clock.js'
import { grouped } from './express.js'
import { Gate, GivenUp, GONE_MS, type IdempotentOptions, type Incoming, TOO_LARGE } from './gate.js'
import { marked } from './idempotent.js'
import { joined, readBounded } from './problem.js'
import type { Captured } from './stored-response.js'

/** The request of Fastify: only what is used. */
export interface FastifyRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: unknown
}

/** The reply of Fastify: only what is used. */
export interface FastifyReply {
  readonly raw: { once(event: 'close', listener: () => void): unknown }
  readonly statusCode: number
  code(status: number): unknown
  header(name: string, value: string | string[]): unknown
  getHeaders(): Readonly<Record<string, string | number | string[] | undefined>>
  send(payload?: unknown): unknown
}

/** The hooks, for a route's options or for `addHook`. */
export interface FastifyIdempotentHooks {
  preHandler(request: FastifyRequest, reply: FastifyReply): Promise<unknown>
  onSend(request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<unknown>
}

/** One request between its first hook and its response. */
interface Underway {
  captured(response: Captured): void
  failed(error: unknown): void
  /** Resolves when the response has been recorded, or is not to be. */
  readonly settled: Promise<Captured | undefined>
}

/**
 * Handles `Idempotency-Key` as `idempotent` does, as hooks: put them into the options of a route. Fastify has parsed the body by then,
 * and its `bodyLimit` bounds it. The handler finds the run with `fastifyRun(request)`.
 *
 * @example
 * ```ts no-run
 * import fastify from 'fastify'
 * const app = fastify()
 * const hooks = fastifyIdempotent(records, { scope: (request) => String(request.headers['x-tenant'] ?? 'anonymous') })
 * app.post('/payments', { ...hooks }, async (request, reply) => {
 *   const receipt = await charge(100, { idempotencyKey: fastifyRun(request)?.key ?? '' })
 *   return reply.code(201).send(receipt)
 * })
 * ```
 */
export function fastifyIdempotent<Request extends FastifyRequest = FastifyRequest>(
  records: Records,
  options: IdempotentOptions<Request> & { readonly clock?: Clock | undefined },
): FastifyIdempotentHooks {
  const gate = new Gate(records, options)
  const { clock = systemClock } = options
  const underway = new WeakMap<object, Underway>()

  return {
    async preHandler(request, reply) {
      const incoming: Incoming = {
        method: request.method,
        target: request.url,
        contentType: headerOf(request, 'content-type') ?? '',
        header: (name) => headerOf(request, name),
        async body(bytesMax) {
          const { body } = request
          const long = (typeof body === 'string' || body instanceof Uint8Array) && body.length > bytesMax
          return long ? TOO_LARGE : body
        },
        scope: () => options.scope(request as Request),
      }
      // The handler runs after this hook; so `through` ends in onSend, unless there is nothing to run.
      let begin: () => void = () => {}
      const begun = new Promise<'begun'>((resolve) => {
        begin = () => resolve('begun')
      })
      const verdict = gate.through(incoming, (run) => {
        runs.set(request, run)
        const captured = new Promise<Captured>((resolve, reject) => {
          const settled = verdict.then((end) => (end.is === 'answer' ? end.response : undefined))
          settled.catch(() => {})
          underway.set(request, { captured: resolve, failed: reject, settled })
        })
        reply.raw.once('close', () => {
          const current = underway.get(request)
          if (current === undefined) return
          // The client has gone, or the handler sends by itself: it may still answer, and what it sends is recorded.
          const giveUp = () => current.failed(new GivenUp('the handler sent nothing that could be recorded'))
          clock.setTimer(GONE_MS, giveUp).keepAlive(false)
        })
        begin()
        return captured
      })
      const first = await Promise.race([verdict, begun])
      if (first === 'begun' || first.is === 'pass') return undefined
      return send(reply, marked(first.response, first.replayed))
    },

    async onSend(request, reply, payload) {
      const current = underway.get(request)
      if (current === undefined) return payload
      underway.delete(request)
      const { response, sent } = await captureOf(reply, payload, gate.responseBytesMax)
      current.captured(response)
      const answer = await current.settled
      if (answer === undefined || answer === response) return sent
      for (const [name, values] of grouped(answer.headers)) reply.header(name, values)
      reply.code(answer.status)
      return nodeBytes(answer.body)
    },
  }
}

const runs = new WeakMap<object, RunInfo>()

/**
 * The run of a request, in its handler; undefined where the request needs no key.
 *
 * @example
 * ```ts no-run
 * import type { FastifyRequest } from 'fastify'
 * const outwardKey = (request: FastifyRequest) => fastifyRun(request)?.key
 * ```
 */
export function fastifyRun(request: object): RunInfo | undefined {
  return runs.get(request)
}

function headerOf(request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name]
  return Array.isArray(value) ? value.join(', ') : value
}

function send(reply: FastifyReply, { status, headers, body }: Captured): unknown {
  reply.code(status)
  for (const [name, values] of grouped(headers)) reply.header(name, values)
  return reply.send(body.length === 0 ? undefined : nodeBytes(body))
}

const encoder = new TextEncoder()

/** Fastify takes bytes only as Node's Buffer, which is there wherever Fastify runs. */
function nodeBytes(bytes: Uint8Array): Uint8Array {
  const { Buffer: NodeBuffer } = globalThis as {
    Buffer?: { from(buffer: ArrayBufferLike, at: number, length: number): Uint8Array }
  }
  return NodeBuffer?.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) ?? bytes
}

/** What the handler sends, read as far as it is kept; and what is to be sent in its place, since a stream is read only once. */
async function captureOf(
  reply: FastifyReply,
  payload: unknown,
  bytesMax: number,
): Promise<{ response: Captured; sent: unknown }> {
  const head = { status: reply.statusCode, headers: headersOf(reply) }
  if (payload === undefined || payload === null) return { response: { ...head, body: new Uint8Array() }, sent: payload }
  if (typeof payload === 'string') return { response: { ...head, body: encoder.encode(payload) }, sent: payload }
  if (payload instanceof Uint8Array) return { response: { ...head, body: payload }, sent: payload }
  const { bytes, rest } = await readBounded(streamOf(payload), bytesMax)
  if (rest === undefined) return { response: { ...head, body: bytes }, sent: nodeBytes(bytes) }
  return { response: { ...head, body: bytes, overflow: true }, sent: joined(bytes, rest) }
}

function streamOf(payload: unknown): ReadableStream<Uint8Array> {
  if (payload instanceof ReadableStream) return payload
  const chunks = (payload as AsyncIterable<Uint8Array | string>)[Symbol.asyncIterator]()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await chunks.next()
      if (done) controller.close()
      else controller.enqueue(typeof value === 'string' ? encoder.encode(value) : value)
    },
    async cancel() {
      await chunks.return?.()
    },
  })
}

function headersOf(reply: FastifyReply): [string, string][] {
  return Object.entries(reply.getHeaders()).flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((one): [string, string] => [name, String(one)]),
  )
}
