// What `once` costs, against the least that could keep a record: one insert before the work and one update after it, each a statement
// of its own, on the same client. The work itself is nothing.
import { randomUUID } from 'node:crypto'
import { once, type Records } from 'holdfast/idempotency'
import { mysqlRecords } from 'holdfast/mysql'
import { postgresRecords } from 'holdfast/postgres'
import { redisRecords } from 'holdfast/redis'
import { type SqliteDatabase, sqliteRecords } from 'holdfast/sqlite'
import type { Redis } from 'ioredis5'
import Libsql from 'libsql'
import type { Pool, ResultSetHeader } from 'mysql2/promise'
import type pg from 'pg'
import type { Benchmark, Subject } from '../harness/benchmark.js'
import { emptyMysql } from '../measure/mysql.js'
import { pairsFor, pairsInFlight } from '../measure/pairs.js'
import { emptyPostgres } from '../measure/postgres.js'
import { emptyRedis } from '../measure/redis.js'
import { Scratch } from '../measure/scratch.js'

const FINGERPRINT = 'h1-5c3bbda0a6e0e2b0a8dc2f09ac1ed1a5f3a9a1d6b3d8d5ee1b3b0e9fb2f2ee0d'
const RESULT = { id: 'payment-1', amount: 100, status: 'paid' }
const TEXT = JSON.stringify(RESULT)
const DAY_MS = 86_400_000
const MANY = 64
const POOL = 10

const keyOf = () => `tenant-7:POST /payments:${randomUUID()}`

let pool: pg.Pool
let mysql: Pool
let redis: Redis
let db: SqliteDatabase
let scratch: Scratch
let records: Records

const recorded = () => once(records, { key: keyOf(), fingerprint: FINGERPRINT }, () => RESULT)

const inPostgres = {
  async setup() {
    pool = await emptyPostgres(POOL)
    await pool.query(
      'create table naive_record (key text primary key, fingerprint text, state text, result text, at timestamptz default now())',
    )
    const own = postgresRecords(pool)
    await own.install()
    records = own
    await Promise.all(Array.from({ length: POOL }, recorded)) // opens the connections
  },
  teardown: () => pool.end(),
  async row() {
    const key = keyOf()
    const { rowCount } = await pool.query({
      name: 'insert',
      text: "insert into naive_record (key, fingerprint, state) values ($1, $2, 'running') on conflict do nothing",
      values: [key, FINGERPRINT],
    })
    if (rowCount !== 1) throw new Error('not inserted')
    await pool.query({
      name: 'update',
      text: "update naive_record set state = 'done', result = $2 where key = $1 and state = 'running'",
      values: [key, TEXT],
    })
  },
}

const inMysql = {
  async setup() {
    mysql = await emptyMysql(POOL)
    await mysql.query(
      'CREATE TABLE naive_record (record_key VARCHAR(190) PRIMARY KEY, fingerprint VARCHAR(100), state VARCHAR(10), result TEXT, at TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6))',
    )
    const own = mysqlRecords(mysql)
    await own.install()
    records = own
    await Promise.all(Array.from({ length: POOL }, recorded)) // opens the connections
  },
  teardown: () => mysql.end(),
  async row() {
    const key = keyOf()
    const [inserted] = await mysql.execute<ResultSetHeader>(
      "INSERT IGNORE INTO naive_record (record_key, fingerprint, state) VALUES (?, ?, 'running')",
      [key, FINGERPRINT],
    )
    if (inserted.affectedRows !== 1) throw new Error('not inserted')
    await mysql.execute(
      "UPDATE naive_record SET state = 'done', result = ? WHERE record_key = ? AND state = 'running'",
      [TEXT, key],
    )
  },
}

const inRedis = {
  async setup() {
    redis = await emptyRedis()
    records = redisRecords(redis)
  },
  teardown: () => redis.disconnect(),
  async row() {
    const key = keyOf()
    if ((await redis.set(key, FINGERPRINT, 'PX', DAY_MS, 'NX')) !== 'OK') throw new Error('not set')
    await redis.set(key, FINGERPRINT + TEXT, 'PX', DAY_MS, 'XX')
  },
}

const inSqlite = {
  setup() {
    scratch = new Scratch()
    db = new Libsql(scratch.file('records.db'))
    db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
    db.exec('CREATE TABLE record (key TEXT PRIMARY KEY, fingerprint TEXT, state TEXT, result TEXT, at_ms INTEGER)')
    const insert = db.prepare("INSERT INTO record VALUES (?, ?, 'running', NULL, ?) ON CONFLICT DO NOTHING")
    const update = db.prepare("UPDATE record SET state = 'done', result = ? WHERE key = ? AND state = 'running'")
    inSqlite.row = async () => {
      const key = keyOf()
      if (insert.run(key, FINGERPRINT, Date.now()).changes !== 1) throw new Error('not inserted')
      update.run(TEXT, key)
    }
    records = sqliteRecords({ path: scratch.file('holdfast.db'), Database: Libsql, synchronous: 'normal' })
  },
  async teardown() {
    db.close()
    await records.close()
    scratch.remove()
  },
  row: async () => {},
}

const stores = { postgres: inPostgres, mariadb: inMysql, redis: inRedis, sqlite: inSqlite }
type Store = keyof typeof stores

const nameOf = (store: Store, way: string, workers: number) => `${store}: ${way}, ${workers} in flight`

const subjects = (store: Store, workers: number): Subject[] => {
  const { setup, teardown } = stores[store]
  const ways = { 'insert and update': () => stores[store].row(), once: recorded }
  return Object.entries(ways).map(([way, pair]) => ({
    name: nameOf(store, way, workers),
    floor: nameOf(store, 'insert and update', workers),
    setup: async () => void (await setup()),
    run: (seconds) => (workers === 1 ? pairsFor(seconds, () => pair()) : pairsInFlight(seconds, workers, () => pair())),
    teardown: async () => void (await teardown()),
  }))
}

const measured: readonly [Store, number][] = [
  ['postgres', 1],
  ['postgres', MANY],
  ['mariadb', 1],
  ['mariadb', MANY],
  ['redis', 1],
  ['redis', MANY],
  ['sqlite', 1],
]

export default {
  name: 'idempotency',
  title: '`once` with new keys, one process',
  floor: nameOf('postgres', 'insert and update', 1),
  seconds: 2,
  subjects: measured.flatMap(([store, workers]) => subjects(store, workers)),
  targets: measured.map(([store, workers]) => ({
    subject: nameOf(store, 'once', workers),
    metric: 'pairs',
    of: 'ratio' as const,
    atLeast: 0.6,
  })),
  notes: [
    `Postgres through pg with fsync on, MariaDB through mysql2 with innodb_flush_log_at_trx_commit 1, pools of ${POOL}; Redis through ioredis; SQLite through libsql with synchronous = NORMAL. Ratios are to insert and update in the same store with as many in flight.`,
  ],
} satisfies Benchmark
