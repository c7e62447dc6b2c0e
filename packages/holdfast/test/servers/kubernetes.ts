// A stand-in for a Kubernetes API server: Leases over HTTPS with bearer tokens and their rights, versions, watches, and faults on demand.
// It does what kube-apiserver 1.32 was seen to do; each line of that is a test in kubernetes.test.ts.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decode, type Lease, notFound, Refusal } from './kubernetes-lease.js'
import { Objects } from './kubernetes-objects.js'
import { patched, patchKind } from './kubernetes-patch.js'
import { type Account, Accounts, ALL_VERBS, authorize, may, type Verb } from './kubernetes-rights.js'
import { serveWatch } from './kubernetes-watch.js'

/** What goes wrong with the next requests of a verb. */
export interface Fault {
  readonly verb: Verb
  readonly times?: number
  /**
   * `applied`: done, and answered 504. `late`: answered 504, and done when the test calls it. `hang`: done, and never answered. `lost`:
   * done, and the connection breaks. `refuse`: not done, answered so. `slow`: done, and answered after `ms`.
   */
  readonly is: 'applied' | 'late' | 'hang' | 'lost' | 'refuse' | 'slow'
  readonly refusal?: Refusal
  readonly ms?: number
}

/** How long a server whose etcd does not answer takes to say so. Its own times are 34 s and 40 s. */
export interface Frozen {
  readonly writeMs: number
  readonly readMs: number
}

const PATH = /^\/apis\/coordination\.k8s\.io\/v1\/namespaces\/([^/]+)\/leases(?:\/([^/]+))?$/
const REVIEWS = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
const VERSION = 'v1.32.13'
/** More than this is no request. */
const BODY_BYTES_MAX = 3 * 1024 ** 2

export class KubernetesServer {
  readonly objects = new Objects()
  readonly accounts = new Accounts()
  /** Every request on Leases that came, as `verb name`. */
  readonly requests: string[] = []
  /** Who sent each of them. */
  readonly users: string[] = []
  /** Writes that were answered 504 and wait to be done. */
  readonly late: (() => void)[] = []
  /** Watches stay open, and say nothing. */
  silent = false
  /** etcd is stopped: writes are answered 504 and wait in `late`, reads 500; only what is asked of the cache is answered. */
  frozen: Frozen | undefined
  /** Accounts that may not ask what they may do. */
  readonly mayNotReview = new Set<string>()
  readonly ca: string
  readonly #host: string
  readonly #server: Server
  readonly #dir: string
  readonly #faults: (Fault & { left: number })[] = []
  readonly #watches = new Set<ServerResponse>()
  readonly #sockets = new Set<Socket>()
  #port = 0

