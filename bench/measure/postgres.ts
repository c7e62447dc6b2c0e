// A PostgreSQL server of its own for the samples of a benchmark, which waits for the disk at each commit, and pools for it.
import pg from 'pg'
import { PostgresServer } from '../../packages/holdfast/test/postgres/servers.js'

let server: Promise<PostgresServer> | undefined

/** The server, which is started once and ends with this process. */
export function postgresServer(): Promise<PostgresServer> {
  server ??= PostgresServer.start({
    settings: ['fsync = on', 'synchronous_commit = on', 'shared_buffers = 128MB', 'max_wal_size = 1GB'],
  })
  return server
}

/** A pool on a database without tables. */
export async function emptyPostgres(max: number): Promise<pg.Pool> {
  const running = await postgresServer()
  running.unref() // ends with this process
  await running.sql('drop schema public cascade')
  await running.sql('create schema public')
  return new pg.Pool({ connectionString: running.url, max })
}
