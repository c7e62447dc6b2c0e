// The fence inside the transactions of query builders, as the docs show it: each refuses a stale write, and rolls it back.
import { sql as drizzleSql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/mysql2'
import knexFactory from 'knex'
import { CompiledQuery, Kysely, MysqlDialect } from 'kysely'
import type { RowDataPacket } from 'mysql2/promise'
import { beforeAll, describe, expect, it } from 'vitest'
import { StaleTokenError } from '../../src/lease/errors.js'
import type { Grant } from '../../src/store/contract.js'
import { mysqlFence } from '../../src/stores/mysql/index.js'
import { Bench, fresh, grantOf } from './harness.js'

const bench = Bench.here()
const fence = mysqlFence()

beforeAll(async () => {
  await fence.install(bench.pool())
  await bench.pool().query('CREATE TABLE reports (id VARCHAR(64) PRIMARY KEY, body TEXT)')
})

/** Writes under a grant, in a transaction of the builder: the body first, so that a refusal has something to roll back. */
type Write = (grant: Grant, id: string, body: string) => Promise<unknown>

const builders: Record<string, () => { write: Write; end(): Promise<unknown> }> = {
  drizzle() {
    const db = drizzle(bench.pool())
    return {
      write: (grant, id, body) =>
        db.transaction(async (tx) => {
          await tx.execute(
            drizzleSql`insert into reports values (${id}, ${body}) on duplicate key update body = values(body)`,
          )
          const { raise, read } = fence.statements(grant)
          const query = ({ sql, params }: typeof raise) => {
            const parts = sql.split('?').map((part) => drizzleSql.raw(part))
            return drizzleSql.join(
              parts.flatMap((part, i) => (i === 0 ? [part] : [drizzleSql`${params[i - 1]}`, part])),
            )
          }
          await tx.execute(query(raise))
          const [rows] = await tx.execute(query(read))
          fence.verify(rows as unknown as unknown[])
        }),
      async end() {},
    }
  },

  kysely() {
    // Kysely takes the pool that answers through callbacks: the one within.
    const db = new Kysely<{ reports: { id: string; body: string } }>({
      dialect: new MysqlDialect({ pool: bench.pool().pool }),
    })
    return {
      write: (grant, id, body) =>
        db.transaction().execute(async (tx) => {
          await tx.insertInto('reports').values({ id, body }).onDuplicateKeyUpdate({ body }).execute()
          const { raise, read } = fence.statements(grant)
          await tx.executeQuery(CompiledQuery.raw(raise.sql, [...raise.params]))
          fence.verify((await tx.executeQuery(CompiledQuery.raw(read.sql, [...read.params]))).rows)
        }),
      async end() {},
    }
  },

  knex() {
    const db = knexFactory({
      client: 'mysql2',
      connection: { host: '127.0.0.1', port: bench.server.port, user: 'root', database: 'test' },
    })
    return {
      write: (grant, id, body) =>
        db.transaction(async (tx) => {
          await tx('reports').insert({ id, body }).onConflict('id').merge()
          const { raise, read } = fence.statements(grant)
          await tx.raw(raise.sql, [...raise.params] as never)
          const [rows] = await tx.raw(read.sql, [...read.params] as never)
          fence.verify(rows)
        }),
      end: () => db.destroy(),
    }
  },
}

describe.each(Object.keys(builders))('%s', (name) => {
  it('admits, refuses what is stale, and rolls the write back (G7)', async () => {
    const { write, end } = (builders[name] as () => { write: Write; end(): Promise<unknown> })()
    const id = fresh()
    const body = async () => {
      const [[row]] = await bench.shared.query<RowDataPacket[]>('SELECT body FROM reports WHERE id = ?', [id])
      return row?.body
    }
    await write(grantOf(id, 'first', 9), id, 'nine')
    await write(grantOf(id, 'second', 10), id, 'ten')
    await expect(write(grantOf(id, 'first', 9), id, 'late')).rejects.toBeInstanceOf(StaleTokenError)
    await expect(write(grantOf(id, 'other', 10), id, 'other')).rejects.toBeInstanceOf(StaleTokenError)
    expect(await body()).toBe('ten')
    await write(grantOf(id, 'second', 10), id, 'ten again')
    expect(await body()).toBe('ten again')
    await end()
  })
})
