// `nats:`: leases in a key-value bucket of JetStream, which is made when it is not there.
import { readFileSync } from 'node:fs'
import { type KV, Kvm } from '@nats-io/kv'
import { type ConnectionOptions, connect, credsAuthenticator, type NatsConnection } from '@nats-io/transport-node'
import { type NatsKv, natsStore } from 'holdfast/nats'
import { doctorOfNats } from '../doctor/nats.js'
import { CliError, EXIT, usageError } from '../exit.js'
import { type Open, owning } from './scheme.js'
import { readServerUrl, shownHosts } from './url.js'

const PORT = 4_222
const BUCKET = 'holdfast'

/** How long a connection, or an answer, may take: a server that hangs is not waited for without end. */
const ANSWER_MS = 5_000

const PARAMETERS = ['creds', 'ca', 'cert', 'key']

export const open: Open = (url) => {
  const { options, bucket, shown } = readNatsUrl(url)
  const lazy = new LazyBucket(options, bucket)
  const store = owning(natsStore(lazy), () => lazy.end())
  return {
    store,
    shown,
    async ready() {
      try {
        await lazy.connected()
      } catch (cause) {
        const why = cause instanceof Error && cause.message !== '' ? cause.message : String(cause)
        throw new CliError(EXIT.unavailable, `cannot reach ${shown}: ${why}`, { cause })
      }
    },
    doctor: async () => doctorOfNats(await lazy.connected(), bucket, store),
  }
}

/** Whether the server says that there is no such stream. */
export const isMissing = (error: unknown): boolean => Number((error as { code?: unknown } | null)?.code) === 10_059

/** A bucket that is opened by the first command. */
class LazyBucket implements NatsKv {
  readonly #options: ConnectionOptions
  readonly #name: string
  #connection: Promise<NatsConnection> | undefined
  #bucket: Promise<KV> | undefined

  constructor(options: ConnectionOptions, name: string) {
    this.#options = options
    this.#name = name
  }

  connected(): Promise<NatsConnection> {
    this.#connection ??= connect(this.#options).catch((error) => {
      this.#connection = undefined
      throw error
    })
    return this.#connection
  }

  async end(): Promise<void> {
    await (await this.#connection?.catch(() => undefined))?.close()
  }

  async get(...args: Parameters<NatsKv['get']>) {
    return (await this.#open()).get(...args)
  }

  async put(...args: Parameters<NatsKv['put']>) {
    return (await this.#open()).put(...args)
  }

  async delete(...args: Parameters<NatsKv['delete']>) {
    return (await this.#open()).delete(...args)
  }

  async keys() {
    return (await this.#open()).keys()
  }

  async watch(...args: Parameters<NatsKv['watch']>) {
    return (await this.#open()).watch(...args)
  }

  async status() {
    return (await this.#open()).status()
  }

  #open(): Promise<KV> {
    this.#bucket ??= this.#find().catch((error) => {
      this.#bucket = undefined
      throw error
    })
    return this.#bucket
  }

  async #find(): Promise<KV> {
    const kvm = new Kvm(await this.connected())
    const kv = await kvm.open(this.#name)
    try {
      await kv.status()
      return kv
    } catch (error) {
      if (!isMissing(error)) throw error
      return kvm.create(this.#name, { replicas: 1, storage: 'file' as never, history: 1 })
    }
  }
}

/** What a URL of this scheme means. Throws `CliError` 64. */
export function readNatsUrl(url: string): { options: ConnectionOptions; bucket: string; shown: string } {
  const { scheme, user, password, hosts, path, query } = readServerUrl(url, {
    example: `nats://user:password@host:${PORT}/bucket`,
    defaultPort: PORT,
    manyHosts: true,
    parameters: PARAMETERS,
  })
  const [bucket = BUCKET, ...rest] = path
  if (rest.length > 0 || !/^[-\w]+$/.test(bucket))
    throw usageError(
      `after the hosts a ${scheme}: URL names a bucket, of letters, digits, "-" and "_": nats://host:${PORT}/${BUCKET}`,
    )
  if (user === undefined && password !== undefined)
    throw usageError(`a ${scheme}: URL names user:password@, or a token@ alone`)
  const read = (name: string) => {
    const file = query[name]
    if (file === undefined) return undefined
    try {
      return readFileSync(file)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      throw usageError(`the parameter ${name} of the ${scheme}: URL must name a file that can be read (${code})`)
    }
  }
  const [creds, ca, cert, key] = PARAMETERS.map(read)
  if ((cert === undefined) !== (key === undefined))
    throw usageError(`the parameters cert and key of the ${scheme}: URL go together`)
  const tls = {
    ...(ca === undefined ? {} : { ca: ca.toString() }),
    ...(cert === undefined || key === undefined ? {} : { cert: cert.toString(), key: key.toString() }),
  }
  return {
    options: {
      servers: hosts.map((host) => shownHosts([host])),
      timeout: ANSWER_MS,
      maxReconnectAttempts: -1,
      name: 'holdfast',
      ...(user === undefined ? {} : password === undefined ? { token: user } : { user, pass: password }),
      ...(creds === undefined ? {} : { authenticator: credsAuthenticator(creds) }),
      ...(Object.keys(tls).length === 0 ? {} : { tls }),
    },
    bucket,
    shown: `${scheme}://${shownHosts(hosts)}/${bucket}`,
  }
}
