// Records in MariaDB under all cases, on a real server's clock; and what only MySQL and MariaDB can do to them.
import { createPool as callbackPool } from 'mysql2'
import type { Pool, PoolConnection } from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { once } from '../../src/idempotency/index.js'
import { mysqlRecords, mysqlRecordsSchema } from '../../src/stores/mysql/index.js'
import { MysqlServer, pass } from '../mysql/servers.js'
import { goldenRecords, readsGolden } from './golden.js'
import { sameAsProtocol } from './histories.js'
import { asks, ran } from './record-cases.js'
import { runRecordCases } from './run-cases.js'
import { runTransactionCases } from './transaction-cases.js'

vi.setConfig({ maxConcurrency: 40 })

let server: MysqlServer
let pool: Pool
let cases = 0

beforeAll(async () => {
  server = await MysqlServer.start()
  pool = server.pool({ connectionLimit: 10 })
})
afterAll(async () => {
  await pool?.end()
  await server?.stop()
})

runRecordCases(
  'mysql',
  () => {
    const table = `case ${cases++} of \`records\``
    const open = () => mysqlRecords(pool, { table })
    return { records: open(), other: open(), unitMs: 1_500, passMs: pass, close: async () => {} }
  },
  { concurrent: true },
)

runTransactionCases<PoolConnection>('mysql', async () => {
  await pool.query('CREATE TABLE account (balance INT) ENGINE = InnoDB')
  await pool.query('INSERT INTO account VALUES (1000)')
  const records = mysqlRecords(pool, { table: 'records_of_account' })
  await records.install()
  return {
    records,
    async transaction(body) {
      const tx = await pool.getConnection()
      try {
        await tx.beginTransaction()
        const value = await body(tx)
        await tx.commit()
        return value
      } catch (error) {
        await tx.rollback()
        throw error
      } finally {
        tx.release()
      }
    },
    effect: async (tx) => {
      await tx.query('UPDATE account SET balance = balance - 100')
    },
    async balance() {
      const [rows] = await pool.query('SELECT balance FROM account')
      return (rows as { balance: number }[])[0]?.balance ?? 0
    },
    outside: { query: (statement: { sql: string }) => pool.query(statement) },
    close: async () => {},
  }
})

