// One request to etcd's JSON gateway: bounded in time, to the endpoint that answered last. After a failure the next endpoint has
// its turn; a request that was certainly not sent goes there at once, one that may have arrived is not sent twice.
import type { Clock } from '../../lease/clock.js'
import { ClosedError, InvalidArgumentError, StoreError } from '../../lease/errors.js'
import type { CallOptions } from '../../store/contract.js'
import { broken, EtcdError, nothingDone, refused } from './failure.js'
import { Joint } from './joint.js'
import { parsed } from './wire.js'

/** The platform's `fetch`, or one that brings its own TLS: only what is called. */
export type EtcdFetch = (
  url: string,
  init: {
    readonly method: 'POST'
    readonly headers: Record<string, string>
    readonly body: string
    readonly signal: AbortSignal
  },
) => Promise<{
  readonly status: number
  text(): Promise<string>
  readonly body: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array> | null
}>

/** How to reach etcd. */
export interface EtcdConnection {
  /** The members' client URLs, such as `http://10.0.0.1:2379`: tried in turn. */
  readonly endpoints: readonly string[]
  /** The platform's by default; give one with a dispatcher or agent of its own for client certificates. */
  readonly fetch?: EtcdFetch
  readonly user?: string
  readonly password?: string
}

/** Until when a verb may ask, and whether its caller still wants to know. */
export interface Limits {
  readonly untilMonoMs: number
  readonly signal: AbortSignal | undefined
}

/** Where a caller names no time-out. */
const TIMEOUT_MS = 5_000
/** The gateway's endpoint for a token, once per expiry of it. */
const AUTHENTICATE = '/v3/auth/authenticate'

export class Gateway {
  readonly #endpoints: readonly string[]
  readonly #fetch: EtcdFetch
  readonly #user: string | undefined
  readonly #password: string
  readonly #clock: Clock
  readonly #closing = new AbortController()
  /** What is under way. One signal for all would gather a listener for each. */
  readonly #open = new Set<() => void>()
  #current = 0
  #token: Joint<string> | undefined

  constructor(connection: EtcdConnection, clock: Clock) {
    const { endpoints, user, password } = connection
    this.#endpoints = checkEndpoints(endpoints)
    this.#fetch = connection.fetch ?? ((url, init) => fetch(url, init))
    if (typeof this.#fetch !== 'function') {
      throw new InvalidArgumentError('fetch', connection.fetch, 'must be a function like the fetch of the platform')
    }
    if ((user === undefined) !== (password === undefined)) {
      throw new InvalidArgumentError('user', user, 'and password go together: give both, or none')
    }
    if (user !== undefined && (typeof user !== 'string' || user === '')) {
      throw new InvalidArgumentError('user', user, 'must be a non-empty string')
    }
    if (password !== undefined && typeof password !== 'string') {
      throw new InvalidArgumentError('password', typeof password, 'must be a string')
    }
    this.#user = user
    this.#password = password ?? ''
    this.#clock = clock
  }

