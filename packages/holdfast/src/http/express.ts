// `Idempotency-Key` for Express 5, as a middleware. What the handlers after it write is held back until it is recorded, then sent: a
// client that has its answer can count on the record. Express's types are said structurally.
import type { Records } from '../idempotency/contract.js'
import type { RunInfo } from '../idempotency/run.js'
import { type Clock, systemClock } from '../lease/clock.js'
import { InvalidArgumentError } from '../lease/errors.js'
import { Gate, GivenUp, GONE_MS, type IdempotentOptions, type Incoming, TOO_LARGE, type Verdict } from './gate.js'
import { marked } from './idempotent.js'
import { concat } from './problem.js'
import type { Captured } from './stored-response.js'

/** The request of Express: only what is used. */
export interface ExpressRequest {
  readonly method: string
  readonly originalUrl: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** What a body parser before made of it. */
  body?: unknown
  readonly readableEnded?: boolean
}

/** The response of Express: only what is used. */
export interface ExpressResponse {
  statusCode: number
  readonly headersSent: boolean
  write(...args: never[]): boolean
  end(...args: never[]): unknown
  writeHead(...args: never[]): unknown
  flushHeaders(): void
  setHeader(name: string, value: string | number | readonly string[]): unknown
  getHeaders(): Readonly<Record<string, string | number | string[] | undefined>>
  removeHeader(name: string): void
  once(event: 'close', listener: () => void): unknown
  locals: Record<string, unknown>
}

/**
 * Handles `Idempotency-Key` as `idempotent` does, for the handlers after it. Put it after the body parser (`express.json()`), whose
 * result counts as the payload; `bodyBytesMax` is then the parser's own `limit`. The handler finds the run under `res.locals.run`.
 *
 * @example
 * ```ts no-run
 * import express from 'express'
 * const app = express()
 * app.post('/payments', express.json(), expressIdempotent(records, { scope: (req) => String(req.headers['x-tenant']) }))
 * app.post('/payments', async (req, res) => {
 *   const { key } = res.locals.run
 *   res.status(201).json(await charge(req.body.amount, { idempotencyKey: key }))
 * })
 * ```
 */
export function expressIdempotent<Request extends ExpressRequest = ExpressRequest>(
  records: Records,
  options: IdempotentOptions<Request> & { readonly clock?: Clock | undefined },
): (req: Request, res: ExpressResponse, next: (error?: unknown) => void) => Promise<void> {
  const gate = new Gate(records, options)
  const { clock = systemClock } = options
  return async (req, res, next) => {
    const incoming: Incoming = {
      method: req.method,
      target: req.originalUrl,
      contentType: headerOf(req, 'content-type') ?? '',
      header: (name) => headerOf(req, name),
      body: async (bytesMax) => bodyOf(req, bytesMax),
      scope: () => options.scope(req),
    }
    let held: HeldResponse | undefined
    const answer: Promise<Verdict> = gate.through(incoming, (run) => {
      res.locals.run = run satisfies RunInfo
      held = new HeldResponse(res, gate.responseBytesMax, clock)
      next()
      return held.captured
    })
    let verdict: Verdict
    try {
      verdict = await answer
    } catch (error) {
      held?.drop()
      if (error instanceof GivenUp) return // nobody listens any more
      throw error
    }
    if (verdict.is === 'pass') return next()
    if (held !== undefined && !held.isReplaced(verdict.response)) return held.release()
    held?.drop()
    const { status, headers, body } = marked(verdict.response, verdict.replayed)
    res.statusCode = status
    for (const [name, values] of grouped(headers)) res.setHeader(name, values)
    ;(res.end as (body: Uint8Array) => void)(body)
  }
}

/** Several headers of one name are a list. */
export function grouped(headers: readonly (readonly [string, string])[]): Map<string, string | string[]> {
  const byName = new Map<string, string | string[]>()
  for (const [name, value] of headers) {
    const known = byName.get(name)
    byName.set(name, known === undefined ? value : [known, value].flat())
  }
  return byName
}

const headerOf = (req: ExpressRequest, name: string): string | undefined => {
  const value = req.headers[name]
  return Array.isArray(value) ? value.join(', ') : value
}

function bodyOf(req: ExpressRequest, bytesMax: number): unknown {
  const { body } = req
  if (body === undefined) {
    const length = headerOf(req, 'content-length')
    if (headerOf(req, 'transfer-encoding') === undefined && (length === undefined || length === '0')) return undefined
    throw new InvalidArgumentError(
      'req.body',
      body,
      'must have been read before: put a body parser such as express.json() before, for this type of content',
    )
  }
  if ((typeof body === 'string' || body instanceof Uint8Array) && body.length > bytesMax) return TOO_LARGE
  return body
}

/** A response whose bytes are held back until they are recorded, or until there are too many of them. */
class HeldResponse {
  readonly captured: Promise<Captured>
  readonly #res: ExpressResponse
  readonly #bytesMax: number
  readonly #real: Pick<ExpressResponse, 'write' | 'end' | 'writeHead' | 'flushHeaders'>
  #chunks: Uint8Array[] = []
  #length = 0
  #end: (() => void) | undefined
  #capture: (response: Captured) => void = () => {}
  #response: Captured | undefined
  #overflow = false