  private constructor(host: string) {
    this.#host = host
    this.#dir = mkdtempSync(join(tmpdir(), 'holdfast-kubernetes-'))
    const [key, cert] = [join(this.#dir, 'key.pem'), join(this.#dir, 'cert.pem')]
    execFileSync(
      'openssl',
      // biome-ignore format: one option a pair
      ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
        '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost', '-keyout', key, '-out', cert],
      { stdio: 'ignore' },
    )
    this.ca = readFileSync(cert, 'utf8')
    this.#server = createServer({ key: readFileSync(key), cert: this.ca }, (request, response) => {
      void this.#answer(request, response)
    })
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    this.objects.addNamespace('default')
    this.accounts.set('admin', { user: 'admin', verbs: ALL_VERBS })
  }

  static async start(host = '127.0.0.1'): Promise<KubernetesServer> {
    const server = new KubernetesServer(host)
    await server.#listen()
    return server
  }

  get port(): number {
    return this.#port
  }

  get url(): string {
    return `https://${this.#host.includes(':') ? `[${this.#host}]` : this.#host}:${this.port}`
  }

  /** How many connections are open. */
  get connections(): number {
    return this.#sockets.size
  }

  fault(fault: Fault): void {
    this.#faults.push({ ...fault, left: fault.times ?? 1 })
  }

  heal(): void {
    this.#faults.length = 0
  }

  /** Ends all watches, cleanly. */
  endWatches(): void {
    for (const watch of this.#watches) watch.end()
  }

  /** What came after the versions of all watches is forgotten: they are told so. Whoever was told has to end it. */
  expireWatches(): void {
    const { status } = new Refusal(410, 'Expired', 'too old resource version')
    for (const watch of this.#watches) watch.write(`${JSON.stringify({ type: 'ERROR', object: status })}\n`)
  }

  get watches(): number {
    return this.#watches.size
  }

  /** As after SIGTERM: new connections are refused at once, open watches stay open and say nothing. */
  terminate(): void {
    this.silent = true
    this.#server.close()
  }

  /** Its end and a new beginning, at the same address, with the same data. */
  async restart(): Promise<void> {
    await this.#close()
    this.silent = false
    await this.#listen()
  }

  async stop(): Promise<void> {
    await this.#close()
    rmSync(this.#dir, { recursive: true, force: true })
  }

  async #listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, this.#host, resolve))
    this.#port = (this.#server.address() as AddressInfo).port
  }

  async #close(): Promise<void> {
    const closed = this.#server.listening ? new Promise((resolve) => this.#server.close(resolve)) : undefined
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'https://localhost')
    try {
      const text = await bodyOf(request)
      if (pathname === '/version') return send(response, { code: 200, body: { gitVersion: VERSION } })
      if (pathname === '/livez') return send(response, this.frozen === undefined ? OK : FAILED)
      const account = this.accounts.of(request.headers.authorization)
      if (pathname === REVIEWS) return send(response, this.#review(account, text))
      const [, namespace, inPath] = PATH.exec(pathname) ?? []
      if (namespace === undefined)
        throw new Refusal(404, 'NotFound', 'the server could not find the requested resource')
      const name = inPath === undefined ? undefined : decodeURIComponent(inPath)
      const verb = verbOf(request.method ?? '', name, query)
      this.requests.push(`${verb} ${name ?? ''}`.trim())
      this.users.push(account.user)
      const selector = selectorOf(query)
      const can = (one: Verb) =>
        authorize(account, { verb: one, namespace, name: name ?? selector.get('metadata.name') })
      can(verb)
      const selects = ({ metadata }: Lease) =>
        [...selector].every(([field, value]) => metadata[field.slice(9)] === value)
      if (verb === 'watch') {
        this.#refuseByFault(verb)
        this.#watches.add(response)
        const onEnd = () => this.#watches.delete(response)
        const { objects } = this
        return serveWatch({ objects, namespace, query, response, selects, isSilent: () => this.silent, onEnd })
      }
      const asked: Asked = { verb, namespace, name, text, query, can, selects, type: request.headers['content-type'] }
      await this.#withFault(asked, response)
    } catch (error) {
      refuse(response, error)
    }
  }

  #do(asked: Asked): Answer {
    const { objects } = this
    const { verb, namespace, name = '', text, query, can } = asked
    if (verb === 'get') {
      this.#refuseFuture(query)
      const lease = objects.get(namespace, name, query.get('resourceVersion') === '0')
      if (lease === undefined) throw notFound(name)
      return { code: 200, body: lease }
    }
    if (verb === 'list') return this.#list(asked)
    if (verb === 'delete') {
      objects.delete(namespace, name, text === '' ? {} : (JSON.parse(text).preconditions ?? {}))
      return { code: 200, body: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' } }
    }
    if (verb === 'patch') return this.#patch(asked)
    const { lease, warnings } = decode(text, query.get('fieldValidation') === 'Strict')
    const headers: Record<string, string> =
      warnings.length > 0 ? { Warning: warnings.map((warning) => `299 - ${JSON.stringify(warning)}`).join(', ') } : {}
    if (verb === 'create') return { code: 201, body: objects.create(namespace, lease), headers }
    const { created, lease: stored } = objects.replace(namespace, name, lease, () => can('create'))
    return { code: created ? 201 : 200, body: stored, headers }
  }

  #list({ namespace, query, selects }: Asked): Answer {
    this.#refuseFuture(query)
    const { objects } = this
    const items = objects
      .list(namespace)
      .filter(selects)
      .map(({ apiVersion: _, kind: __, ...item }) => item)
    const from = Number(query.get('continue') ?? 0)
    const limit = Number(query.get('limit') ?? 0) || items.length
    const rest = items.length - from - limit
    const more = rest > 0 ? { continue: String(from + limit), remainingItemCount: rest } : {}
    return {
      code: 200,
      body: {
        kind: 'LeaseList',
        apiVersion: 'coordination.k8s.io/v1',
        metadata: { resourceVersion: String(objects.version), ...more },
        items: items.slice(from, from + limit),
      },
    }
  }

  #patch({ namespace, name = '', text, can, type }: Asked): Answer {
    const { objects } = this
    const kind = patchKind(type)
    const before = objects.get(namespace, name)
    if (before === undefined) {
      if (kind !== 'apply') throw notFound(name)
      can('create')
      const { lease } = decode(text, false)
      return { code: 201, body: objects.create(namespace, { ...lease, metadata: { ...lease.metadata, name } }) }
    }
    const { lease } = decode(JSON.stringify(patched(before, kind, text)), false)
    return { code: 200, body: objects.replace(namespace, name, lease, () => {}).lease }
  }

  /** What an account may do, as it asks itself. */
  #review(account: Account, text: string): Answer {
    if (this.mayNotReview.has(account.user) || account.user === 'system:anonymous')
      throw new Refusal(403, 'Forbidden', `User "${account.user}" cannot create resource "selfsubjectaccessreviews"`)
    const { spec } = JSON.parse(text)
    const { verb, namespace, name, group, resource } = spec.resourceAttributes
    const allowed =
      group === 'coordination.k8s.io' &&
      resource === 'leases' &&
      may(account, { verb, namespace, name: name || undefined })
    return {
      code: 201,
      body: { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec, status: { allowed } },
    }
  }

  #refuseFuture(query: URLSearchParams): void {
    if (Number(query.get('resourceVersion') ?? 0) > this.objects.version)
      throw new Refusal(
        504,
        'Timeout',
        `Timeout: Too large resource version: ${query.get('resourceVersion')}, current: ${this.objects.version}`,
        { causes: [{ reason: 'ResourceVersionTooLarge' }], retryAfterSeconds: 1 },
        { 'Retry-After': '1' },
      )
  }

  #takeFault(verb: Verb): Fault | undefined {
    const fault = this.#faults.find((one) => one.verb === verb && one.left > 0)
    if (fault !== undefined) fault.left--
    return fault
  }

  #refuseByFault(verb: Verb): void {
    const fault = this.#takeFault(verb)
    if (fault?.refusal !== undefined) throw fault.refusal
  }

  async #withFault(asked: Asked, response: ServerResponse): Promise<void> {
    const { verb, query } = asked
    const act = () => this.#do(asked)
    if (this.frozen !== undefined && !(verb === 'get' && query.get('resourceVersion') === '0')) {
      const isWrite = verb !== 'get' && verb !== 'list'
      if (isWrite) this.late.push(act)
      const limitMs = Number(/^(\d+)s$/.exec(query.get('timeout') ?? '')?.[1] ?? Number.POSITIVE_INFINITY) * 1_000
      await after(isWrite ? Math.min(limitMs, this.frozen.writeMs) : this.frozen.readMs)
      if (isWrite) throw TIMEOUT
      throw new Refusal(
        500,
        '',
        'rpc error: code = Unavailable desc = keepalive ping failed to receive ACK within timeout',
      )
    }
    const fault = this.#takeFault(verb)
    if (fault === undefined) return send(response, act())
    if (fault.is === 'refuse') throw fault.refusal ?? new Refusal(500, '', 'the fault names no answer')
    if (fault.is === 'late') this.late.push(act)
    else {
      let answer: Answer | undefined
      try {
        answer = act()
      } catch {} // what would have been answered
      if (fault.is === 'slow') {
        await after(fault.ms ?? 0)
        if (answer === undefined) throw new Refusal(409, 'Conflict', 'somebody else was quicker')
        return send(response, answer)
      }
    }
    if (fault.is === 'lost') response.destroy()
    if (fault.is === 'applied' || fault.is === 'late') throw TIMEOUT
  }
}

