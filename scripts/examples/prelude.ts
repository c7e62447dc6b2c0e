// What the examples of the docs take for granted: the public names of the library, a client, and the reader's own functions.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as core from 'holdfast'
import * as memory from 'holdfast/memory'
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
  var VirtualClock: typeof testing.VirtualClock
  var faultyStore: typeof testing.faultyStore
  var seededRandom: typeof testing.seededRandom
  var simulate: typeof testing.simulate
  var simulatePlan: typeof testing.simulatePlan
  var shrink: typeof testing.shrink
  var checkConformance: typeof testing.checkConformance
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
  var writeReport: (signal?: AbortSignal) => Promise<string>
  var refreshPrices: () => Promise<number>
  var compensate: (error: unknown) => Promise<void>
  var log: (...about: unknown[]) => void
}

Object.assign(globalThis, core, memory, redis, sqlite, testing, {
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
    writeReport: async () => 'a report',
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