  constructor(res: ExpressResponse, bytesMax: number, clock: Clock) {
    this.#res = res
    this.#bytesMax = bytesMax
    const { write, end, writeHead, flushHeaders } = res
    this.#real = { write, end, writeHead, flushHeaders }
    let ended = false
    this.captured = new Promise((resolve, reject) => {
      this.#capture = (response) => {
        ended = true
        this.#response = response
        resolve(response)
      }
      res.once('close', () => {
        if (ended) return
        const giveUp = () => reject(new GivenUp('the client has gone, and the handler did not answer'))
        clock.setTimer(GONE_MS, giveUp).keepAlive(false)
      })
    })
    Object.assign(res, {
      flushHeaders: () => {},
      writeHead: (status: number, ...rest: unknown[]) => this.#writeHead(status, rest),
      write: (chunk: unknown, ...rest: unknown[]) => this.#write(chunk, rest),
      end: (...args: unknown[]) => this.#ended(args),
    })
  }

  /** Whether something else is to be sent than what the handler wrote. */
  isReplaced(response: Captured): boolean {
    return response !== this.#response
  }

  /** Sends what was held back. */
  release(): void {
    this.#restore()
    this.#end?.()
  }

  /** Forgets what was held back. */
  drop(): void {
    this.#restore()
    for (const name of OF_THE_BODY) this.#res.removeHeader(name)
  }

  #restore(): void {
    Object.assign(this.#res, this.#real)
  }

  #writeHead(status: number, rest: readonly unknown[]): ExpressResponse {
    this.#res.statusCode = status
    const headers = rest.find((value) => typeof value === 'object' && value !== null)
    const pairs: [unknown, unknown][] = Array.isArray(headers)
      ? typeof headers[0] === 'string'
        ? Array.from({ length: headers.length / 2 }, (_, i) => [headers[2 * i], headers[2 * i + 1]])
        : headers
      : Object.entries(headers ?? {})
    for (const [name, value] of pairs) this.#res.setHeader(String(name), value as string)
    return this.#res
  }

  #write(chunk: unknown, rest: readonly unknown[]): boolean {
    if (this.#overflow) return (this.#real.write as (...args: unknown[]) => boolean).call(this.#res, chunk, ...rest)
    this.#keep(chunk, rest[0])
    callbackIn(rest)?.()
    if (this.#length > this.#bytesMax) this.#passOn()
    return true
  }

  #ended(args: readonly unknown[]): ExpressResponse {
    if (this.#overflow) {
      ;(this.#real.end as (...args: unknown[]) => unknown).call(this.#res, ...args)
      return this.#res
    }
    if (this.#end !== undefined) return this.#res
    const [chunk, encoding] = args
    if (chunk !== undefined && chunk !== null && typeof chunk !== 'function') this.#keep(chunk, encoding)
    const body = concat(this.#chunks, this.#length)
    const callback = callbackIn(args)
    this.#end = () => (this.#real.end as (...args: unknown[]) => unknown).call(this.#res, body, callback)
    this.#capture({ status: this.#res.statusCode, headers: this.#headers(), body })
    return this.#res
  }

  /** More than is kept: sent as it comes. */
  #passOn(): void {
    this.#overflow = true
    this.#restore()
    for (const chunk of this.#chunks) (this.#real.write as (chunk: Uint8Array) => boolean).call(this.#res, chunk)
    this.#chunks = []
    this.#end = () => {} // its end is the handler's
    this.#capture({ status: this.#res.statusCode, headers: [], body: new Uint8Array(), overflow: true })
  }

  #keep(chunk: unknown, encoding: unknown): void {
    const bytes =
      typeof chunk === 'string'
        ? bytesOf(chunk, typeof encoding === 'string' ? encoding : 'utf8')
        : (chunk as Uint8Array)
    this.#chunks.push(bytes)
    this.#length += bytes.length
  }

  #headers(): [string, string][] {
    return Object.entries(this.#res.getHeaders()).flatMap(([name, value]) =>
      value === undefined ? [] : [value].flat().map((one): [string, string] => [name, String(one)]),
    )
  }
}

const OF_THE_BODY = [
  'content-type',
  'content-length',
  'content-encoding',
  'content-disposition',
  'etag',
  'last-modified',
]

const callbackIn = (args: readonly unknown[]): (() => void) | undefined =>
  args.find((value): value is () => void => typeof value === 'function')

const encoder = new TextEncoder()

/** Text in one of Node's encodings; other than UTF-8 only where Node's Buffer is there, as it is where Express runs. */
function bytesOf(text: string, encoding: string): Uint8Array {
  if (/^utf-?8$/i.test(encoding)) return encoder.encode(text)
  const { Buffer: NodeBuffer } = globalThis as { Buffer?: { from(text: string, encoding: string): Uint8Array } }
  return NodeBuffer?.from(text, encoding) ?? encoder.encode(text)
}