interface Asked {
  readonly verb: Verb
  readonly namespace: string
  readonly name: string | undefined
  readonly text: string
  readonly query: URLSearchParams
  readonly type: string | undefined
  can(verb: Verb): void
  selects(lease: Lease): boolean
}

interface Answer {
  readonly code: number
  readonly body: object
  readonly headers?: Record<string, string>
}

const OK: Answer = { code: 200, body: { ok: true } }
const FAILED: Answer = { code: 500, body: { ok: false } }
const TIMEOUT = new Refusal(504, 'Timeout', 'Timeout: request did not complete within the allotted timeout')

const after = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms).unref())

async function bodyOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of request) {
    bytes += piece.length
    if (bytes <= BODY_BYTES_MAX) pieces.push(piece)
  }
  if (bytes > BODY_BYTES_MAX)
    throw new Refusal(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${BODY_BYTES_MAX}`)
  return Buffer.concat(pieces).toString('utf8')
}

function verbOf(method: string, name: string | undefined, query: URLSearchParams): Verb {
  if (method === 'GET')
    return ['true', '1'].includes(query.get('watch') ?? '') ? 'watch' : name === undefined ? 'list' : 'get'
  if (method === 'POST' && name === undefined) return 'create'
  if (method === 'PUT' && name !== undefined) return 'update'
  if (method === 'PATCH' && name !== undefined) return 'patch'
  if (method === 'DELETE' && name !== undefined) return 'delete'
  throw new Refusal(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource')
}

/** `metadata.name=a,metadata.namespace=b`: nothing else can be selected by. */
function selectorOf(query: URLSearchParams): Map<string, string> {
  const fields = new Map<string, string>()
  for (const part of (query.get('fieldSelector') ?? '').split(',').filter((one) => one !== '')) {
    const [, field = '', value = ''] = /^([^=]+)==?(.*)$/.exec(part) ?? []
    if (field !== 'metadata.name' && field !== 'metadata.namespace')
      throw new Refusal(
        400,
        'BadRequest',
        `Unable to find "leases" that match field selector "${part}": field label not supported`,
      )
    fields.set(field, value)
  }
  return fields
}

function send(response: ServerResponse, { code, body, headers = {} }: Answer): void {
  response.writeHead(code, { 'Content-Type': 'application/json', ...headers })
  response.end(JSON.stringify(body))
}

function refuse(response: ServerResponse, error: unknown): void {
  if (response.destroyed) return
  const refusal = error instanceof Refusal ? error : new Refusal(500, 'InternalError', String(error))
  send(response, { code: refusal.code, body: refusal.status, headers: refusal.headers })
}

export { type Lease, Refusal, type Verb }
