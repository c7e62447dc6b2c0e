// What a lease costs on the embedded default, against the least that could be called a lock on the same driver: one upsert
// and one delete, each its own transaction. Between them stand the store's own statements, issued straight, and its verbs.
import { createLeases, type Leases } from 'holdfast'
import { type SqliteDatabase, type SqliteStore, sqliteStore } from 'holdfast/sqlite'
import { Plain } from '../../packages/holdfast/src/stores/sqlite/plain.js'
import type { Benchmark, Subject, Target } from '../harness/benchmark.js'
import { type Driver, drivers } from '../measure/drivers.js'
import { pairsFor } from '../measure/pairs.js'
import { Scratch } from '../measure/scratch.js'

const TTL_MS = 30_000
const KEYS = Array.from({ length: 100 }, (_, i) => `invoice:${i}`)
const keyOf = (n: number) => KEYS[n % KEYS.length] ?? ''

const UPSERT = `INSERT INTO lock (key, claim, expires_ms) VALUES (?, ?, ?) ON CONFLICT (key)
  DO UPDATE SET claim = excluded.claim, expires_ms = excluded.expires_ms WHERE expires_ms <= ?`
const DELETE = 'DELETE FROM lock WHERE key = ? AND claim = ?'

let scratch: Scratch
let db: SqliteDatabase
let store: SqliteStore
let leases: Leases

function openStore({ Database }: Driver): SqliteStore {
  scratch = new Scratch()
  return sqliteStore({ path: scratch.file('leases.db'), Database, synchronous: 'normal' })
}

function openPlain({ Database }: Driver, name: string): SqliteDatabase {
  const plain = new Database(scratch.file(name))
  plain.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
  return plain
}

const floor = (driver: Driver): Subject => ({
  name: `upsert and delete, ${driver.name}`,
  floor: `upsert and delete, ${driver.name}`,
  setup: () => {
    scratch = new Scratch()
    db = openPlain(driver, 'locks.db')
    db.exec('CREATE TABLE lock (key TEXT PRIMARY KEY, claim TEXT NOT NULL, expires_ms INTEGER NOT NULL)')
  },
  run(seconds) {
    const [upsert, remove] = [db.prepare(UPSERT), db.prepare(DELETE)]
    return pairsFor(seconds, (n) => {
      const [key, claim, nowMs] = [keyOf(n), `claim:${n}`, Date.now()]
      if (upsert.run(key, claim, nowMs + TTL_MS, nowMs).changes === 1) remove.run(key, claim)
      return undefined
    })
  },
  teardown: () => {
    db.close()
    scratch.remove()
  },
})

/** The two statements that the store issues for a pair when nobody else wants the key. */
const statements = (driver: Driver): Subject => ({
  name: `the store's statements, ${driver.name}`,
  floor: `upsert and delete, ${driver.name}`,
  async setup() {
    store = openStore(driver) // makes the file, with its page size
    db = openPlain(driver, 'leases.db')
    db.exec('PRAGMA wal_autocheckpoint = 4000') // as the store has it
  },
  run(seconds) {
    const plain = new Plain(db)
    let token = Date.now() * 1000
    return pairsFor(seconds, (n) => {
      const time = { nowMs: Date.now(), offsetMs: 0 }
      const claimed = { key: keyOf(n), claim: `claim:${n}`, holder: 'bench', ttlMs: TTL_MS }
      if (plain.acquire(claimed, ++token, time) !== undefined) plain.release(claimed.key, claimed.claim, time)
      return undefined
    })
  },
  async teardown() {
    db.close()
    await store.close()
    scratch.remove()
  },
})

const verbs = (driver: Driver): Subject => ({
  name: `the store's verbs, ${driver.name}`,
  floor: `upsert and delete, ${driver.name}`,
  setup: () => {
    store = openStore(driver)
  },
  run: (seconds) =>
    pairsFor(seconds, async (n) => {
      const claimed = { key: keyOf(n), claim: `claim:${n}`, holder: 'bench' }
      const answer = await store.acquire({ ...claimed, ttlMs: TTL_MS })
      if (answer.is === 'granted') await store.release({ ...claimed, token: answer.token })
    }),
  async teardown() {
    await store.close()
    scratch.remove()
  },
})

const library = (driver: Driver): Subject => ({
  name: `library, ${driver.name}`,
  floor: `upsert and delete, ${driver.name}`,
  setup: () => {
    leases = createLeases({ store: openStore(driver), ttlMs: TTL_MS })
  },
  run: (seconds) =>
    pairsFor(seconds, async (n) => {
      const lease = await leases.acquire(keyOf(n))
      await lease.release()
    }),
  async teardown() {
    await leases.close()
    scratch.remove()
  },
})

const found = drivers()
const target = ({ name }: Driver): Target => ({
  subject: `library, ${name}`,
  metric: 'pairs',
  of: 'ratio',
  atLeast: 0.7,
})

export default {
  name: 'sqlite',
  title: 'Uncontended acquire + release on an SQLite file (synchronous = NORMAL), one process',
  floor: 'upsert and delete, libsql',
  seconds: 2,
  subjects: found.flatMap((driver) => [floor(driver), statements(driver), verbs(driver), library(driver)]),
  targets: found.map(target),
  notes: [`Drivers: ${found.map(({ name }) => name).join(', ')}. Ratios are to the floor of the same driver.`],
} satisfies Benchmark
