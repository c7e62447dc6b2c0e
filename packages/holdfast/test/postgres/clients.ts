// The clients of Postgres under test, opened on an address.
import pg from 'pg'
import postgres from 'postgres'
import type { PostgresClient, PostgresStoreOptions } from '../../src/stores/postgres/index.js'

export interface Connected {
  readonly client: PostgresClient
  readonly options?: PostgresStoreOptions
  close(): Promise<unknown>
}

export interface ClientKind {
  readonly name: string
  open(url: string, max?: number): Connected
}

export const pgPool = (url: string, options: pg.PoolConfig = {}): pg.Pool => {
  const pool = new pg.Pool({ connectionString: url, ...options })
  pool.on('error', () => {})
  return pool
}

export const clientKinds: readonly ClientKind[] = [
  {
    name: 'pg',
    open(url, max = 10) {
      const client = pgPool(url, { max })
      return { client, close: () => client.end() }
    },
  },
  {
    name: 'postgres.js',
    open(url, max = 10) {
      const client = postgres(url, { max, onnotice: () => {} })
      return { client, close: () => client.end({ timeout: 1 }) }
    },
  },
]

export function clientKind(name: 'pg' | 'postgres.js'): ClientKind {
  const kind = clientKinds.find((one) => one.name === name)
  if (kind === undefined) throw new Error(`no client ${name}`)
  return kind
}
