// The fence in MySQL: check and write are one step of the application's transaction (G7), whatever the session's isolation and row counts.
import { createPool as createCallbackPool } from 'mysql2'
import type { Pool, PoolConnection, ResultSetHeader, RowDataPacket } from 'mysql2/promise'
import { beforeEach, describe, expect, it } from 'vitest'
import { InvalidArgumentError, LeaseLostError, StaleTokenError } from '../../src/lease/errors.js'
import { mysqlFence } from '../../src/stores/mysql/index.js'
import { Bench, fresh, granted, grantOf, HOUR_MS, reasonOf, request } from './harness.js'
import { waitUntil } from './servers.js'

const bench = Bench.here()
const fence = mysqlFence()

beforeEach(async () => {
  await fence.install(bench.shared)
  await bench.shared.query('CREATE TABLE IF NOT EXISTS report (id VARCHAR(80) PRIMARY KEY, body TEXT, fence BIGINT)')
})

/** Runs in a transaction, and rolls it back when that fails. */
async function inTransaction<T>(work: (tx: PoolConnection) => Promise<T>, pool: Pool = bench.shared): Promise<T> {
  const tx = await pool.getConnection()
  try {
    await tx.beginTransaction()
    const value = await work(tx)
    await tx.commit()
    return value
  } catch (error) {
    await tx.rollback()
    throw error
  } finally {
    tx.release()
  }
}

const admit = (key: string, claim: string, token: number, pool?: Pool) =>
  inTransaction((tx) => fence.admit(tx, grantOf(key, claim, token)), pool)

