// What a lease costs in Postgres, against the least that could do the job: one row, an upsert that gives the token and a conditional
// update, each a statement of its own. The disk is waited for at each commit. One pair in flight, and 64; and what others offer.
import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { createLeases, type Leases } from 'holdfast'
import { type PostgresStore, postgresStore } from 'holdfast/postgres'
import type pg from 'pg'
import { namesOf } from '../../packages/holdfast/src/stores/postgres/names.js'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { pairsInFlight } from '../measure/pairs.js'
import { emptyPostgres, postgresServer } from '../measure/postgres.js'

const TTL_MS = 30_000
const MANY = 64
const POOL = 10

type Pair = (worker: number, n: number) => Promise<unknown>

let pool: pg.Pool
let store: PostgresStore
let leases: Leases
let url: string
let end: () => Promise<unknown> = async () => {}

/** A key that no other worker uses. */
const keyOf = (worker: number, n: number) => `invoice:${worker}:${n % 16}`

const row: Pair = async (worker, n) => {
  const key = keyOf(worker, n)
  const claim = randomUUID()
  const { rows } = await pool.query({
    name: 'upsert',
    text: `insert into naive_lease as l (key, token, claim, expires)
      values ($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint, $2, clock_timestamp() + $3 * interval '1 ms')
      on conflict (key) do update set token = greatest(l.token + 1, excluded.token), claim = excluded.claim, expires = excluded.expires
      where l.expires < clock_timestamp() returning token`,
    values: [key, claim, TTL_MS],
  })
  if (rows.length !== 1) throw new Error('not granted')
  await pool.query({
    name: 'update',
    text: "update naive_lease set expires = '-infinity' where key = $1 and claim = $2 and expires > clock_timestamp()",
    values: [key, claim],
  })
}

const { fn } = namesOf()
const statements: Pair = async (worker, n) => {
  const [k, c] = [[keyOf(worker, n)], [randomUUID()]]
  const acquire = JSON.stringify({ k, c, h: ['bench:1234'], t: [TTL_MS], p: [1_000] })
  await pool.query(`select * from ${fn('acquire')}($1, $2)`, [acquire, '50'])
  await pool.query(`select * from ${fn('release')}($1, $2)`, [JSON.stringify({ k, c }), '50'])
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

const tryAdvisory: Pair = async (worker, n) => {
  const session = await pool.connect()
  try {
    const key = keyOf(worker, n)
    await session.query({ name: 'lock', text: 'select pg_try_advisory_lock(hashtextextended($1, 0))', values: [key] })
    await session.query({ name: 'unlock', text: 'select pg_advisory_unlock(hashtextextended($1, 0))', values: [key] })
  } finally {
    session.release()
  }
}

/** Other people's locks, where they are installed: `npm ci` in bench/peers. They have no tokens. */
const load = createRequire(new URL('../peers/package.json', import.meta.url))
const missing: string[] = []

async function advisoryLock(): Promise<Pair> {
  const { default: locks } = load('advisory-lock') as { default: (url: string) => (name: string) => Lock }
  const named = locks(url)
  return async (worker, n) => {
    const unlock = await named(keyOf(worker, n)).tryLock()
    await unlock?.()
  }
}
interface Lock {
  tryLock(): Promise<(() => Promise<unknown>) | undefined>
}

async function verrou(): Promise<Pair> {
  const { Verrou } = await import(load.resolve('@verrou/core'))
  const { knexStore } = await import(load.resolve('@verrou/core/drivers/knex'))
  const connection = load('knex')({ client: 'pg', connection: url, pool: { min: 0, max: POOL } })
  end = () => connection.destroy()
  const made = new Verrou({ default: 'pg', stores: { pg: { driver: knexStore({ connection }) } } })
  return async (worker, n) => {
    const lock = made.createLock(keyOf(worker, n), TTL_MS)
    await lock.acquireImmediately()
    await lock.release()
  }
}

const ways: Record<string, () => Promise<Pair> | Pair> = {
  'one row': () => row,
  'its statements': () => statements,
  'its verbs': () => verbs,
  library: () => library,
  pg_try_advisory_lock: () => tryAdvisory,
  ...(isThere('advisory-lock') ? { 'advisory-lock': advisoryLock } : {}),
  ...(isThere('@verrou/core') ? { '@verrou/core, knex': verrou } : {}),
}

function isThere(name: string): boolean {
  try {
    load.resolve(name)
    return true
  } catch {
    missing.push(name)
    return false
  }
}

const nameOf = (way: string, workers: number) => `${way}, ${workers} in flight`

const subject = (way: string, make: () => Promise<Pair> | Pair, workers: number): Subject => {
  let pair: Pair
  return {
    name: nameOf(way, workers),
    floor: nameOf('one row', workers),
    async setup() {
      pool = await emptyPostgres(POOL)
      url = (await postgresServer()).url
      await pool.query(
        'create table naive_lease (key text primary key, token bigint, claim text, expires timestamptz) with (fillfactor = 50)',
      )
      store = postgresStore(pool)
      await store.install()
      leases = createLeases({ store, ttlMs: TTL_MS })
      end = async () => {}
      pair = await make()
      await Promise.all(Array.from({ length: POOL }, (_, worker) => pair(worker, 0))) // opens the connections
    },
    run: (seconds): Promise<Metrics> => pairsInFlight(seconds, workers, pair),
    async teardown() {
      await leases.close()
      await end()
      await pool.end()
    },
  }
}

export default {
  name: 'postgres',
  title: 'Uncontended acquire + release in Postgres, one process, pg, fsync on',
  floor: nameOf('one row', 1),
  subjects: [1, MANY].flatMap((workers) => Object.entries(ways).map(([way, make]) => subject(way, make, workers))),
  targets: [
    { subject: nameOf('library', 1), metric: 'pairs', of: 'ratio', atLeast: 0.9 },
    { subject: nameOf('library', MANY), metric: 'pairs', of: 'ratio', atLeast: 8 },
    { subject: nameOf('library', MANY), metric: 'p99 pair', of: 'ratio', atMost: 1 },
  ],
  notes: [
    `"its statements": the two functions of the store, called straight, one pair a statement. A pool of ${POOL}. Ratios are to one row with as many in flight.`,
    ...missing.map((name) => `${name} is not installed: npm ci in bench/peers, and it is in the table.`),
  ],
} satisfies Benchmark
