// What a lease costs in MariaDB, against the least that could do the job: one row, an upsert that gives the token and a conditional
// update, each a statement of its own, prepared. The disk is waited for at each commit. One pair in flight, and 64.
import { randomUUID } from 'node:crypto'
import { createLeases, type Leases } from 'holdfast'
import { type MysqlStore, mysqlStore } from 'holdfast/mysql'
import type { Pool, ResultSetHeader, RowDataPacket } from 'mysql2/promise'
import { namesOf } from '../../packages/holdfast/src/stores/mysql/names.js'
import { acquireValues, releaseValues } from '../../packages/holdfast/src/stores/mysql/wire.js'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { emptyMysql } from '../measure/mysql.js'
import { pairsInFlight } from '../measure/pairs.js'

const TTL_MS = 30_000
const MANY = 64
const POOL = 10

type Pair = (worker: number, n: number) => Promise<unknown>

let pool: Pool
let store: MysqlStore
let leases: Leases

/** A key that no other worker uses. */
const keyOf = (worker: number, n: number) => `invoice:${worker}:${n % 16}`

const UPSERT = `INSERT INTO naive_lease (lease_key, token, claim, expires)
  VALUES (?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)
  ON DUPLICATE KEY UPDATE claim = IF(expires < UTC_TIMESTAMP(6), VALUES(claim), claim),
    token = IF(claim = VALUES(claim), GREATEST(token + 1, VALUES(token)), token),
    expires = IF(claim = VALUES(claim), VALUES(expires), expires)
  RETURNING token, claim`
const UPDATE = `UPDATE naive_lease SET expires = '1970-01-02'
  WHERE lease_key = ? AND claim = ? AND expires > UTC_TIMESTAMP(6)`

const row: Pair = async (worker, n) => {
  const key = keyOf(worker, n)
  const claim = randomUUID()
  const [[granted]] = await pool.execute<RowDataPacket[]>(UPSERT, [key, claim, TTL_MS * 1000])
  if (granted?.claim !== claim) throw new Error('not granted')
  const [{ affectedRows }] = await pool.execute<ResultSetHeader>(UPDATE, [key, claim])
  if (affectedRows !== 1) throw new Error('not released')
}

const names = namesOf()
const procedures: Pair = async (worker, n) => {
  const one = { key: keyOf(worker, n), claim: randomUUID(), holder: 'bench:1234', ttlMs: TTL_MS }
  await pool.execute(`CALL ${names.procedure('acquire')}(?, ?, ?)`, acquireValues([one]))
  await pool.execute(`CALL ${names.procedure('release')}(?, ?)`, releaseValues([one]))
}

const verbs: Pair = async (worker, n) => {
  const grant = { key: keyOf(worker, n), claim: randomUUID(), holder: 'bench:1234' }
  const answer = await store.acquire({ ...grant, ttlMs: TTL_MS, queue: { pollMs: 1_000 } })
  if (answer.is === 'granted') await store.release({ ...grant, token: answer.token })
}

const library: Pair = async (worker, n) => {
  const lease = await leases.acquire(keyOf(worker, n))
  await lease.release()
}

const getLock: Pair = async (worker, n) => {
  const session = await pool.getConnection()
  try {
    await session.execute('DO GET_LOCK(?, 0)', [keyOf(worker, n)])
    await session.execute('DO RELEASE_LOCK(?)', [keyOf(worker, n)])
  } finally {
    session.release()
  }
}

const ways: Record<string, Pair> = {
  'one row': row,
  'its procedures': procedures,
  'its verbs': verbs,
  library,
  GET_LOCK: getLock,
}

const nameOf = (way: string, workers: number) => `${way}, ${workers} in flight`

const subject = (way: string, pair: Pair, workers: number): Subject => ({
  name: nameOf(way, workers),
  floor: nameOf('one row', workers),
  async setup() {
    pool = await emptyMysql(POOL)
    await pool.query(
      'CREATE TABLE naive_lease (lease_key VARCHAR(190) PRIMARY KEY, token BIGINT, claim CHAR(36), expires DATETIME(6))',
    )
    store = mysqlStore(pool)
    await store.install()
    leases = createLeases({ store, ttlMs: TTL_MS })
    for (let n = 0; n < 3; n++) {
      await Promise.all(Array.from({ length: POOL }, (_, worker) => pair(worker, n))) // opens the connections
    }
  },
  run: (seconds): Promise<Metrics> => pairsInFlight(seconds, workers, pair),
  async teardown() {
    await leases.close()
    await pool.end()
  },
})

export default {
  name: 'mysql',
  title: 'Uncontended acquire + release in MariaDB, one process, mysql2, innodb_flush_log_at_trx_commit 1',
  floor: nameOf('one row', 1),
  subjects: [1, MANY].flatMap((workers) => Object.entries(ways).map(([way, pair]) => subject(way, pair, workers))),
  targets: [
    { subject: nameOf('library', 1), metric: 'pairs', of: 'ratio', atLeast: 0.9 },
    { subject: nameOf('library', MANY), metric: 'pairs', of: 'ratio', atLeast: 4 },
    { subject: nameOf('library', MANY), metric: 'p99 pair', of: 'ratio', atMost: 1 },
  ],
  notes: [
    `"its procedures": the two procedures of the store, called straight, one pair a call. A pool of ${POOL}. Ratios are to one row with as many in flight.`,
    'GET_LOCK writes nothing, has no token, and ends with its session.',
  ],
} satisfies Benchmark
