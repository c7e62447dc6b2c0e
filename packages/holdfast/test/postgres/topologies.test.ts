// More than one server, and what stands before one: a standby that is promoted, asynchronous and synchronous; PgBouncer, which gives
// each transaction another connection; a server whose clock is set; fifty processes that find no tables.
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLeases } from '../../src/lease/leases.js'
import { fixed } from '../../src/lease/retry.js'
import { postgresFence, postgresSchema, postgresStore } from '../../src/stores/postgres/index.js'
import { clientKinds, pgPool } from './clients.js'
import { Bench, errorOf, fresh, granted, grantOf, HOUR_MS, request } from './harness.js'
import { PgBouncer, PostgresServer, pass, waitUntil } from './servers.js'

describe('a standby', () => {
  /** A primary with a standby of the given kind. */
  async function pair(kind: 'async' | 'sync', clock = false) {
    const primary = await PostgresServer.start({
      settings: kind === 'sync' ? ["synchronous_standby_names = 'other'"] : [],
    })
    // Until it is there a synchronous primary answers no commit.
    const standby = await PostgresServer.start({ standbyOf: { primary, name: 'other' }, clock })
    await waitUntil('replication', async () => {
      const [row] = await primary.sql<{ state: string; sync_state: string }>('select * from pg_stat_replication')
      return row?.state === 'streaming' && row.sync_state === kind
    })
    const caughtUp = async () => {
      const [at] = await primary.sql<{ lsn: string }>('select pg_current_wal_lsn()::text as lsn')
      await waitUntil('the standby', async () => {
        const [row] = await standby.sql<{ there: boolean }>('select pg_last_wal_replay_lsn() >= $1::pg_lsn as there', [
          at?.lsn,
        ])
        return row?.there
      })
    }
    return { primary, standby, caughtUp }
  }

  it('C39, asynchronous: what had not arrived is lost with the primary, but tokens rise, and the fence refuses the older holder', async () => {
    const { primary, standby, caughtUp } = await pair('async', true)
    const before = pgPool(primary.url)
    const old = postgresStore(before, { listen: false })
    const [kept, ended, lost] = ['kept', 'ended', 'lost']
    const keptToken = await granted(old, kept, 'a')
    const endedToken = await granted(old, ended, 'a')
    await old.release(grantOf(ended, 'a'))
    await granted(old, 'more', 'a') // a release waits for no disk: this does for both
    await caughtUp()
    expect(await errorOf(postgresStore(pgPool(standby.url)).acquire(request('x', 'a')))).toMatchObject({
      outcome: 'none',
      message: expect.stringMatching(/standby/),
    })
    await standby.sql("alter system set primary_conninfo = ''")
    await standby.sql('select pg_reload_conf()')
    await waitUntil('the cut', async () => (await standby.sql('select from pg_stat_wal_receiver')).length === 0) // from here on nothing arrives
    const lostToken = await granted(old, lost, 'a')
    const lostToo = await granted(old, 'lost too', 'a')
    await primary.kill()
    await standby.promote()

    const after = pgPool(standby.url)
    const store = postgresStore(after, { listen: false })
    expect(await store.acquire(request(kept, 'b'))).toMatchObject({ is: 'held', token: keptToken })
    const again = await granted(store, lost, 'b') // the grant of "a" never arrived: two may believe now (A3)
    expect(again).toBeGreaterThan(lostToken) // G2, by the clock
    const fence = postgresFence()
    await fence.install(after)
    const write = async (claim: string, token: number) => {
      const tx = await after.connect()
      try {
        await tx.query('begin')
        await fence.admit(tx, grantOf(lost, claim, token))
        await tx.query('commit')
      } finally {
        tx.release(true)
      }
    }
    await write('b', again)
    expect(await errorOf(write('a', lostToken))).toMatchObject({ code: 'STALE_TOKEN', admitted: again })

    // What G2 does not keep: the clock of the new primary an hour behind, and a key of which it knows nothing.
    standby.setClock(-3_600)
    expect(await granted(store, ended, 'b')).toBe(endedToken + 1) // of what has arrived tokens rise all the same
    expect(await granted(store, 'lost too', 'b')).toBeLessThan(lostToo) // a fence that has seen the lost one refuses this
    await Promise.all([before.end(), after.end()])
    await Promise.all([primary.stop(), standby.stop()])
  })

  it.each(clientKinds)(
    'C33, $name: nobody can listen there: no connection is left behind, and after the promotion it is heard',
    async ({ open }) => {
      const { primary, standby, caughtUp } = await pair('async')
      await primary.sql(postgresSchema())
      await caughtUp()
      const connected = open(`${standby.url}?application_name=waits`, 1)
      const store = postgresStore(connected.client)
      const left = new AbortController()
      const watch = store.watch?.('k', { claim: 'a', signal: left.signal })[Symbol.asyncIterator]()
      const hint = watch?.next()
      await pass(2_000) // five tries to listen, at the least
      const here = await standby.sql("select from pg_stat_activity where application_name = 'waits'")
      expect(here.length).toBeLessThanOrEqual(2) // that of the pool, and the one that tries
      await primary.kill()
      await standby.promote()
      expect(await hint).toMatchObject({ done: false })
      left.abort()
      await store.close()
      await connected.close()
      await Promise.all([primary.stop(), standby.stop()])
    },
  )

  it('synchronous: everything that was answered is there after the promotion', async () => {
    const { primary, standby } = await pair('sync')
    const before = pgPool(primary.url)
    const old = postgresStore(before, { listen: false })
    const keys = Array.from({ length: 50 }, () => fresh())
    const tokens = await Promise.all(keys.map((key) => granted(old, key, 'a')))
    await primary.kill()
    await standby.promote()
    const after = pgPool(standby.url)
    const store = postgresStore(after, { listen: false })
    // The promoted server waits for no standby of its own.
    const answers = await Promise.all(keys.map((key) => store.acquire(request(key, 'b'))))
    expect(answers.map(({ is, token }) => [is, token])).toEqual(tokens.map((token) => ['held', token]))
    expect(await store.renew(keys.map((key) => ({ key, claim: 'a', ttlMs: HOUR_MS })))).toEqual(
      keys.map(() => ({ is: 'renewed', ttlMs: HOUR_MS })),
    )
    await Promise.all([before.end(), after.end()])
    await Promise.all([primary.stop(), standby.stop()])
  })
})

