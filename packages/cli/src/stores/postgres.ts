// `postgres:` and `postgresql:`: leases as rows of a database.
import { postgresStore } from 'holdfast/postgres'
import pg from 'pg'
import { clockOfPostgres, doctorOfPostgres } from '../doctor/postgres.js'
import { CliError, EXIT, usageError } from '../exit.js'
import { postgresRegisters } from './postgres-registers.js'
import { type Open, owning } from './scheme.js'
import { readServerUrl, shownHosts, wholeParameter } from './url.js'

const PORT = 5_432

/** How long a connection may take: a server that hangs is not waited for without end. */
const CONNECT_MS = 5_000

const SSL = ['disable', 'require', 'verify-full']

const PARAMETERS = ['schema', 'table', 'listen', 'sslmode', 'retentionMs', 'endedRetentionMs']

export const open: Open = (url) => {
  const { config, names, listen, more, shown } = readPostgresUrl(url)
  const pool = new pg.Pool({ ...config, max: 5, connectionTimeoutMillis: CONNECT_MS, allowExitOnIdle: true })
  pool.on('error', () => {}) // an idle connection that broke: the pool has dropped it
  const store = owning(postgresStore(pool, { ...names, ...more, ...(listen ? {} : { listen: false }) }), () => {
    void pool.end().catch(() => {})
  })
  let ready: Promise<void> | undefined
  return {
    store,
    shown,
    ready() {
      ready ??= pool.query('select 1').then(
        () => {},
        (cause) => {
          const why = cause instanceof Error && cause.message !== '' ? cause.message : String(cause.code ?? cause)
          throw new CliError(EXIT.unavailable, `cannot reach ${shown}: ${why}`, { cause })
        },
      )
      return ready
    },
    registers: ({ name }) => postgresRegisters(pool, name),
    doctor: () => doctorOfPostgres(pool, store),
    clock: () => clockOfPostgres(pool),
  }
}

/** What a URL of these schemes means. Throws `CliError` 64. */
function readPostgresUrl(url: string) {
  const given = readServerUrl(url, {
    example: `postgres://user:password@host:${PORT}/database`,
    defaultPort: PORT,
    parameters: PARAMETERS,
  })
  const { scheme, user, password, query } = given
  const [host] = given.hosts
  const [database, ...rest] = given.path
  if (host === undefined || database === undefined || database === '' || rest.length > 0) {
    throw usageError(
      `a ${scheme}: URL ends with the name of one database: ${scheme}://user:password@host:${PORT}/database`,
    )
  }
  const { sslmode, listen = 'true', schema, table } = query
  if (sslmode !== undefined && !SSL.includes(sslmode)) {
    throw usageError(`the parameter sslmode of the ${scheme}: URL must be one of ${SSL.join(', ')}`)
  }
  if (!['true', 'false'].includes(listen)) {
    throw usageError(`the parameter listen of the ${scheme}: URL must be true or false`)
  }
  const ssl = sslmode === undefined || sslmode === 'disable' ? undefined : { rejectUnauthorized: sslmode !== 'require' }
  const retentionMs = wholeParameter(given, 'retentionMs')
  const endedRetentionMs = wholeParameter(given, 'endedRetentionMs')
  return {
    config: { host: host.host, port: host.port, database, user, password, ...(ssl === undefined ? {} : { ssl }) },
    names: { ...(schema === undefined ? {} : { schema }), ...(table === undefined ? {} : { table }) },
    more: {
      ...(retentionMs === undefined ? {} : { retentionMs }),
      ...(endedRetentionMs === undefined ? {} : { endedRetentionMs }),
    },
    listen: listen === 'true',
    shown: `${scheme}://${shownHosts([host])}/${encodeURIComponent(database)}`,
  }
}
