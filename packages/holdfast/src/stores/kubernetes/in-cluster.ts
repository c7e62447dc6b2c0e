// `holdfast/kubernetes/in-cluster`: the API of Leases from inside a pod, by the mount of its service account and Node's own HTTPS, for
// those who have no Kubernetes client. Node, Bun and Deno have the built-ins that it takes.
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { Agent, type RequestOptions, request } from 'node:https'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../lease/clock.js'
import { InvalidArgumentError } from '../../lease/errors.js'
import type { KubernetesLease, KubernetesLeaseList, KubernetesLeases, KubernetesWatch } from './client.js'
import { ApiError, type Body, readLines, readText } from './http.js'

/** What `inClusterLeases` takes. All of it is found by itself in a pod. */
export interface InClusterOptions {
  /** Where the service account is mounted: `token`, `ca.crt`, `namespace`. Default where Kubernetes mounts it. */
  readonly folder?: string
  /** The API server. Default `KUBERNETES_SERVICE_HOST`. */
  readonly host?: string
  /** Its port. Default `KUBERNETES_SERVICE_PORT`. */
  readonly port?: number
  /** By which the token's file is read again. Default: this machine's. */
  readonly clock?: Clock
}

/** Leases and their watch, for `kubernetesStore`, and the pod's own namespace. */
export interface InClusterLeases extends KubernetesLeases, KubernetesWatch {
  /** The namespace of this pod, from the mount. */
  readonly namespace: string
  /** Any other request to the API server, for tools: its answer, as JSON. */
  ask(method: string, path: string, body?: unknown): Promise<unknown>
  /** Ends idle connections. */
  close(): void
}

const FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'
/** Tokens are replaced in the mount long before they expire: a file is read again after so long, as client-go does. */
const FRESH_MS = 60_000
/** Whoever asks sets a shorter limit; this one is for those who do not. */
const REQUEST_MS_MAX = 60_000

/**
 * The API of Leases of the cluster that this pod runs in: reads the mount of its service account (the token's file again as it rotates,
 * and at once when the server does not know it any more), and asks by HTTPS on connections of its own, which nothing else of the
 * process slows down.
 *
 * Throws InvalidArgumentError where there is no mount, or no address of an API server.
 *
 * @example
 * ```ts no-run
 * import { createLeases } from 'holdfast'
 * import { kubernetesStore } from 'holdfast/kubernetes'
 * import { inClusterLeases } from 'holdfast/kubernetes/in-cluster'
 *
 * const api = inClusterLeases()
 * const leases = createLeases({ store: kubernetesStore(api, { namespace: api.namespace }) })
 * await leases.hold('report', ({ signal }) => writeReport(signal))
 * ```
 */
export function inClusterLeases(options: InClusterOptions = {}): InClusterLeases {
  const mount = new Mount(options.folder ?? FOLDER, options.clock ?? systemClock)
  return new InCluster(addressOf(options), mount)
}

interface Address {
  readonly host: string
  readonly port: number
}

function addressOf(options: InClusterOptions): Address {
  const { KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT } = process.env
  const host = options.host ?? KUBERNETES_SERVICE_HOST ?? ''
  if (typeof host !== 'string' || host === '')
    throw new InvalidArgumentError(
      options.host === undefined ? 'KUBERNETES_SERVICE_HOST' : 'host',
      host,
      'must be set, as it is in every pod: outside of a cluster use @kubernetes/client-node with a kubeconfig',
    )
  const given = options.port ?? KUBERNETES_SERVICE_PORT
  const port = Number(given)
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw new InvalidArgumentError(
      options.port === undefined ? 'KUBERNETES_SERVICE_PORT' : 'port',
      given,
      'must be a port, as it is in every pod',
    )
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port }
}

/** The files of the service account. */
class Mount {
  readonly namespace: string
  readonly #folder: string
  readonly #clock: Clock
  #token: string
  #ca: string
  #readMs: number

  constructor(folder: string, clock: Clock) {
    this.#folder = folder
    this.#clock = clock
    this.#token = this.#now('token')
    this.#ca = this.#now('ca.crt')
    this.namespace = this.#now('namespace')
    this.#readMs = clock.monoMs()
  }

