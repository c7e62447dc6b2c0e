// `redis:`, `rediss:` (TLS), and with `+sentinel` or `+cluster` what these find: leases in Redis.
import { readFileSync } from 'node:fs'
import { type RedisStoreOptions, redisStore } from 'holdfast/redis'
import { clockOfRedis, doctorOfRedis } from '../doctor/redis.js'
import { usageError } from '../exit.js'
import { clientOf, connected, type RedisTarget, type TlsOptions } from './redis-client.js'
import { redisRegisters } from './redis-registers.js'
import { type Open, owning } from './scheme.js'
import { readServerUrl, type ServerUrl, shownHosts, wholeParameter } from './url.js'

const STORE_PARAMETERS = ['prefix', 'retentionMs', 'endedRetentionMs', 'replicas', 'replicasTimeoutMs']
const TLS_PARAMETERS = ['ca', 'cert', 'key']

const PORT = 6_379
const SENTINEL_PORT = 26_379

export const open: Open = (url) => {
  const { target, shown, options } = readRedisUrl(url)
  const client = clientOf(target)
  const store = owning(redisStore(client, options), () => client.disconnect())
  let ready: Promise<void> | undefined
  return {
    store,
    shown,
    ready() {
      ready ??= connected(client, shown)
      return ready
    },
    registers: ({ name }) => redisRegisters(client, name),
    doctor: () => doctorOfRedis(client, target, options),
    clock: () => clockOfRedis(client),
  }
}

/** What a URL of these schemes means. Throws `CliError` 64. */
export function readRedisUrl(url: string): { target: RedisTarget; shown: string; options: RedisStoreOptions } {
  const [, secure = '', kind = ''] = /^redis(s?)(?:\+(\w+))?:/i.exec(url) ?? []
  const tlsParameters = secure === '' ? [] : TLS_PARAMETERS
  const parameters = (...more: string[]) => [...STORE_PARAMETERS, ...tlsParameters, ...more]
  const read = kind.toLowerCase() === 'sentinel' ? readSentinel : kind === '' ? readServer : readCluster
  return read(url, `redis${secure}`.toLowerCase(), parameters)
}

type Reader = typeof readRedisUrl extends (url: string) => infer Read
  ? (url: string, scheme: string, parameters: (...more: string[]) => string[]) => Read
  : never

const readServer: Reader = (url, scheme, parameters) => {
  const given = readServerUrl(url, {
    example: `${scheme}://user:password@host:${PORT}/0`,
    defaultPort: PORT,
    hostMayBeMissing: true,
    parameters: parameters('socket'),
  })
  const [host] = given.hosts
  const { socket } = given.query
  const db = databaseOf(given.path, given)
  if (socket !== undefined) {
    if (host !== undefined)
      throw usageError(`a ${scheme}: URL names either a host or a socket: write ${scheme}://?socket=/path`)
    if (!socket.startsWith('/')) throw usageError(`the parameter socket of the ${scheme}: URL must be an absolute path`)
    if (scheme === 'rediss') throw usageError('a socket of this machine has no TLS: write redis://?socket=/path')
    return asRead(given, db, { is: 'socket', path: socket }, `${scheme}:///${db}?socket=${socket}`)
  }
  if (host === undefined)
    throw usageError(`the host is missing; a ${scheme}: URL looks like ${scheme}://user:password@host:${PORT}/0`)
  return asRead(given, db, { is: 'server', host }, `${scheme}://${shownHosts([host])}/${db}`)
}

const readSentinel: Reader = (url, scheme, parameters) => {
  const example = `${scheme}+sentinel://user:password@host:${SENTINEL_PORT},host:${SENTINEL_PORT}/NAME/0`
  const given = readServerUrl(url, {
    example,
    defaultPort: SENTINEL_PORT,
    manyHosts: true,
    parameters: parameters('sentinelUser', 'sentinelPassword'),
  })
  const [name, ...rest] = given.path
  if (name === undefined || name === '') {
    throw usageError(
      `after the sentinels the name under which they know the primary is missing; a ${given.scheme}: URL looks like ${example}`,
    )
  }
  const { hosts, query } = given
  const at = { is: 'sentinel', hosts, name, user: query.sentinelUser, password: query.sentinelPassword } as const
  if (at.user !== undefined && at.password === undefined)
    throw usageError(`the parameter sentinelUser of the ${given.scheme}: URL needs sentinelPassword beside it`)
  const db = databaseOf(rest, given)
  return asRead(given, db, at, `${given.scheme}://${shownHosts(hosts)}/${encodeURIComponent(name)}/${db}`)
}

const readCluster: Reader = (url, scheme, parameters) => {
  const given = readServerUrl(url, {
    example: `${scheme}+cluster://user:password@host:${PORT},host:${PORT}`,
    defaultPort: PORT,
    manyHosts: true,
    parameters: parameters(),
  })
  if (given.path.length > 0 && given.path.join('/') !== '0')
    throw usageError(`a Cluster has one database: leave out what follows the hosts in the ${given.scheme}: URL`)
  return asRead(given, 0, { is: 'cluster', hosts: given.hosts }, `${given.scheme}://${shownHosts(given.hosts)}`)
}

function asRead(given: ServerUrl, db: number, at: RedisTarget['at'], shown: string): ReturnType<typeof readRedisUrl> {
  const { user, password, scheme } = given
  if (user !== undefined && password === undefined)
    throw usageError(`the ${scheme}: URL has a user name and no password: write user:password@, or :password@ alone`)
  const tls = scheme.startsWith('rediss') ? tlsOf(given) : undefined
  return { target: { user, password, db, tls, at }, shown, options: storeOptions(given) }
}

function databaseOf(path: readonly string[], { scheme }: ServerUrl): number {
  const [text = '0', ...more] = path
  if (more.length > 0 || !/^\d{1,9}$/.test(text))
    throw usageError(`what stands last in a ${scheme}: URL is the number of a database, such as /0`)
  return Number(text)
}

function storeOptions(given: ServerUrl): RedisStoreOptions {
  const { scheme, query } = given
  const { prefix } = query
  if (prefix !== undefined && (prefix === '' || Buffer.byteLength(prefix) > 128))
    throw usageError(`the parameter prefix of the ${scheme}: URL must have 1 to 128 bytes`)
  const whole = (name: string, least?: number) => {
    const value = wholeParameter(given, name, least)
    return value === undefined ? {} : { [name]: value }
  }
  return {
    ...(prefix === undefined ? {} : { prefix }),
    ...whole('retentionMs'),
    ...whole('endedRetentionMs'),
    ...whole('replicas'),
    ...whole('replicasTimeoutMs', 1),
  }
}

function tlsOf({ scheme, query }: ServerUrl): TlsOptions {
  const read = (name: 'ca' | 'cert' | 'key') => {
    const path = query[name]
    if (path === undefined) return {}
    try {
      return { [name]: readFileSync(path) }
    } catch (cause) {
      const { code = 'it cannot be read' } = cause as NodeJS.ErrnoException
      throw usageError(`the parameter ${name} of the ${scheme}: URL must name a file that can be read (${code})`)
    }
  }
  if ((query.cert === undefined) !== (query.key === undefined))
    throw usageError(`the parameters cert and key of the ${scheme}: URL go together`)
  return { ...read('ca'), ...read('cert'), ...read('key') }
}