describe('PgBouncer, by the transaction', () => {
  const bench = Bench.here()
  let bouncer: PgBouncer
  beforeAll(async () => {
    bouncer = await PgBouncer.start(bench.server, 5)
  })
  afterAll(() => bouncer.stop())

  it('C40: eight clients take and give one lease: no overlap, nothing is left behind', async () => {
    const clients = Array.from({ length: 8 }, () =>
      createLeases({ store: bench.store({ listen: false }, bench.pool({ max: 3 }, bouncer.url)), closeStore: false }),
    )
    let inside = 0
    let most = 0
    let rounds = 0
    await Promise.all(
      clients.map(async (client) => {
        for (let i = 0; i < 10; i++) {
          await client.hold('one', { waitMs: 60_000, retry: fixed({ delayMs: 20 }) }, async () => {
            most = Math.max(most, ++inside)
            rounds++
            await pass(1)
            inside--
          })
        }
      }),
    )
    expect([most, rounds]).toEqual([1, 80])
    expect(await bench.server.sql("select * from pg_locks where locktype = 'advisory'")).toEqual([])
  })

  it('C40, negative control: a session lock is taken on one connection, and given back on another', async () => {
    const [a, b] = [bench.pool({ max: 1 }, bouncer.url), bench.pool({ max: 1 }, bouncer.url)]
    await a.query('select pg_advisory_lock(7)')
    const busy = await b.connect()
    await busy.query('begin') // takes the connection on which the lock was taken
    const { rows } = await a.query('select pg_advisory_unlock(7) as gone')
    await busy.query('rollback')
    busy.release()
    expect(rows).toEqual([{ gone: false }])
    expect(await bench.server.sql("select * from pg_locks where locktype = 'advisory'")).toHaveLength(1)
    await bench.server.sql("select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'")
  })

  it('a store that was not told so says that it hears nothing, and its waiters get in all the same', async () => {
    const heard: unknown[] = []
    const store = bench.store({}, bench.pool({}, bouncer.url))
    const client = createLeases({
      store,
      closeStore: false,
      onEvent: (event) => event.type === 'watch-failed' && heard.push(event.cause),
    })
    const key = fresh()
    const other = bench.store({ listen: false })
    await granted(other, key, 'a')
    const lease = client.acquire(key, { waitMs: 60_000 })
    await waitUntil('the word', () => heard.length > 0)
    expect(heard[0]).toMatchObject({ outcome: 'none', message: expect.stringMatching(/hears nothing/) })
    await other.release(grantOf(key, 'a'))
    await (await lease).release()
    await client.close()
  })
})

