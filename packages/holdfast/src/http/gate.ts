// What handling of `Idempotency-Key` is, whatever the framework: the request's key and fingerprint go to `once`, the handler is its work,
// and its refusals become problem documents.
import type { Records } from '../idempotency/contract.js'
import { InProgressError, KeyReusedError, NotRecordedError, UnknownOutcomeError } from '../idempotency/errors.js'
import { fingerprintOf, fingerprintOfJson, keyOf } from '../idempotency/fingerprint.js'
import { onceResult } from '../idempotency/once.js'
import { checkRecords, type FailureDecision, type OnceOptions, settleOnce } from '../idempotency/options.js'
import type { RunInfo } from '../idempotency/run.js'
import { sha256 } from '../idempotency/sha256.js'
import { InvalidArgumentError, LeaseLostError, StoreError } from '../lease/errors.js'
import { checkKey, KEY_BYTES_MAX } from '../lease/keys.js'
import { checkFunction, checkOptions } from '../lease/options.js'
import { checkHeaderName } from './fenced-fetch.js'
import { parseKey } from './key-header.js'
import { type Problem, problemAnswer } from './problem.js'
import { type Captured, keptByDefault, responseCodec } from './stored-response.js'

/** What becomes of a response: told to repeats, as if the request had not been, or nobody knows whether its effect happened. */
export type ResponseDecision = FailureDecision

/** Options of the handling of `Idempotency-Key`. `Incoming` is the framework's request. */
export interface IdempotentOptions<Incoming> {
  /**
   * Whose key it is, such as the tenant or the user that has logged in: keys of two scopes never meet. Must not be empty (give
   * those who are not logged in a name), nor longer than 440 bytes of UTF-8, of which % and : count three each.
   */
  scope(request: Incoming): string | Promise<string>
  /** Whether a request without the header is refused with 400. Default true; else it is handled without a record. */
  required?: boolean | undefined
  /** The methods that are handled; all others pass. Default POST and PATCH. */
  methods?: readonly string[] | undefined
  /** The name of the header. Default `Idempotency-Key`. */
  header?: string | undefined
  /** What becomes of a response, by its status. Default: below 400 `record`, else `forget`. */
  decide?: ((response: { readonly status: number }) => ResponseDecision) | undefined
  /** Whether a header is kept for repeats, by its name in lower case. Default: all but `set-cookie`; those of one connection never are. */
  keepHeader?: ((name: string) => boolean) | undefined
  /** The longest request body, in bytes: beyond, 413. Default 1 MiB. */
  bodyBytesMax?: number | undefined
  /** The longest response body that is kept, in bytes: a longer one is sent, and a repeat is told that the outcome is unknown. Default 1 MiB. */
  responseBytesMax?: number | undefined
  /** How long the response is kept, in ms. Default 24 hours. */
  retentionMs?: number | undefined
  /** How long to wait for the same request when it is running. Default 0: 409 at once. */
  waitMs?: number | undefined
  /** As for `once`. */
  ttlMs?: number | undefined
  /** What to do when a run ended without a record. Default `stop`: 500. See `once`. */
  onUnknown?: 'stop' | 'run' | undefined
  /** Hears of what the client is not told: a response that was sent and could not be recorded, records that cannot be reached. */
  onError?: ((error: unknown) => void) | undefined
}

/** A request, as far as it matters here. */
export interface Incoming {
  readonly method: string
  /** Path and query. */
  readonly target: string
  readonly contentType: string
  header(name: string): string | undefined
  /** The body as bytes, as text, or as what a parser made of it; `too large` when it is. */
  body(bytesMax: number): Promise<unknown>
  scope(): string | Promise<string>
}

/** What is to be sent. `replayed`: an earlier run gave it. */
export type Verdict =
  | { readonly is: 'pass' }
  | { readonly is: 'answer'; readonly response: Captured; readonly replayed: boolean }

/** The body is longer than `bodyBytesMax`. */
export const TOO_LARGE = Symbol('too large')

const MIB = 2 ** 20
const ASK_AGAIN_SECONDS_MAX = 5

/** A response that is sent and not kept. */
class NotKept extends Error {
  readonly response: Captured
  readonly decision: ResponseDecision

  constructor(response: Captured, decision: ResponseDecision) {
    super('this response is not kept')
    this.response = response
    this.decision = decision
  }
}

/** The handler did not answer: what it did is unknown. */
export class GivenUp extends Error {}

/** A handler whose client has gone, and which has not answered after so long, is given up. */
export const GONE_MS = 60_000

/** What the handler threw, so that it is not taken for what the records did. */
class HandlerFailed extends Error {
  readonly error: unknown

  constructor(error: unknown) {
    super('the handler failed')
    this.error = error
  }
}

export class Gate<Request> {
  readonly responseBytesMax: number
  readonly #records: Records
  readonly #options: IdempotentOptions<Request>
  readonly #header: string
  readonly #methods: ReadonlySet<string>

