// Records in Postgres under all cases, on a real server's clock, with each client and behind PgBouncer; and what only Postgres can do.
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { once } from '../../src/idempotency/index.js'
import { postgresRecords, postgresRecordsSchema } from '../../src/stores/postgres/index.js'
import { type Connected, clientKind, pgPool } from '../postgres/clients.js'
import { PgBouncer, PostgresServer, pass } from '../postgres/servers.js'
import { goldenRecords, readsGolden } from './golden.js'
import { sameAsProtocol } from './histories.js'
import { asks, ran } from './record-cases.js'
import { runRecordCases } from './run-cases.js'
import { runTransactionCases } from './transaction-cases.js'

vi.setConfig({ maxConcurrency: 40 })

let server: PostgresServer
let bouncer: PgBouncer
let pool: pg.Pool

beforeAll(async () => {
  server = await PostgresServer.start()
  bouncer = await PgBouncer.start(server)
  pool = pgPool(server.url, { max: 10 })
})
afterAll(async () => {
  await pool?.end()
  await bouncer?.stop()
  await server?.stop()
})

function withCases(name: string, connect: () => Connected): void {
  describe(name, () => {
    let connected: Connected
    let cases = 0
    beforeAll(() => {
      connected = connect()
    })
    afterAll(() => connected?.close())
    runRecordCases(
      name,
      () => {
        const table = `${name} case ${cases++}`
        const open = () => postgresRecords(connected.client, { table })
        return { records: open(), other: open(), unitMs: 1_500, passMs: pass, close: async () => {} }
      },
      { concurrent: true },
    )
  })
}

withCases('pg', () => clientKind('pg').open(server.url))
withCases('postgres.js', () => clientKind('postgres.js').open(server.url))
withCases('pg behind PgBouncer', () => clientKind('pg').open(bouncer.url))

runTransactionCases('postgres', async () => {
  const table = `account ${Math.random()}`
  await server.sql(`create table "${table}" (balance int)`)
  await server.sql(`insert into "${table}" values (1000)`)
  return {
    records: postgresRecords(pool, { table: `records of ${table}` }),
    async transaction(body) {
      const tx = await pool.connect()
      try {
        await tx.query('begin')
        const value = await body(tx)
        await tx.query('commit')
        return value
      } catch (error) {
        await tx.query('rollback')
        throw error
      } finally {
        tx.release()
      }
    },
    effect: async (tx) => {
      await (tx as pg.PoolClient).query(`update "${table}" set balance = balance - 100`)
    },
    balance: async () => (await server.sql<{ balance: number }>(`select balance from "${table}"`))[0]?.balance ?? 0,
    outside: pool,
    close: async () => {},
  }
})

