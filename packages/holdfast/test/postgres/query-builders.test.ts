// The fence inside the transactions of query builders, as the docs show it: each refuses a stale write, and rolls it back.
import { sql as drizzleSql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import knexFactory from 'knex'
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely'
import { beforeAll, describe, expect, it } from 'vitest'
import { StaleTokenError } from '../../src/lease/errors.js'
import type { Grant } from '../../src/store/contract.js'
import { postgresFence } from '../../src/stores/postgres/index.js'
import { Bench, fresh, grantOf } from './harness.js'

const bench = Bench.here()
const fence = postgresFence()

beforeAll(async () => {
  await fence.install(bench.pool())
  await bench.server.sql('create table reports (id text primary key, body text)')
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
            drizzleSql`insert into reports values (${id}, ${body}) on conflict (id) do update set body = excluded.body`,
          )
          const { sql, params } = fence.statement(grant)
          // Drizzle numbers the values itself: the text is cut at the places, and the values are put in.
          const parts = sql.split(/\$\d/).map((part) => drizzleSql.raw(part))
          const query = drizzleSql.join(
            parts.flatMap((part, i) => (i === 0 ? [part] : [drizzleSql`${params[i - 1]}`, part])),
          )
          fence.verify((await tx.execute(query)).rows)
        }),
      async end() {},
    }
  },

  kysely() {
    const db = new Kysely<{ reports: { id: string; body: string } }>({
      dialect: new PostgresDialect({ pool: bench.pool() }),
    })
    return {
      write: (grant, id, body) =>
        db.transaction().execute(async (tx) => {
          await tx
            .insertInto('reports')
            .values({ id, body })
            .onConflict((conflict) => conflict.column('id').doUpdateSet({ body }))
            .execute()
          const { sql, params } = fence.statement(grant)
          fence.verify((await tx.executeQuery(CompiledQuery.raw(sql, [...params]))).rows)
        }),
      async end() {},
    }
  },

  knex() {
    const db = knexFactory({ client: 'pg', connection: bench.server.url })
    return {
      write: (grant, id, body) =>
        db.transaction(async (tx) => {
          await tx('reports').insert({ id, body }).onConflict('id').merge()
          const { sql, params } = fence.statement(grant)
          fence.verify((await tx.raw(sql.replaceAll(/\$\d/g, '?'), params)).rows)
        }),
      end: () => db.destroy(),
    }
  },
}

describe.each(Object.keys(builders))('%s', (name) => {
  it('admits, refuses what is stale, and rolls the write back (G7)', async () => {
    const { write, end } = (builders[name] as () => { write: Write; end(): Promise<unknown> })()
    const id = fresh()
    const body = async () => (await bench.server.sql('select body from reports where id = $1', [id]))[0]?.body
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