  constructor(records: Records, options: IdempotentOptions<Request>) {
    checkRecords(records)
    checkOptions(options)
    checkFunction('scope', options.scope)
    for (const name of ['decide', 'keepHeader', 'onError'] as const) {
      if (options[name] !== undefined) checkFunction(name, options[name])
    }
    for (const name of ['bodyBytesMax', 'responseBytesMax'] as const) {
      const bytes = options[name] ?? MIB
      if (!Number.isSafeInteger(bytes) || bytes < 0) {
        throw new InvalidArgumentError(name, bytes, 'must be a whole number of bytes, 0 or more')
      }
    }
    const { header = 'Idempotency-Key', methods = ['POST', 'PATCH'] } = options
    checkHeaderName(header)
    if (!Array.isArray(methods) || !methods.every((method) => /^[A-Z][A-Z-]*$/.test(method))) {
      throw new InvalidArgumentError('methods', methods, "must be a list of methods, such as ['POST', 'PATCH']")
    }
    this.responseBytesMax = options.responseBytesMax ?? MIB
    this.#records = records
    this.#options = options
    this.#header = header
    this.#methods = new Set(methods)
    settleOnce(this.#onceOptions('key', 'fingerprint')) // refused here, and not at the first request
  }

  /** `work` runs the handler and gives its response; it is not called for a repeat. */
  async through(incoming: Incoming, work: (run: RunInfo) => Promise<Captured>): Promise<Verdict> {
    if (!this.#methods.has(incoming.method)) return PASS
    const value = incoming.header(this.#header.toLowerCase())
    if (value === undefined) {
      if (this.#options.required === false) return PASS
      return refuse({
        status: 400,
        code: 'KEY_MISSING',
        title: `${this.#header} is missing`,
        detail: `This operation needs the header ${this.#header}, with a key of the client's choice that no other request uses.`,
      })
    }
    const key = parseKey(value)
    if (key === undefined) {
      return refuse({
        status: 400,
        code: 'KEY_MALFORMED',
        title: `${this.#header} is malformed`,
        detail: `${this.#header} must be one string of 1 to 255 printable ASCII characters, as in "8e03978e-40d5-43dd-bc93-6894a57f9324".`,
      })
    }
    const body = await incoming.body(this.#options.bodyBytesMax ?? MIB)
    if (body === TOO_LARGE) {
      return refuse({
        status: 413,
        code: 'BODY_TOO_LARGE',
        title: 'The body is too large',
        detail: `Requests with ${this.#header} may have at most ${this.#options.bodyBytesMax ?? MIB} bytes.`,
      })
    }
    const scope = await incoming.scope()
    const options = this.#onceOptions(recordKeyOf(scope, key), fingerprintOfRequest(incoming, body))
    try {
      const { value, replayed } = await onceResult(this.#records, options, (run) => this.#run(run, work))
      return { is: 'answer', response: value, replayed }
    } catch (error) {
      return this.#explain(error)
    }
  }

  #onceOptions(key: string, fingerprint: string): OnceOptions<Captured> {
    const { keepHeader = keptByDefault, retentionMs, waitMs = 0, ttlMs, onUnknown } = this.#options
    return {
      key,
      fingerprint,
      codec: responseCodec(keepHeader, this.responseBytesMax),
      resultBytesMax: 2 * this.responseBytesMax + MIB, // base64, escapes and headers
      retentionMs,
      waitMs,
      ttlMs,
      onUnknown,
      onFailure(error, { interrupted }) {
        if (error instanceof NotKept) return error.decision
        return interrupted || (error instanceof HandlerFailed && error.error instanceof GivenUp) ? 'unknown' : 'forget'
      },
    }
  }

  async #run(run: RunInfo, work: (run: RunInfo) => Promise<Captured>): Promise<Captured> {
    let response: Captured
    try {
      response = await work(run)
    } catch (error) {
      throw new HandlerFailed(error)
    }
    const { decide = recordBelow400 } = this.#options
    const decision = decide({ status: response.status })
    if (decision !== 'record') throw new NotKept(response, decision)
    return response
  }

  /** What the client is told. The handler's own errors pass. */
  #explain(error: unknown): Verdict {
    if (error instanceof HandlerFailed) throw error.error
    if (error instanceof NotKept) return { is: 'answer', response: error.response, replayed: false }
    if (error instanceof NotRecordedError && error.outcome.is === 'returned') {
      this.#report(error)
      return { is: 'answer', response: error.outcome.value as Captured, replayed: false }
    }
    // Another took over meanwhile: what this run did not want to keep is told, what it did is the other's to tell.
    if (error instanceof LeaseLostError && error.outcome?.is === 'threw') return this.#explain(error.outcome.error)
    if (error instanceof KeyReusedError) return refuse(REUSED)
    if (error instanceof UnknownOutcomeError) {
      this.#report(error)
      return refuse(UNKNOWN)
    }
    if (error instanceof InProgressError) {
      const seconds = Math.ceil(error.remainingMs / 1000)
      return refuse({ ...IN_PROGRESS, retryAfterSeconds: Math.max(1, Math.min(ASK_AGAIN_SECONDS_MAX, seconds)) })
    }
    if (error instanceof LeaseLostError && error.outcome !== undefined) {
      this.#report(error)
      return refuse({ ...IN_PROGRESS, retryAfterSeconds: 1 }) // the one that took over has recorded its response, or will
    }
    if (error instanceof StoreError) {
      this.#report(error)
      return refuse({ ...UNAVAILABLE, retryAfterSeconds: 1 })
    }
    throw error
  }

  #report(error: unknown): void {
    try {
      this.#options.onError?.(error)
    } catch {
      // A listener that throws must not change the response.
    }
  }
}

const PASS: Verdict = { is: 'pass' }
const refuse = (problem: Problem): Verdict => ({ is: 'answer', response: problemAnswer(problem), replayed: false })
const recordBelow400 = ({ status }: { readonly status: number }): ResponseDecision =>
  status < 400 ? 'record' : 'forget'

const REUSED: Problem = {
  status: 422,
  code: 'KEY_REUSED',
  title: 'The idempotency key was used for another request',
  detail: 'The key has been used with another payload, or on another resource: give each request a key of its own.',
}
const IN_PROGRESS: Problem = {
  status: 409,
  code: 'IN_PROGRESS',
  title: 'The same request is being worked on',
  detail: 'A request with this key is outstanding: send it again later, with the same key.',
}
const UNKNOWN: Problem = {
  status: 500,
  code: 'UNKNOWN_OUTCOME',
  title: 'The outcome of this request is not known',
  detail:
    'An earlier attempt with this key ended without a record, and may have had its effect. It is not tried again by itself.',
}
const UNAVAILABLE: Problem = {
  status: 503,
  code: 'STORE_ERROR',
  title: 'Requests cannot be recorded at the moment',
  detail: 'Nothing was done, or it is not known: send the request again later, with the same key.',
}

/** The key of the record. One that is too long with its scope is named by its digest, in a list that no other key gives. */
function recordKeyOf(scope: string, key: string): string {
  checkScope(scope)
  try {
    return keyOf(scope, key)
  } catch {
    return keyOf(scope, 'sha256', sha256(key))
  }
}

/** What the digest of a key leaves. */
const SCOPE_BYTES_MAX = KEY_BYTES_MAX - ':sha256:'.length - 64

function checkScope(scope: unknown): asserts scope is string {
  if (typeof scope !== 'string' || scope === '') {
    throw new InvalidArgumentError(
      'scope',
      scope,
      "must give a non-empty string: give those who have none a name, such as 'anonymous'",
    )
  }
  checkKey('scope', scope)
  const bytes = new TextEncoder().encode(scope).length + 2 * (scope.match(/[%:]/g)?.length ?? 0)
  if (bytes <= SCOPE_BYTES_MAX) return
  const expected = `must give at most ${SCOPE_BYTES_MAX} bytes of UTF-8, of which % and : count three each: give an id`
  throw new InvalidArgumentError('scope', scope, expected)
}

/** Method, path, query, type and body: what the request asks for. JSON counts as its data, all else as its bytes. */
function fingerprintOfRequest({ method, target, contentType }: Incoming, body: unknown): string {
  const type = contentType.split(';')[0]?.trim().toLowerCase() ?? ''
  return fingerprintOf({ method, target, type, body: fingerprintOfBody(body, /^application\/(.+\+)?json$/.test(type)) })
}

function fingerprintOfBody(body: unknown, isJson: boolean): string {
  if (body === undefined || body === null) return ''
  if (body instanceof Uint8Array) {
    const text = isJson ? utf8(body) : undefined
    return text === undefined ? (body.length === 0 ? '' : `bytes-${sha256(body)}`) : fingerprintOfJson(text)
  }
  if (typeof body === 'string') return isJson ? fingerprintOfJson(body) : `bytes-${sha256(body)}`
  return isJson ? fingerprintOfParsed(body) : fingerprintOf(body)
}

/** JSON that a parser has read may have no canonical form either: then its text stands for it. What is no such data has none. */
function fingerprintOfParsed(data: unknown): string {
  try {
    return fingerprintOf(data)
  } catch (error) {
    let text: string
    try {
      text = JSON.stringify(data, plainOnly)
    } catch {
      throw error
    }
    return fingerprintOfJson(text)
  }
}

/** Refuses what JSON would make something else of: a Map would be written as {}, whatever is in it. */
function plainOnly(this: Record<string, unknown>, name: string, value: unknown): unknown {
  const given = this[name]
  const prototype: unknown = typeof given === 'object' && given !== null ? Object.getPrototypeOf(given) : null
  const isPlain = prototype === null || Array.isArray(given) || Object.getPrototypeOf(prototype) === null
  if (isPlain && ['string', 'number', 'boolean', 'object'].includes(typeof given)) return value
  throw new TypeError(`${name} is no JSON`)
}

const decoder = new TextDecoder('utf-8', { fatal: true })

function utf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}
