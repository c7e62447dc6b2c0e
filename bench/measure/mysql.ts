// A MariaDB server of its own for the samples of a benchmark, which waits for the disk at each commit, and pools for it.
import { readFileSync } from 'node:fs'
import type { Pool } from 'mysql2/promise'
import { MysqlServer } from '../../packages/holdfast/test/mysql/servers.js'

let server: Promise<MysqlServer> | undefined

/** The server, which is started once and ends with this process. */
export function mysqlServer(): Promise<MysqlServer> {
  server ??= MysqlServer.start({
    args: ['--innodb-flush-log-at-trx-commit=1', '--innodb-log-file-size=256M', '--innodb-buffer-pool-size=256M'],
  })
  return server
}

/** A pool on a database without tables. */
export async function emptyMysql(connectionLimit: number): Promise<Pool> {
  const running = await mysqlServer()
  running.unref() // ends with this process
  const root = running.pool({ database: 'mysql', connectionLimit: 1 })
  await root.query('DROP DATABASE IF EXISTS test')
  await root.query('CREATE DATABASE test')
  await root.end()
  return running.pool({ connectionLimit })
}

/** Gives the CPU time that the server has taken since, in ms. */
export async function mysqlCpu(): Promise<() => number> {
  const { folder } = await mysqlServer()
  const pid = readFileSync(`${folder}/pid`, 'utf8').trim()
  const read = () => {
    const [user = 0, system = 0] =
      readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ').slice(11, 13).map(Number) ?? []
    return (user + system) * 10
  }
  const before = read()
  return () => read() - before
}
