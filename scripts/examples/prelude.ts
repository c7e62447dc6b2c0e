// What the examples of the docs take for granted: the public names of the library, a client, and the reader's own functions.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as core from 'holdfast'
import type * as etcd from 'holdfast/etcd'
import * as http from 'holdfast/http'
import * as idempotency from 'holdfast/idempotency'
import * as memory from 'holdfast/memory'
import * as mysql from 'holdfast/mysql'
import * as postgres from 'holdfast/postgres'
import * as redis from 'holdfast/redis'
import * as sqlite from 'holdfast/sqlite'
import * as testing from 'holdfast/testing'
import Libsql from 'libsql'

declare global {
  var createLeases: typeof core.createLeases
  var exponential: typeof core.exponential
  var fixed: typeof core.fixed
  var noRetry: typeof core.noRetry
  var HoldfastError: typeof core.HoldfastError
  var LeaseHeldError: typeof core.LeaseHeldError
  var LeaseLostError: typeof core.LeaseLostError
  var StoreError: typeof core.StoreError
  var StaleTokenError: typeof core.StaleTokenError
  var memoryStore: typeof memory.memoryStore
  var redisStore: typeof redis.redisStore
  var redisFence: typeof redis.redisFence
  var sqliteStore: typeof sqlite.sqliteStore
  var sqliteFence: typeof sqlite.sqliteFence
  var etcdStore: typeof etcd.etcdStore
  var etcdFence: typeof etcd.etcdFence
  var mysqlStore: typeof mysql.mysqlStore
  var mysqlFence: typeof mysql.mysqlFence
  var mysqlSchema: typeof mysql.mysqlSchema
  var postgresStore: typeof postgres.postgresStore
  var postgresFence: typeof postgres.postgresFence
  var postgresSchema: typeof postgres.postgresSchema
  // biome-ignore lint/suspicious/noExplicitAny: the reader's own pool, of one database or the other
  var pool: any
  // biome-ignore lint/suspicious/noExplicitAny: the reader's own connection
  var connection: any
  var VirtualClock: typeof testing.VirtualClock
  var faultyStore: typeof testing.faultyStore
  var seededRandom: typeof testing.seededRandom
  var simulate: typeof testing.simulate
  var simulatePlan: typeof testing.simulatePlan
  var shrink: typeof testing.shrink
  var checkConformance: typeof testing.checkConformance
  var memoryRecords: typeof memory.memoryRecords
  var mysqlRecords: typeof mysql.mysqlRecords
  var mysqlRecordsSchema: typeof mysql.mysqlRecordsSchema
  var postgresRecords: typeof postgres.postgresRecords
  var postgresRecordsSchema: typeof postgres.postgresRecordsSchema
  var redisRecords: typeof redis.redisRecords
  var sqliteRecords: typeof sqlite.sqliteRecords
  var sqliteTransactionRecords: typeof sqlite.sqliteTransactionRecords
  var idempotent: typeof http.idempotent
  var fenced: typeof http.fenced
  var fencedFetch: typeof http.fencedFetch
  var formatGrant: typeof http.formatGrant
  var parseGrant: typeof http.parseGrant
  var expressIdempotent: typeof http.expressIdempotent
  var fastifyIdempotent: typeof http.fastifyIdempotent
  var fastifyRun: typeof http.fastifyRun
  var honoIdempotent: typeof http.honoIdempotent
  type RunInfo = idempotency.RunInfo
  var once: typeof idempotency.once
  var onceResult: typeof idempotency.onceResult
  var onceInTransaction: typeof idempotency.onceInTransaction
  var keyOf: typeof idempotency.keyOf
  var fingerprintOf: typeof idempotency.fingerprintOf
  var fingerprintOfJson: typeof idempotency.fingerprintOfJson
  var plainCodec: typeof idempotency.plainCodec
  var UnknownOutcomeError: typeof idempotency.UnknownOutcomeError
  var records: idempotency.Records
  /** An outward effect, such as a payment: its provider takes an idempotency key too. */
  var charge: (
    amount: number,
    options?: { idempotencyKey?: string; signal?: AbortSignal },
  ) => Promise<{ id: string; amount: number }>
  /** Asks the provider what became of an earlier charge. */
  var findCharge: (idempotencyKey: string) => Promise<{ id: string; amount: number } | undefined>
  /** A reader's own store. */
  var myStore: typeof memory.memoryStore
  var wait: (ms: number) => Promise<void>
  var Database: typeof Libsql
  var clock: testing.VirtualClock
  /** A client on a store of its own. */
  var leases: core.Leases
  var store: core.LeaseStore
  var grant: core.Grant
  var lease: core.Lease
  var controller: AbortController
  /** An application's database, with tables `reports` and `invoice`. */
  var db: InstanceType<typeof Libsql>
  var path: string
  var pay: (...about: unknown[]) => Promise<void>
  var payBack: (...about: unknown[]) => Promise<void>
  var writeReport: (signal?: AbortSignal) => Promise<string>
  var refreshPrices: () => Promise<number>
  var compensate: (error: unknown) => Promise<void>
  var log: (...about: unknown[]) => void
}

Object.assign(globalThis, core, http, idempotency, memory, mysql, postgres, redis, sqlite, testing, {
  Database: Libsql,
  myStore: memory.memoryStore,
  wait: (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms)),
})

/** New values for the next example. Gives what tidies up after it. */
export function fresh(): () => Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-example-'))
  const clock = new testing.VirtualClock()
  const store = memory.memoryStore()
  const leases = core.createLeases({ store, closeStore: false })
  const db = new Libsql(join(folder, 'app.db'))
  db.exec('create table reports (id text primary key, body text, fence integer not null default 0)')
  db.exec("insert into reports (id, body) values ('daily', '')")
  Object.assign(globalThis, {
    store,
    clock,
    leases,
    db,
    path: join(folder, 'leases.db'),
    grant: { key: 'reports/daily', token: 7, claim: 'a-claim', holder: 'web-1:42' },
    controller: new AbortController(),
    pay: async () => {},
    payBack: async () => {},
    writeReport: async () => 'a report',
    records: memory.memoryRecords(),
    charge: async (amount: number) => ({ id: 'charge-1', amount }),
    findCharge: async () => undefined,
    refreshPrices: async () => 42,
    compensate: async () => {},
    log: () => {},
  })
  const before = process.cwd()
  process.chdir(folder)
  return async () => {
    process.chdir(before)
    await leases.close({ drainMs: 100 }).catch(() => {})
    rmSync(folder, { recursive: true, force: true })
  }
}