describe('a server whose clock is set', () => {
  const bench = Bench.here({ clock: true })

  it('C23: forward by an hour, what was held is free, and its holder hears of it at the next renewal; tokens rise', async () => {
    const store = bench.store()
    const client = createLeases({ store, closeStore: false })
    const key = fresh()
    const lease = await client.acquire(key, { ttlMs: 600_000 })
    bench.server.setClock(3_600)
    const next = await granted(store, key, 'b')
    expect(next).toBeGreaterThan(lease.token)
    expect(await errorOf(lease.renew())).toMatchObject({ reason: 'taken' })
    expect(lease.signal.aborted).toBe(true)
    await client.close()
  })

  it('C23: back by two hours, what is held stays held, and the tokens of every key go on rising', async () => {
    const store = bench.store()
    const [held, free] = [fresh(), fresh()]
    const many = [fresh(), fresh(), fresh()] // which share a statement
    await granted(store, held, 'a', { ttlMs: 60_000 })
    const before = await granted(store, free, 'a')
    await store.release(grantOf(free, 'a'))
    const manyBefore = await Promise.all(many.map((key) => granted(store, key, 'a')))
    await Promise.all(many.map((key) => store.release(grantOf(key, 'a'))))
    const pruning = bench.store({ table: 'pruned' })
    const pruned = await granted(pruning, 'k', 'a')
    await pruning.release(grantOf('k', 'a'))
    expect(await pruning.prune({ olderThanMs: 0 })).toBe(1)
    bench.server.setClock(-3_600)
    expect(await granted(pruning, 'k', 'b')).toBe(pruned + 1)
    expect(await store.acquire(request(held, 'b'))).toMatchObject({ is: 'held' })
    expect(await store.renew([{ key: held, claim: 'a', ttlMs: 60_000 }])).toMatchObject([{ is: 'renewed' }])
    expect(await granted(store, free, 'b')).toBe(before + 1)
    const manyAfter = await Promise.all(many.map((key) => granted(store, key, 'b')))
    expect(manyAfter).toEqual(manyBefore.map((token) => token + 1))
    await store.release(grantOf(held, 'a'))
    await granted(store, held, 'b')
  })

  it('C25: the hour that is missing in spring, and the one that comes twice in autumn, make no difference', async () => {
    const berlin = bench.pool({ options: '-c timezone=Europe/Berlin' })
    const store = bench.store({}, berlin)
    const one = async (sql: string) => Object.values((await berlin.query<object>(sql)).rows[0] ?? {})[0] as unknown
    const naiveHours: unknown[] = []
    // 00:59:58 UTC is the second but one before two o'clock on the last Sunday of March, and before three on that of October.
    for (const at of ['2027-03-28T00:59:58Z', '2027-10-31T00:59:58Z']) {
      const key = fresh()
      bench.server.setClock(Math.round((Date.parse(at) - Date.now()) / 1_000))
      await granted(store, key, 'a', { ttlMs: 8_000 })
      const until = await one("select (localtimestamp + interval '8 s')::text")
      await waitUntil('the hour', async () => (await one('select extract(second from now())::int')) === 0)
      expect(await store.acquire(request(key, 'b'))).toMatchObject({ is: 'held' })
      expect(await store.renew([{ key, claim: 'a', ttlMs: 8_000 }])).toMatchObject([{ is: 'renewed' }])
      expect((await store.inspect(key))?.remainingMs).toBeLessThanOrEqual(8_000)
      naiveHours.push(await one(`select round(extract(epoch from timestamp '${until}' - localtimestamp) / 3600)::int`))
    }
    expect(naiveHours).toEqual([-1, 1]) // by the local time one ends an hour too early, and the other an hour too late
  })

  it("C23, negative control: by the clients' clocks two hold at once", async () => {
    const pool = bench.pool()
    await pool.query('create table naive_clock (key text primary key, claim text, expires_ms bigint)')
    const acquire = async (claim: string, nowMs: number) => {
      const { rowCount } = await pool.query(
        'insert into naive_clock as n values ($1, $2, $3) on conflict (key) do update set claim = excluded.claim, expires_ms = excluded.expires_ms where n.expires_ms < $4',
        ['k', claim, nowMs + 60_000, nowMs],
      )
      return rowCount === 1
    }
    const nowMs = 1_800_000_000_000
    expect(await acquire('behind', nowMs - 300_000)).toBe(true)
    expect(await acquire('ahead', nowMs + 300_000)).toBe(true)
  })
})

describe('fifty processes that find no tables', () => {
  const bench = Bench.here()

  it('start at once, most of them bare, some with a store: one makes them, all of them work, each key has one holder', async () => {
    const program = fileURLToPath(new URL('worker.mjs', import.meta.url))
    const workers = Array.from({ length: 5 }, () =>
      fork(program, [bench.server.url], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] }),
    )
    try {
      await Promise.all(workers.map((worker) => once(worker, 'message')))
      const answers = Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0] as unknown))
      for (const worker of workers) worker.send('go')
      const bare = Array.from({ length: 45 }, async () => {
        const psql = spawn('psql', ['-q', '-v', 'ON_ERROR_STOP=1', bench.server.url], {
          stdio: ['pipe', 'ignore', 'inherit'],
        })
        psql.stdin.end(postgresSchema())
        return (await once(psql, 'exit'))[0] as number
      })
      expect(await Promise.all(bare)).toEqual(bare.map(() => 0))
      const said = (await answers) as { granted: string[]; error?: string }[]
      expect(said.flatMap(({ error }) => error ?? [])).toEqual([])
      expect(said.flatMap(({ granted: keys }) => keys).sort()).toEqual(Array.from({ length: 10 }, (_, i) => `key ${i}`))
    } finally {
      for (const worker of workers) worker.kill('SIGKILL')
    }
  })
})