describe('mysql records', () => {
  it('do as the protocol says: random histories have the same answers and records', async () => {
    const records = mysqlRecords(pool, { table: 'histories' })
    await records.install()
    const passes = async (keys: readonly string[], ms: number) => {
      const age = 'UPDATE histories SET term_us = term_us - ?, keep_us = keep_us - ? WHERE record_key IN (?)'
      await pool.query(age, [ms * 1_000, ms * 1_000, keys.map((key) => Buffer.from(key))])
    }
    await sameAsProtocol(records, passes, 60)
  })

  it('read what version 1 wrote (golden)', async () => {
    await pool.query(`CREATE TABLE golden (record_key VARBINARY(512) NOT NULL, state TINYINT NOT NULL,
      fingerprint VARBINARY(2048) NOT NULL, claim VARBINARY(255) NOT NULL, holder VARBINARY(1024) NOT NULL,
      token BIGINT NOT NULL, attempt INT NOT NULL, after_unknown TINYINT NOT NULL, term_us BIGINT NOT NULL,
      keep_us BIGINT NOT NULL, end_text LONGBLOB, PRIMARY KEY (record_key)) ENGINE = InnoDB`)
    for (const { key, state, fingerprint, claim, holder, token, attempt, afterUnknown, ...rest } of goldenRecords) {
      const { termUs, keepUs, text } = rest
      const texts = [fingerprint, claim, holder].map((one) => Buffer.from(one))
      const end = text === null ? null : Buffer.from(text)
      const values = [Buffer.from(key), state, ...texts, token, attempt, afterUnknown ? 1 : 0, termUs, keepUs, end]
      await pool.query('INSERT INTO golden VALUES (?)', [values])
    }
    await readsGolden(mysqlRecords(pool, { table: 'golden', migrate: false }))
  })

  it('are made once by many who start at once, in a database that is made too', async () => {
    const pools = Array.from({ length: 10 }, () => server.pool({ connectionLimit: 1 }))
    const all = pools.map((one) => mysqlRecords(one, { database: 'to be made', table: 'r' }))
    const answers = await Promise.all(all.map((records) => records.begin(asks({ key: 'first' }))))
    expect(answers.filter(({ is }) => is === 'run')).toHaveLength(1)
    await Promise.all(pools.map((one) => one.end()))
  })

  it('are not made without migrate; the SQL for it can be run by hand, twice', async () => {
    const records = mysqlRecords(pool, { table: 'by hand', migrate: false })
    await expect(records.begin(asks())).rejects.toMatchObject({
      outcome: 'none',
      message: expect.stringMatching(/mysqlRecordsSchema/),
    })
    for (let i = 0; i < 2; i++) await pool.query(mysqlRecordsSchema({ table: 'by hand' }))
    await ran(records, asks())
  })

  it('say that the table is missing rather than commit the transaction of the application by making it', async () => {
    const records = mysqlRecords(pool, { table: 'missing' })
    const tx = await pool.getConnection()
    await tx.beginTransaction()
    await expect(records.inTransaction.begin(tx, asks())).rejects.toThrow(/records.install\(\)/)
    await tx.rollback()
    tx.release()
  })

  // The second: rows that changed are counted, not those that were found; no commit by itself; backslashes stand for themselves; text as
  // local dates and big numbers as text; a session far from UTC. (C25)
  it.each([
    { name: 'plain', options: {}, session: [] as string[] },
    {
      name: 'awkward',
      options: {
        flags: ['-FOUND_ROWS'],
        bigNumberStrings: true,
        supportBigNumbers: true,
        rowsAsArray: true,
        dateStrings: true,
      },
      session: [
        'SET autocommit = 0',
        "SET time_zone = '+09:00'",
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI'",
        'SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE',
      ],
    },
  ])('do not depend on how the pool is set up: $name', async ({ name, options, session }) => {
    const own = server.pool({ connectionLimit: 5, ...options })
    own.on('connection', (connection) => {
      for (const sql of session) (connection as unknown as { query(sql: string): void }).query(sql)
    })
    const records = mysqlRecords(own, { table: `set up ${name}` })
    const key = 'it\'s \\ "quoted" 💶'
    for (let round = 0; round < 5; round++) {
      const asked = Array.from({ length: 10 }, () => records.begin(asks({ key: `${key}${round}` })))
      expect((await Promise.all(asked)).filter(({ is }) => is === 'run')).toHaveLength(1)
    }
    const receipt = { text: '\\\'"`💶' }
    expect(await once(records, { key, fingerprint: 'f' }, () => receipt)).toEqual(receipt)
    expect(await once(mysqlRecords(pool, { table: `set up ${name}` }), { key, fingerprint: 'f' }, () => ({}))).toEqual(
      receipt,
    )
    const request = asks({ key: 'dead', ttlMs: 800 })
    await ran(records, request)
    expect(await records.begin(asks({ key: 'dead' }))).toMatchObject({ is: 'running' })
    await pass(900)
    expect(await records.begin(asks({ key: 'dead' }))).toMatchObject({ is: 'unknown' })
    expect(await ran(records, asks({ key: 'dead', takeOver: true }))).toMatchObject({ attempt: 2, afterUnknown: true })
    await own.end()
  })

  it('refuse pools and names that cannot be right', () => {
    const callbacks = callbackPool({ host: '127.0.0.1', port: server.port })
    expect(() => mysqlRecords(callbacks as never)).toThrow(/pool.promise\(\)/)
    callbacks.end()
    for (const options of [{ table: '' }, { table: 'x'.repeat(65) }, { database: 'a ' }]) {
      expect(() => mysqlRecords(pool, options)).toThrow(/must be/)
    }
  })
})