describe('admit', () => {
  it('G7, C54: admits what is bigger, or the same again; refuses smaller ones and equal ones of others, as numbers', async () => {
    for (const flags of [['-FOUND_ROWS'], ['FOUND_ROWS']]) {
      const pool = bench.pool({ flags })
      const key = fresh()
      await admit(key, 'a', 9, pool)
      await admit(key, 'a', 9, pool)
      await admit(key, 'b', 10, pool)
      await admit(key, 'b', 10, pool)
      expect(await reasonOf(admit(key, 'a', 9, pool))).toMatchObject({ resource: key, token: 9, admitted: 10 })
      expect(await reasonOf(admit(key, 'c', 10, pool))).toBeInstanceOf(StaleTokenError)
      await admit(key, 'd', 2 ** 53 - 1, pool)
      expect(await reasonOf(admit(key, 'e', 2 ** 53 - 2, pool))).toMatchObject({ admitted: 2 ** 53 - 1 })
      await admit(`${key} `, 'x', 1, pool) // another resource
      await admit(key.toUpperCase(), 'x', 1, pool)
    }
  })

  it('what was rolled back was not admitted, and a refusal lets nothing through', async () => {
    const key = fresh()
    await admit(key, 'a', 5)
    await reasonOf(
      inTransaction(async (tx) => {
        await fence.admit(tx, grantOf(key, 'b', 8))
        throw new Error('changed my mind')
      }),
    )
    await admit(key, 'c', 6)
    const write = inTransaction(async (tx) => {
      await tx.query("REPLACE INTO report (id, body) VALUES (?, 'stale')", [key])
      await fence.admit(tx, grantOf(key, 'a', 5))
    })
    expect(await reasonOf(write)).toBeInstanceOf(StaleTokenError)
    expect((await bench.shared.query<RowDataPacket[]>('SELECT * FROM report WHERE id = ?', [key]))[0]).toEqual([])
  })

  it('C54: old and new at the same moment, at any isolation: the data end with the newer, the old one never lands after it', async () => {
    for (const level of ['REPEATABLE READ', 'READ COMMITTED', 'SERIALIZABLE']) {
      const pool = bench.pool({ connectionLimit: 6 })
      pool.on('connection', (connection) =>
        (connection as unknown as { query(sql: string): void }).query(
          `SET SESSION TRANSACTION ISOLATION LEVEL ${level}`,
        ),
      )
      for (let round = 0; round < 25; round++) {
        const key = fresh()
        await bench.shared.query('INSERT INTO report (id, fence) VALUES (?, 0)', [key])
        const write = (claim: string, token: number) =>
          inTransaction(async (tx) => {
            await tx.query('SELECT * FROM report WHERE id = ?', [key]) // an old snapshot
            await fence.admit(tx, grantOf(key, claim, token))
            await tx.query('UPDATE report SET body = ?, fence = ? WHERE id = ?', [claim, token, key])
          }, pool)
        const outcomes = await Promise.allSettled([write('old', 1), write('new', 2), write('old', 1)])
        const [[row]] = await bench.shared.query<RowDataPacket[]>('SELECT * FROM report WHERE id = ?', [key])
        const [[kept]] = await bench.shared.query<RowDataPacket[]>('SELECT * FROM holdfast_fence WHERE resource = ?', [
          Buffer.from(key),
        ])
        expect(row?.fence).toBe(kept?.token)
        if (outcomes[1]?.status === 'fulfilled') expect(row).toMatchObject({ body: 'new', fence: 2 })
        for (const outcome of outcomes) {
          if (outcome.status === 'rejected' && !(outcome.reason instanceof StaleTokenError)) {
            expect(outcome.reason.errno).toBe(1213) // the application's own to try again
          }
        }
      }
    }
  })

  it('C54: what is read first and written later lets an old one land last: the naive fence', async () => {
    const key = fresh()
    await bench.shared.query('INSERT INTO report (id, fence) VALUES (?, 0)', [key])
    const naive = async (token: number, between: () => Promise<void>) => {
      const [[row]] = await bench.shared.query<RowDataPacket[]>('SELECT fence FROM report WHERE id = ?', [key])
      if (row?.fence > token) throw new Error('stale')
      await between()
      await bench.shared.query('UPDATE report SET fence = ? WHERE id = ?', [token, key])
    }
    await naive(1, () => naive(2, async () => {}))
    const [[row]] = await bench.shared.query<RowDataPacket[]>('SELECT fence FROM report WHERE id = ?', [key])
    expect(row?.fence).toBe(1)
  })

  it('refuses what protects nothing: outside a transaction, a pool, no grant, a table that is missing', async () => {
    const key = fresh()
    const connection = await bench.shared.getConnection()
    const callbacks = createCallbackPool({ port: bench.server.port, user: 'root' })
    for (const tx of [connection, bench.shared, callbacks, {}, undefined]) {
      expect(await reasonOf(fence.admit(tx as PoolConnection, grantOf(key, 'a')))).toBeInstanceOf(InvalidArgumentError)
      expect(await reasonOf(fence.whileHeld(tx as PoolConnection, grantOf(key, 'a')))).toBeDefined()
    }
    callbacks.end()
    await connection.beginTransaction()
    for (const token of [0, 1.5, '7', undefined, 2 ** 53]) {
      const grant = { ...grantOf(key, 'a'), token } as never
      expect(await reasonOf(fence.admit(connection, grant))).toBeInstanceOf(InvalidArgumentError)
    }
    const missing = await reasonOf(mysqlFence({ table: 'not there' }).admit(connection, grantOf(key, 'a')))
    expect(missing).toMatchObject({ outcome: 'none', message: expect.stringMatching(/fence.install/) })
    await connection.rollback()
    connection.release()
    expect(() => mysqlFence({ table: '' })).toThrow(InvalidArgumentError)
  })

  it('two statements for query builders say the same', async () => {
    const key = fresh()
    const run = (claim: string, token: number) =>
      inTransaction(async (tx) => {
        const { raise, read } = fence.statements(grantOf(key, claim, token), { resource: key })
        await tx.query(raise.sql, [...raise.params])
        const [rows] = await tx.query(read.sql, [...read.params])
        fence.verify(rows as unknown[])
      })
    await run('a', 4)
    await run('a', 4)
    expect(await reasonOf(run('b', 4))).toMatchObject({ admitted: 4 })
    expect(await reasonOf(run('b', 3))).toMatchObject({ token: 3, admitted: 4 })
    expect(() => fence.verify([])).toThrow(InvalidArgumentError)
    expect(() => fence.verify([{}])).toThrow(InvalidArgumentError)
  })
})

