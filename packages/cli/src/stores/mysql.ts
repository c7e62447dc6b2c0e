// `mysql:` and `mariadb:`: leases as rows of a database.
import { mysqlStore } from 'holdfast/mysql'
import { createPool } from 'mysql2/promise'
import { clockOfMysql, doctorOfMysql } from '../doctor/mysql.js'
import { CliError, EXIT, usageError } from '../exit.js'
import { mysqlRegisters } from './mysql-registers.js'
import { type Open, owning } from './scheme.js'
import { readServerUrl, shownHosts, wholeParameter } from './url.js'

const PORT = 3_306

/** How long a connection may take: a server that hangs is not waited for without end. */
const CONNECT_MS = 5_000

const SSL = ['disable', 'require', 'verify-full']

const PARAMETERS = ['database', 'table', 'sslmode', 'retentionMs', 'endedRetentionMs']

export const open: Open = (url) => {
  const { config, options, shown } = readMysqlUrl(url)
  const pool = createPool({ ...config, connectionLimit: 5, connectTimeout: CONNECT_MS })
  const store = owning(mysqlStore(pool, options), () => {
    void pool.end().catch(() => {})
  })
  let ready: Promise<void> | undefined
  return {
    store,
    shown,
    ready() {
      ready ??= pool.query('SELECT 1').then(
        () => {},
        (cause) => {
          const why = cause instanceof Error && cause.message !== '' ? cause.message : String(cause.code ?? cause)
          throw new CliError(EXIT.unavailable, `cannot reach ${shown}: ${why}`, { cause })
        },
      )
      return ready
    },
    registers: ({ name }) => mysqlRegisters(pool, name),
    doctor: () => doctorOfMysql(pool, store),
    clock: () => clockOfMysql(pool),
  }
}

/** What a URL of these schemes means. Throws `CliError` 64. */
function readMysqlUrl(url: string) {
  const given = readServerUrl(url, {
    example: `mysql://user:password@host:${PORT}/database`,
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
  const { sslmode, table, database: leases } = query
  if (sslmode !== undefined && !SSL.includes(sslmode)) {
    throw usageError(`the parameter sslmode of the ${scheme}: URL must be one of ${SSL.join(', ')}`)
  }
  const ssl = sslmode === undefined || sslmode === 'disable' ? undefined : { rejectUnauthorized: sslmode !== 'require' }
  const retentionMs = wholeParameter(given, 'retentionMs')
  const endedRetentionMs = wholeParameter(given, 'endedRetentionMs')
  return {
    config: {
      host: host.host,
      port: host.port,
      database,
      ...(user === undefined ? {} : { user }),
      ...(password === undefined ? {} : { password }),
      ...(ssl === undefined ? {} : { ssl }),
    },
    options: {
      ...(leases === undefined ? {} : { database: leases }),
      ...(table === undefined ? {} : { table }),
      ...(retentionMs === undefined ? {} : { retentionMs }),
      ...(endedRetentionMs === undefined ? {} : { endedRetentionMs }),
    },
    shown: `${scheme}://${shownHosts([host])}/${encodeURIComponent(database)}`,
  }
}