describe('postgres records', () => {
  it('do as the protocol says: random histories have the same answers and records', async () => {
    const records = postgresRecords(pool, { table: 'histories' })
    await records.install()
    const passes = async (keys: readonly string[], ms: number) => {
      const age = 'update histories set term_us = term_us - $2, keep_us = keep_us - $2 where key = any($1)'
      await pool.query(age, [keys, ms * 1_000])
    }
    await sameAsProtocol(records, passes, 100)
  })

  it('read what version 1 wrote (golden)', async () => {
    await server.sql(`create table golden (key text collate "C" primary key, state smallint not null,
      fingerprint text collate "C" not null, claim text collate "C" not null, holder text not null, token bigint not null,
      attempt int not null, after_unknown boolean not null, term_us bigint not null, keep_us bigint not null, end_text text)`)
    for (const { key, state, fingerprint, claim, holder, token, attempt, afterUnknown, ...rest } of goldenRecords) {
      const { termUs, keepUs, text } = rest
      const values = [key, state, fingerprint, claim, holder, token, attempt, afterUnknown, termUs, keepUs, text]
      await server.sql('insert into golden values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)', values)
    }
    await readsGolden(postgresRecords(pool, { table: 'golden', migrate: false }))
  })

  it('are made once by many who start at once, in a schema that is made too', async () => {
    const pools = Array.from({ length: 20 }, () => pgPool(server.url, { max: 1 }))
    const all = pools.map((one) => postgresRecords(one, { schema: 'to be "made"', table: 'r' }))
    const answers = await Promise.all(all.map((records) => records.begin(asks({ key: 'first' }))))
    expect(answers.filter(({ is }) => is === 'run')).toHaveLength(1)
    await Promise.all(pools.map((one) => one.end()))
  })

  it('are not made without migrate; the SQL for it can be run by hand, twice', async () => {
    const records = postgresRecords(pool, { table: 'by hand', migrate: false })
    await expect(records.begin(asks())).rejects.toMatchObject({
      outcome: 'none',
      message: expect.stringMatching(/postgresRecordsSchema/),
    })
    for (let i = 0; i < 2; i++) await server.sql(postgresRecordsSchema({ table: 'by hand' }))
    await ran(records, asks())
  })

  it.each(['repeatable read', 'serializable'])('hold when the default isolation is %s (C57)', async (isolation) => {
    const strict = pgPool(server.url, {
      max: 20,
      options: `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}`,
    })
    const records = postgresRecords(strict, { table: `under ${isolation}` })
    await records.install()
    for (let round = 0; round < 10; round++) {
      const asked = Array.from({ length: 20 }, () => records.begin(asks({ key: `k${round}` })))
      expect((await Promise.all(asked)).filter(({ is }) => is === 'run')).toHaveLength(1)
    }
    await strict.end()
  })

  it('hold when sessions are read-only by default', async () => {
    const readOnly = pgPool(server.url, { options: '-c default_transaction_read_only=on' })
    const records = postgresRecords(readOnly, { table: 'read only' })
    await server.sql(postgresRecordsSchema({ table: 'read only' }))
    expect(await once(records, { key: 'k', fingerprint: 'f' }, () => 1)).toBe(1)
    await readOnly.end()
  })

  it('are the same whatever the time zones of the sessions (C25)', async () => {
    const seoul = pgPool(server.url, { options: '-c timezone=Asia/Seoul' })
    const york = pgPool(server.url, { options: '-c timezone=America/New_York' })
    const [one, two] = [seoul, york].map((zone) => postgresRecords(zone, { table: 'zones' }))
    await ran(one as never, asks({ ttlMs: 1_000 }))
    expect(await two?.begin(asks())).toMatchObject({ is: 'running' })
    await pass(1_100)
    expect(await two?.begin(asks())).toMatchObject({ is: 'unknown' })
    await Promise.all([seoul.end(), york.end()])
  })

  it('a row that another transaction has locked delays its own run only, and a grant after the wait has its whole term', async () => {
    const records = postgresRecords(pool, { table: 'locked' })
    const request = asks({ key: 'a', ttlMs: 1, retentionMs: 1 })
    await ran(records, request)
    const locker = await pool.connect()
    await locker.query('begin')
    await locker.query(`select * from locked where key = 'a' for update`)
    const waiting = records.begin(asks({ key: 'a', ttlMs: 700 }))
    await ran(records, asks({ key: 'b' }))
    await pass(800)
    await locker.query('commit')
    locker.release()
    expect(await waiting).toMatchObject({ is: 'run' })
    expect(await records.begin(asks({ key: 'a' }))).toMatchObject({ is: 'running' })
  })

  it('forget what is old while they are used', async () => {
    const records = postgresRecords(pool, { table: 'pruned' })
    for (let i = 0; i < 20; i++) {
      const request = asks({ key: `old-${i}`, ttlMs: 1, retentionMs: 1 })
      await ran(records, request)
      await records.finish(request, { is: 'returned', text: '1' }, 1)
    }
    await pass(20)
    const used = Array.from({ length: 500 }, (_, i) => records.begin(asks({ key: `new-${i}` })))
    await Promise.all(used)
    const left = async () => (await server.sql(`select 1 from pruned where key like 'old-%'`)).length
    await vi.waitUntil(async () => (await left()) === 0, { timeout: 20_000 })
  })

  it('refuse names and clients that cannot be right', () => {
    for (const options of [{ table: '' }, { table: 'x'.repeat(64) }, { schema: 'a\0' }]) {
      expect(() => postgresRecords(pool, options)).toThrow(/must be/)
    }
    expect(() => postgresRecords({} as never)).toThrow(/must be a Pool/)
  })
})