describe('predicate and trigger', () => {
  const update = async (pool: Pool, id: string, token: number, body = 'x') => {
    const { set, where, value, verify } = fence.predicate(grantOf(id, 'a', token))
    const sql = `UPDATE report SET body = ?, ${set} WHERE id = ? AND ${where}`
    const [{ affectedRows }] = await pool.query<ResultSetHeader>(sql, [body, value, id, value])
    return verify(affectedRows, async () => {
      const [[row]] = await pool.query<RowDataPacket[]>('SELECT fence FROM report WHERE id = ?', [id])
      return row?.fence
    })
  }

  it('tells written, unchanged, no such row and stale apart, whichever rows are counted (C43)', async () => {
    for (const flags of [['-FOUND_ROWS'], ['FOUND_ROWS']]) {
      const pool = bench.pool({ flags })
      const id = fresh()
      expect(await update(pool, id, 1)).toBe('no such row')
      await pool.query('INSERT INTO report (id) VALUES (?)', [id])
      expect(await update(pool, id, 9)).toBe('written')
      expect(['written', 'unchanged']).toContain(await update(pool, id, 9))
      expect(await update(pool, id, 10)).toBe('written')
      const { where, value } = fence.predicate(grantOf(id, 'a', 10))
      const [found] = await pool.query<RowDataPacket[]>(`SELECT 1 FROM report WHERE id = ? AND ${where}`, [id, value])
      expect(found).toHaveLength(1) // the same token may write again
      expect(await reasonOf(update(pool, id, 9))).toMatchObject({ token: 9, admitted: 10 })
    }
  })

  it('the trigger refuses an update that lowers the column, also one that forgot the check', async () => {
    const table = fresh('guarded')
    await bench.shared.query(`CREATE TABLE ${table} (id INT PRIMARY KEY, fence BIGINT, body TEXT)`)
    await bench.shared.query(fence.trigger({ table }))
    await bench.shared.query(`INSERT INTO ${table} VALUES (1, 10, 'new')`)
    await bench.shared.query(`UPDATE ${table} SET fence = 10, body = 'newer'`)
    for (const value of ['9', 'NULL']) {
      const error = await reasonOf(bench.shared.query(`UPDATE ${table} SET fence = ${value}, body = 'old'`))
      expect(error).toMatchObject({ message: expect.stringMatching(/stale token/) })
    }
    await bench.shared.query(`UPDATE ${table} SET fence = 11`)
  })
})

describe('whileHeld', () => {
  it('nobody else is granted the lease before the transaction has ended, and renewals and the release go on', async () => {
    for (const level of ['REPEATABLE READ', 'READ COMMITTED']) {
      const store = bench.store()
      const key = fresh()
      const token = await granted(store, key, 'a', { ttlMs: 3_000 })
      const tx = await bench.shared.getConnection()
      await tx.query(`SET TRANSACTION ISOLATION LEVEL ${level}`)
      await tx.beginTransaction()
      await tx.query('SELECT * FROM report LIMIT 1') // an old snapshot
      await fence.whileHeld(tx, grantOf(key, 'a', token))
      expect(await store.renew([{ key, claim: 'a', ttlMs: 3_000 }])).toEqual([{ is: 'renewed', ttlMs: 3_000 }])
      expect(await store.release(grantOf(key, 'a', token))).toEqual({ is: 'released' })

      let next: unknown
      const waits = store.acquire(request(key, 'b'), { timeoutMs: 20_000 }).then((answer) => {
        next = answer
      })
      const others = await Promise.all([1, 2, 3].map((n) => granted(store, `${key} ${n}`, 'c')))
      expect(others).toHaveLength(3)
      expect(next).toBeUndefined()
      await tx.query('REPLACE INTO report (id, fence) VALUES (?, ?)', [key, token])
      await tx.commit()
      tx.release()
      await waits
      expect(next).toMatchObject({ is: 'granted' })
    }
  })

  it('rejects outside a transaction, where it would tie nothing', async () => {
    const key = fresh()
    const token = await granted(bench.store(), key, 'a')
    const connection = await bench.shared.getConnection()
    expect(await reasonOf(fence.whileHeld(connection, grantOf(key, 'a', token)))).toBeInstanceOf(InvalidArgumentError)
    connection.release()
  })

  it('rejects when another has been granted the lease', async () => {
    const store = bench.store()
    const key = fresh()
    const token = await granted(store, key, 'a')
    await store.release(grantOf(key, 'a'))
    await granted(store, key, 'b')
    const tx = inTransaction((connection) => fence.whileHeld(connection, grantOf(key, 'a', token)))
    expect(await reasonOf(tx)).toBeInstanceOf(LeaseLostError)
  })

  it('many shared acquires beside a lease that is tied are granted', async () => {
    const store = bench.store()
    const [tied, ...others] = Array.from({ length: 12 }, () => fresh())
    const token = await granted(store, tied ?? '', 'a', { ttlMs: 1 })
    const tx = await bench.shared.getConnection()
    await tx.beginTransaction()
    await fence.whileHeld(tx, grantOf(tied ?? '', 'a', token))
    await waitUntil('it has expired', async () => (await store.inspect(tied ?? ''))?.state === 'free')
    for (const key of others) {
      await granted(store, key, 'x')
      await store.release(grantOf(key, 'x'))
    }
    const blocked = store.acquire(request(tied ?? '', 'b', { ttlMs: HOUR_MS }), { timeoutMs: 3_000 })
    const answers = await Promise.all(others.map((key) => store.acquire(request(key, 'b'))))
    expect(answers.every(({ is }) => is === 'granted')).toBe(true)
    expect(await reasonOf(blocked)).toMatchObject({ outcome: 'none' })
    await tx.rollback()
    tx.release()
  })
})