  limits(call: CallOptions | undefined): Limits {
    // The client makes a call's signal only when somebody looks at it: so only one that is there is looked at.
    const signal = call !== undefined && Object.hasOwn(call, 'signal') ? call.signal : undefined
    return { untilMonoMs: this.#clock.monoMs() + (call?.timeoutMs ?? TIMEOUT_MS), signal }
  }

  /** Begins what others may wait for, too: with the time that a verb has by default, at least. */
  joint<Value>(limits: Limits, work: (limits: Limits) => Promise<Value>): Joint<Value> {
    const untilMonoMs = Math.max(limits.untilMonoMs, this.#clock.monoMs() + TIMEOUT_MS)
    return new Joint(work({ untilMonoMs, signal: undefined }))
  }

  /** Waits for it. Whatever fails, nothing was done of what the caller asks for. */
  async outcomeOf<Value>(what: string, joint: Joint<Value>, limits: Limits): Promise<Value> {
    const { endpoint } = this
    const late = () => (limits.signal?.aborted === true ? givenUp(what) : this.late(endpoint, what))
    try {
      return await joint.within(limits, this.#clock, late)
    } catch (error) {
      throw nothingDone(error)
    }
  }

  get hasUser(): boolean {
    return this.#user !== undefined
  }

  get closed(): boolean {
    return this.#closing.signal.aborted
  }

  close(): void {
    this.#closing.abort()
    for (const end of this.#open) end()
  }

  /** The answer as JSON. Throws StoreError. */
  async ask<Answer>(what: string, path: string, message: unknown, limits: Limits): Promise<Answer> {
    return parsed(await this.text(what, path, JSON.stringify(message), limits), what)
  }

  /** The answer as it came. */
  async text(what: string, path: string, body: string, limits: Limits): Promise<string> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#once(what, path, body, limits, await this.#authorization(limits))
      } catch (error) {
        if (this.#isTokenGone(error) && attempt === 1) {
          this.#token = undefined
          continue
        }
        const passing = error instanceof StoreError && error.outcome === 'none' && !(error instanceof EtcdError)
        if (!passing || attempt >= this.#endpoints.length || !this.#mayAsk(limits)) throw error
      }
    }
  }

  /** The same from one endpoint: who is told that it was not sent may send it again, to the next. */
  async once(what: string, path: string, body: string, limits: Limits): Promise<string> {
    try {
      return await this.#once(what, path, body, limits, await this.#authorization(limits))
    } catch (error) {
      if (this.#isTokenGone(error)) this.#token = undefined
      throw error
    }
  }

  /** Somebody has given up waiting for an answer to what was sent: the next endpoint has its turn. */
  late(endpoint: string, what: string, cause?: unknown): StoreError {
    this.#turn(endpoint)
    return new StoreError(`etcd at ${endpoint} did not answer ${what} in time`, { outcome: 'unknown', cause })
  }

  /** A stream of JSON answers, one a line, until it ends or `signal` aborts. Throws StoreError. */
  async *stream(what: string, path: string, body: string, signal: AbortSignal): AsyncGenerator<unknown> {
    const limits = this.limits(undefined)
    const endpoint = this.endpoint
    const headers = { ...(await this.#authorization(limits)), 'grpc-metadata-hasleader': 'true' }
    const ending = new AbortController()
    const end = () => ending.abort()
    if (signal.aborted || this.closed) end()
    signal.addEventListener('abort', end, { once: true })
    this.#open.add(end)
    try {
      const response = await this.#fetch(endpoint + path, { method: 'POST', headers, body, signal: ending.signal })
      if (response.status !== 200) throw this.#refusal(await response.text(), response.status, what)
      const decoder = new TextDecoder()
      let rest = ''
      for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
        rest += decoder.decode(chunk, { stream: true })
        const lines = rest.split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) if (line !== '') yield JSON.parse(line)
      }
    } catch (error) {
      if (ending.signal.aborted) return
      this.#turn(endpoint)
      if (this.#isTokenGone(error)) this.#token = undefined
      throw broken(error, what, endpoint)
    } finally {
      signal.removeEventListener('abort', end)
      this.#open.delete(end)
    }
  }

  async #once(
    what: string,
    path: string,
    body: string,
    { untilMonoMs, signal }: Limits,
    headers: Record<string, string>,
  ): Promise<string> {
    if (this.closed) throw new StoreError('the etcd store is closed', { outcome: 'none', cause: new ClosedError() })
    const leftMs = untilMonoMs - this.#clock.monoMs()
    if (leftMs <= 0 || signal?.aborted === true) {
      throw givenUp(what)
    }
    const ending = new AbortController()
    const end = () => ending.abort()
    const timer = this.#clock.setTimer(leftMs, end)
    signal?.addEventListener('abort', end, { once: true })
    this.#open.add(end)
    const endpoint = this.endpoint
    try {
      const response = await this.#fetch(endpoint + path, { method: 'POST', headers, body, signal: ending.signal })
      const text = await response.text()
      if (response.status !== 200) throw this.#refusal(text, response.status, what)
      return text
    } catch (error) {
      const given = error instanceof EtcdError
      if (ending.signal.aborted && !given) throw this.late(endpoint, what, error)
      if (!given || /leader|timed out|learner|stopped/.test(error.said)) this.#turn(endpoint)
      throw broken(error, what, endpoint)
    } finally {
      timer.cancel()
      signal?.removeEventListener('abort', end)
      this.#open.delete(end)
    }
  }

  /** Which has its turn. */
  get endpoint(): string {
    return this.#endpoints[this.#current % this.#endpoints.length] as string
  }

  /** The next endpoint's turn, unless it has come already. */
  #turn(failed: string): void {
    if (failed === this.endpoint) this.#current++
  }

  #mayAsk({ untilMonoMs, signal }: Limits): boolean {
    return !this.closed && this.#clock.monoMs() < untilMonoMs && signal?.aborted !== true
  }

  #refusal(text: string, status: number, what: string): StoreError {
    return refused(messageIn(text), status, what)
  }

  #isTokenGone(error: unknown): boolean {
    return (
      this.#user !== undefined &&
      error instanceof EtcdError &&
      /invalid auth token|user name is empty|revision in auth token is old/.test(error.said)
    )
  }

  /** One token for all requests, asked for once. */
  async #authorization(limits: Limits): Promise<Record<string, string>> {
    if (this.#user === undefined) return {}
    if (this.#token === undefined || this.#token.isOver)
      this.#token = this.joint(limits, (all) => this.#authenticate(all))
    const token = this.#token
    return { authorization: token.value ?? (await this.outcomeOf('the authentication', token, limits)) }
  }

  async #authenticate(limits: Limits): Promise<string> {
    const body = JSON.stringify({ name: this.#user, password: this.#password })
    const text = await this.#once('the authentication', AUTHENTICATE, body, limits, {})
    return parsed<{ token: string }>(text, 'the authentication').token
  }
}

const givenUp = (what: string) => new EtcdError(`${what} was not sent: the caller gave up before`, 'given up', 'none')

/** What the gateway says of an error, in the forms of 3.4 to 3.6. */
export function messageIn(text: string): string {
  try {
    const { error, message } = JSON.parse(text) as { error?: unknown; message?: unknown }
    if (typeof message === 'string') return message
    if (typeof error === 'string') return error
    return text.slice(0, 200)
  } catch {
    return text.slice(0, 200)
  }
}

function isUrl(text: string): boolean {
  try {
    return new URL(text).host !== ''
  } catch {
    return false
  }
}

function checkEndpoints(endpoints: unknown): readonly string[] {
  const expected = 'must be a list of the client URLs of the members, such as ["http://127.0.0.1:2379"]'
  if (!Array.isArray(endpoints) || endpoints.length === 0) {
    throw new InvalidArgumentError('endpoints', endpoints, expected)
  }
  return endpoints.map((endpoint: unknown) => {
    if (typeof endpoint !== 'string' || !/^https?:\/\/[^/?#@]+\/?$/.test(endpoint) || !isUrl(endpoint)) {
      throw new InvalidArgumentError('endpoints', endpoint, `${expected}: a name or address with a port, and no path`)
    }
    return endpoint.replace(/\/$/, '')
  })
}