  /** Token and authorities, not older than a minute. A file that cannot be read just now leaves them as they were. */
  async current(): Promise<{ token: string; ca: string }> {
    if (this.#clock.monoMs() - this.#readMs >= FRESH_MS) await this.again()
    return { token: this.#token, ca: this.#ca }
  }

  /** Reads them again, and says whether the token is another. */
  async again(): Promise<boolean> {
    const before = this.#token
    const read = async (name: string, otherwise: string) => {
      const text = await readFile(join(this.#folder, name), 'utf8').catch(() => '')
      return text.trim() === '' ? otherwise : text.trim()
    }
    ;[this.#token, this.#ca] = await Promise.all([read('token', this.#token), read('ca.crt', this.#ca)])
    this.#readMs = this.#clock.monoMs()
    return this.#token !== before
  }

  #now(name: string): string {
    const path = join(this.#folder, name)
    let text = ''
    try {
      text = readFileSync(path, 'utf8').trim()
    } catch {}
    if (text === '')
      throw new InvalidArgumentError(
        'folder',
        this.#folder,
        `must hold the file "${name}" of a service account: does this process run in a pod, with automountServiceAccountToken?`,
      )
    return text
  }
}

class InCluster implements InClusterLeases {
  readonly namespace: string
  readonly #address: Address
  readonly #mount: Mount
  readonly #agent = new Agent({ keepAlive: true })

  constructor(address: Address, mount: Mount) {
    this.#address = address
    this.#mount = mount
    this.namespace = mount.namespace
  }

  readNamespacedLease({ name, namespace, signal }: Parameters<KubernetesLeases['readNamespacedLease']>[0]) {
    return this.#ask<KubernetesLease>('GET', pathOf(namespace, name), { signal })
  }

  createNamespacedLease({ namespace, body, signal }: Parameters<KubernetesLeases['createNamespacedLease']>[0]) {
    return this.#ask<KubernetesLease>('POST', pathOf(namespace), { body, signal })
  }

  replaceNamespacedLease({ name, namespace, body, signal }: Parameters<KubernetesLeases['replaceNamespacedLease']>[0]) {
    return this.#ask<KubernetesLease>('PUT', pathOf(namespace, name), { body, signal })
  }

  async listNamespacedLease({
    namespace,
    limit,
    _continue,
    signal,
  }: Parameters<KubernetesLeases['listNamespacedLease']>[0]): Promise<KubernetesLeaseList> {
    const path = `${pathOf(namespace)}${queryOf({ limit, continue: _continue })}`
    const { items, metadata } = await this.#ask<{ items: KubernetesLease[]; metadata?: { continue?: string } }>(
      'GET',
      path,
      { signal },
    )
    return { items, metadata: metadata?.continue === undefined ? {} : { _continue: metadata.continue } }
  }

  async watch(...[path, query, callback, done]: Parameters<KubernetesWatch['watch']>): Promise<{ abort(): void }> {
    const ending = new AbortController()
    const end = (error: unknown) => {
      if (ending.signal.aborted) return
      ending.abort()
      done(error)
    }
    const to = `${path}${queryOf({ ...query, watch: true })}`
    void this.#send('GET', to, { signal: ending.signal }, async (body) => {
      await readLines(body, (line) => {
        const { type, object } = JSON.parse(line) as { type: string; object: KubernetesLease }
        callback(type, object)
      })
    }).then(() => end(null), end)
    return ending
  }

  ask(method: string, path: string, body?: unknown): Promise<unknown> {
    return this.#ask(method, path, body === undefined ? {} : { body })
  }

  close(): void {
    this.#agent.destroy()
  }

  /**
   * One request; once more when the server does not know the token, and another is in the mount by now, and a read also when the
   * connection had been closed while it was idle. (A write of which that is true is read back by the store.)
   */
  async #ask<Answer>(method: string, path: string, how: How): Promise<Answer> {
    const limited = { ...how, timeoutMs: REQUEST_MS_MAX }
    const read = async (body: Body) => JSON.parse(await readText(body)) as Answer
    try {
      return await this.#send(method, path, limited, read)
    } catch (error) {
      const hasNewToken = error instanceof ApiError && error.code === 401 && (await this.#mount.again())
      if (!hasNewToken && !(method === 'GET' && error instanceof IdleConnectionClosed)) throw error
      return this.#send(method, path, limited, read)
    }
  }

  async #send<Answer>(method: string, path: string, how: How, read: (body: Body) => Promise<Answer>): Promise<Answer> {
    const { token, ca } = await this.#mount.current()
    const { host, port } = this.#address
    const text = how.body === undefined ? undefined : JSON.stringify(how.body)
    const options: RequestOptions = {
      agent: this.#agent,
      host,
      port,
      ca,
      method,
      path,
      headers: {
        Accept: 'application/json',
        Authorization: `Bearer ${token}`,
        'User-Agent': 'holdfast',
        ...(text === undefined
          ? {}
          : { 'Content-Type': 'application/json', 'Content-Length': String(new TextEncoder().encode(text).length) }),
      },
      ...(how.signal === undefined ? {} : { signal: how.signal }),
      ...(how.timeoutMs === undefined ? {} : { timeout: how.timeoutMs }),
    }
    return new Promise<Answer>((resolve, reject) => {
      const sent = request(options, (response) => {
        const { statusCode = 0, headers } = response
        response.on('error', reject)
        const answer =
          statusCode >= 200 && statusCode < 300
            ? read(response)
            : readText(response).then((body) => {
                throw new ApiError(statusCode, body, headers)
              })
        answer.then(resolve, reject)
      })
      sent.on('timeout', () => sent.destroy(new Error('the API server did not answer')))
      sent.on('error', (error: Error & { code?: unknown }) =>
        reject(sent.reusedSocket && error.code === 'ECONNRESET' ? new IdleConnectionClosed(error) : error),
      )
      sent.end(text)
    })
  }
}

class IdleConnectionClosed extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause })
  }
}

interface How {
  readonly body?: unknown
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number
}

const pathOf = (namespace: string, name?: string): string =>
  `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases${name === undefined ? '' : `/${encodeURIComponent(name)}`}`

function queryOf(query: Record<string, string | number | boolean | undefined>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  return given.length === 0
    ? ''
    : `?${given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join('&')}`
}
