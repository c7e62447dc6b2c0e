// What it costs Postgres to keep 20,000 leases of ttl 30 s: statements, write-ahead log, and what an hour's worth of renewals leaves
// behind in the table, with the settings that the schema gives it. The renewals are sent one round after the other, without the pauses.
import { performance } from 'node:perf_hooks'
import { type PostgresStore, postgresStore } from 'holdfast/postgres'
import type pg from 'pg'
import type { Benchmark, Metrics, Subject } from '../harness/benchmark.js'
import { emptyPostgres } from '../measure/postgres.js'

const LEASES = 20_000
const TTL_MS = 30_000
/** Each lease is renewed every half ttl: so often in an hour. A run does a share of it. */
const ROUNDS_AN_HOUR = (2 * 3_600_000) / TTL_MS
const ROUNDS = ROUNDS_AN_HOUR / 24
/** So many are handed to the store at once, as the client does. */
const BATCH = 500

let pool: pg.Pool
let store: PostgresStore
let keys: string[]

const one = async (text: string): Promise<number> => Number((await pool.query(text)).rows[0]?.n)
const walBytes = () => one("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as n")
const tableBytes = () => one("select pg_relation_size('holdfast_lease') as n")
const calls = () =>
  one("select coalesce(sum(calls), 0) as n from pg_stat_user_functions where funcname ~ 'v[0-9]+_renew$'")

async function hour(): Promise<Metrics> {
  const before = { wal: await walBytes(), bytes: await tableBytes(), calls: await calls() }
  const startMs = performance.now()
  for (let round = 0; round < ROUNDS; round++) {
    for (let first = 0; first < LEASES; first += BATCH) {
      const part = keys.slice(first, first + BATCH)
      const outcomes = await store.renew(
        part.map((key) => ({ key, claim: `claim of ${key}`, ttlMs: 3_600_000 + round })),
      )
      if (outcomes.some(({ is }) => is !== 'renewed')) throw new Error('a lease was lost')
    }
  }
  const renewals = ROUNDS * LEASES
  const tookMs = performance.now() - startMs
  await pool.query('select pg_stat_force_next_flush()').catch(() => {})
  const { rows } = await pool.query(
    "select n_tup_upd::float8 as updates, n_tup_hot_upd::float8 as hot from pg_stat_user_tables where relname = 'holdfast_lease'",
  )
  return {
    'statements per 500 renewals': { value: (500 * ((await calls()) - before.calls)) / renewals, unit: '' },
    'WAL per renewal': { value: ((await walBytes()) - before.wal) / renewals, unit: 'bytes' },
    'table afterwards': { value: (await tableBytes()) / before.bytes, unit: 'times' },
    'HOT updates': { value: (100 * rows[0].hot) / rows[0].updates, unit: '%' },
    renewals: { value: (1_000 * renewals) / tookMs, unit: '/s' },
  }
}

const subject: Subject = {
  name: '20,000 leases',
  async setup() {
    pool = await emptyPostgres(10)
    pool.on('connect', (client) => void client.query("set track_functions = 'all'"))
    store = postgresStore(pool, { listen: false })
    await store.install()
    keys = Array.from({ length: LEASES }, (_, i) => `shard:${i}`)
    await Promise.all(
      keys.map((key) => store.acquire({ key, claim: `claim of ${key}`, holder: 'bench:1234', ttlMs: 3_600_000 })),
    )
    await pool.query('checkpoint')
  },
  run: hour,
  async teardown() {
    await store.close()
    await pool.end()
  },
}

export default {
  name: 'postgres-held',
  title: 'Renewals of 20,000 leases in Postgres: statements, write-ahead log, bloat',
  floor: subject.name,
  subjects: [subject],
  targets: [{ subject: subject.name, metric: 'statements per 500 renewals', of: 'median', atMost: 1 }],
  notes: [`Each sample is one 24th of an hour's renewals (${ROUNDS} rounds), without the pauses between them.`],
} satisfies Benchmark
