// Record and effect in one commit of the application's own SQLite database, through its own connection.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'libsql'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fingerprintOf, KeyReusedError, onceInTransaction } from '../../src/idempotency/index.js'
import { LeaseLostError } from '../../src/index.js'
import { sqliteTransactionRecords } from '../../src/stores/sqlite/index.js'
import { VirtualClock } from '../../src/testing/index.js'

let folder: string
let db: InstanceType<typeof Database>
const clock = new VirtualClock()
const records = sqliteTransactionRecords({ clock })
const options = { key: 'tenant:pay:1', fingerprint: fingerprintOf({ amount: 100 }), retentionMs: 60_000 }
const balance = () => (db.prepare('SELECT balance FROM account').get() as { balance: number }).balance

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-app-'))
  db = new Database(join(folder, 'app.db'))
  db.exec('CREATE TABLE account (balance INTEGER); INSERT INTO account VALUES (1000)')
})
afterEach(() => {
  db.close()
  rmSync(folder, { recursive: true, force: true })
})

const pay = (work?: () => unknown, more: object = {}) =>
  db
    .transaction(() =>
      onceInTransaction(db, records, { ...options, ...more }, () => {
        db.exec('UPDATE account SET balance = balance - 100')
        return work === undefined ? { paid: 100 } : work()
      }),
    )
    .immediate()

describe('onceInTransaction on SQLite', () => {
  it('commits effect and record together, and a repeat has no effect', () => {
    expect(pay()).toEqual({ paid: 100 })
    expect(pay()).toEqual({ paid: 100 })
    expect(balance()).toBe(900)
  })

  it('leaves nothing behind when the work throws, and a repeat runs', () => {
    expect(() =>
      pay(() => {
        throw new Error('no')
      }),
    ).toThrow('no')
    expect(balance()).toBe(1000)
    pay()
    expect(balance()).toBe(900)
  })

  it('says so when the record is gone before the work has ended', () => {
    expect(() => pay(() => db.exec('DELETE FROM holdfast_record'))).toThrow(LeaseLostError)
    expect(balance()).toBe(1000)
  })

  it('refuses another payload (C55), and keeps the result for its retention', async () => {
    pay()
    expect(() => pay(undefined, { fingerprint: 'h1-other' })).toThrow(KeyReusedError)
    await clock.advance(60_001)
    pay(undefined, { fingerprint: 'h1-other' })
    expect(balance()).toBe(800)
  })

  it('refuses an async body, and a result that cannot be carried; both roll back', () => {
    expect(() => pay(async () => 1)).toThrow(/must not be async/)
    expect(() => pay(() => new Date())).toThrow(/result must be plain data/)
    expect(balance()).toBe(1000)
  })

  it('refuses to run outside a transaction', () => {
    expect(() => onceInTransaction(db, records, options, () => 1)).toThrow(/must be inside a transaction/)
  })

  it('keeps its table under any name, and prunes it', async () => {
    const own = sqliteTransactionRecords({ table: 'order "x"; drop table account', clock })
    db.transaction(() => onceInTransaction(db, own, options, () => 1)).immediate()
    await clock.advance(60_001)
    expect(own.prune(db)).toBe(1)
    expect(own.prune(db)).toBe(0)
    expect(balance()).toBe(1000)
    expect(() => sqliteTransactionRecords({ table: '' })).toThrow(/table/)
  })

  it('works when the transaction that made its table was rolled back', () => {
    db.exec('BEGIN')
    onceInTransaction(db, records, options, () => 1)
    db.exec('ROLLBACK')
    expect(pay()).toEqual({ paid: 100 })
  })
})
