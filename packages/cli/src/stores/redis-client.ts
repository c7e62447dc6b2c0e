// The client of the command line for Redis, in its three kinds; and when it is ready, or why it is not. ioredis goes on trying
// for as long as it lives: here a first connection has to come about in bounded time, and its errors become one line.
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { CliError, EXIT } from '../exit.js'
import type { Host } from './url.js'

/** What a URL of Redis names. */
export interface RedisTarget {
  readonly user: string | undefined
  readonly password: string | undefined
  readonly db: number
  readonly tls: TlsOptions | undefined
  readonly at:
    | { readonly is: 'server'; readonly host: Host }
    | { readonly is: 'socket'; readonly path: string }
    | {
        readonly is: 'sentinel'
        readonly hosts: readonly Host[]
        readonly name: string
        readonly user: string | undefined
        readonly password: string | undefined
      }
    | { readonly is: 'cluster'; readonly hosts: readonly Host[] }
}

export interface TlsOptions {
  readonly ca?: Buffer
  readonly cert?: Buffer
  readonly key?: Buffer
}

export type Client = Redis | Cluster

/** How long the first connection may take, and any command after it: a server that hangs is not waited for without end. */
export const CONNECT_MS = 5_000
const COMMAND_MS = 5_000

/** How long a connection that does not end may keep the end of this process waiting. */
const CLOSE_MS = 100

/** From one attempt to reconnect to the next: longer each time, not the same for all clients of a server that comes back. */
const again = (attempt: number) => Math.min(100 * 2 ** Math.min(attempt, 5), 2_000) * (0.5 + Math.random() / 2)

/** Makes a client. It connects when it is told to. */
export function clientOf({ user, password, db, tls, at }: RedisTarget): Client {
  const options = {
    lazyConnect: true,
    // The first command says better than its own check what is wrong; a server that hangs is found by its greeting.
    enableReadyCheck: false,
    connectTimeout: CONNECT_MS,
    commandTimeout: COMMAND_MS,
    disconnectTimeout: CLOSE_MS,
    maxRetriesPerRequest: null,
    retryStrategy: again,
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
    ...(tls === undefined ? {} : { tls: { ...tls } }),
  } satisfies RedisOptions
  switch (at.is) {
    case 'server':
      return new Redis({ ...options, ...at.host, db })
    case 'socket':
      return new Redis({ ...options, path: at.path, db })
    case 'sentinel':
      return new Redis({
        ...options,
        db,
        sentinels: [...at.hosts],
        name: at.name,
        sentinelRetryStrategy: again,
        ...(at.user === undefined ? {} : { sentinelUsername: at.user }),
        ...(at.password === undefined ? {} : { sentinelPassword: at.password }),
        ...(tls === undefined ? {} : { enableTLSForSentinelMode: true, sentinelTLS: { ...tls } }),
      })
    case 'cluster':
      return new Cluster([...at.hosts], {
        lazyConnect: true,
        clusterRetryStrategy: again,
        redisOptions: options,
        // A certificate is for a name: it must reach the socket as the server gave it.
        ...(tls === undefined ? {} : { dnsLookup: (address, callback) => callback(null, address) }),
      })
  }
}

/**
 * Connects. Throws `CliError` 69 with the last that went wrong: for one server at its first refusal, for what may just be
 * failing over when the time is over. The client goes on trying.
 */
export function connected(client: Client, shown: string): Promise<void> {
  const single = client instanceof Redis && !('sentinels' in client.options && client.options.sentinels)
  const { tls } = (client instanceof Redis ? client.options : client.options.redisOptions) ?? {}
  const words = (error: Error) => wordsOf(error, tls !== undefined)
  return new Promise((resolve, reject) => {
    let last: Error | undefined
    const done = (then: () => void) => {
      clearTimeout(timer)
      client.off('error', onError).off('node error', onDetail).off('sentinelError', onDetail).off('ready', onReady)
      then()
    }
    const fail = (why: string) => {
      // In a quorum the client lives on: until it is connected its commands fail at once, and none arrives late.
      client.options.enableOfflineQueue = false
      client.once('ready', () => {
        client.options.enableOfflineQueue = true
      })
      done(() => reject(new CliError(EXIT.unavailable, `cannot reach ${shown}: ${why}`, { cause: last })))
    }
    const onReady = () => done(resolve)
    const onDetail = (error: Error) => {
      // What a server refuses says more than that the connection ended then.
      if (last === undefined || !isClosed(error)) last = error
    }
    const onError = (error: Error) => {
      onDetail(error)
      if (single || isRefusal(last ?? error)) fail(words(last ?? error))
    }
    const timer = setTimeout(
      () =>
        fail(
          last === undefined
            ? `it did not answer within ${CONNECT_MS / 1_000} s (one that speaks no TLS never answers a rediss: URL)`
            : words(last),
        ),
      CONNECT_MS,
    )
    client.on('error', () => {}) // for good: it reconnects by itself, and commands tell their own trouble
    client.on('error', onError).on('node error', onDetail).on('sentinelError', onDetail).on('ready', onReady)
    client.connect().catch((error: Error) => {
      onDetail(error)
      if (single && !isClosed(error)) fail(words(error))
    })
  })
}

/** Errors that name no cause. */
const isClosed = (error: Error) =>
  /^(All sentinels|Failed to refresh|Connection is closed|None of startup)/.test(error.message)

/** The server's own no: trying again changes nothing. */
const isRefusal = (error: Error) => /^(WRONGPASS|NOAUTH|NOPERM|ERR|DENIED) /.test(error.message)

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/^WRONGPASS|^NOAUTH|without any password configured/, 'check the user name and the password in the URL'],
  [/DB index is out of range/, 'check the number of the database at the end of the URL'],
  [/ECONNREFUSED/, 'nobody listens there: check host and port, and that the server runs'],
  [/ENOTFOUND|EAI_AGAIN/, 'the host has no address: check its name'],
  [/certificate|self-signed|CERT_|ALTNAME/i, 'give the certificate of its authority with ?ca=FILE'],
  [
    /wrong version number|packet length too long|ECONNRESET/,
    'one side speaks TLS and the other does not: rediss: is with, redis: without',
  ],
  [/cluster support disabled/, 'this is no Cluster: use a redis: URL'],
  [/^Connection is closed/, 'none of the servers in the URL can be reached: check hosts and ports'],
  [/sentinel/i, 'check the addresses of the sentinels and the name of the primary'],
]

function wordsOf(error: Error, secure: boolean): string {
  const advice = ADVICE.find(([pattern]) => pattern.test(error.message))?.[1]
  if (advice === undefined) return error.message
  // Of many servers the driver does not tell what was wrong with the handshake.
  const untold = secure && /Connection is closed/.test(error.message)
  return `${error.message}; ${advice}${untold ? '; that these ports speak TLS; and that the certificates are trusted: ?ca=FILE' : ''}`
}
