// Cases of failures in MySQL, by number. Each is run against what people write instead as well, where it fails.
import { crc32 } from 'node:zlib'
import type { Pool, RowDataPacket } from 'mysql2/promise'
import { beforeAll, describe, expect, it } from 'vitest'
import { createLeases } from '../../src/index.js'
import { StoreError } from '../../src/lease/errors.js'
import { systemRandom } from '../../src/lease/random.js'
import { mysqlFence } from '../../src/stores/mysql/index.js'
import { Bench, fresh, granted, grantOf, HOUR_MS, lockRow, reasonOf, request } from './harness.js'
import { NaiveRowLock, NaiveSessionLock, naiveTransaction } from './naive.js'
import { pass, waitUntil } from './servers.js'

const bench = Bench.here()

beforeAll(async () => {
  await NaiveRowLock.install(bench.pool())
  await bench.store().install()
})

describe('names', () => {
  const PAIRS = [
    ['Report', 'report'],
    ['caf\u00e9', 'cafe'],
    ['ß', 's'],
    ['a', 'a '],
    ['\u{1F600}', '\u{1F601}'],
  ] as const

  it('C06, C07: what a collation takes for equal are two leases, over a connection of any character set', async () => {
    const naive = new NaiveRowLock(bench.pool())
    let confused = 0
    const latin1 = bench.pool()
    latin1.on('connection', (connection) =>
      (connection as unknown as { query(sql: string): void }).query('SET NAMES latin1'),
    )
    for (const [one, two] of PAIRS) {
      const prefix = fresh()
      await granted(bench.store(), prefix + one, 'a')
      await granted(bench.store({}, latin1), prefix + two, 'b')
      expect(await bench.store().inspect(prefix + one)).toMatchObject({ key: prefix + one, claim: 'a' })
      expect(await naive.acquire(prefix + one, 'a', 60)).toBeDefined()
      if ((await naive.acquire(prefix + two, 'b', 60)) === undefined) confused++
    }
    expect(confused).toBe(PAIRS.length)
  })
})

describe('what belongs to somebody else', () => {
  it('C07: a table of the same name is told apart from a lease that is held, and left alone', async () => {
    await bench.shared.query('CREATE TABLE orders (lease_key VARCHAR(64) PRIMARY KEY, value TEXT)')
    await bench.shared.query("INSERT INTO orders VALUES ('order:1', 'mine')")
    expect(await reasonOf(bench.store({ table: 'orders' }).acquire(request('order:1', 'a')))).toMatchObject({
      code: 'STORE_ERROR',
      outcome: 'none',
      message: expect.stringMatching(/is not of Holdfast/),
    })
    expect((await bench.shared.query('SELECT * FROM orders'))[0]).toEqual([{ lease_key: 'order:1', value: 'mine' }])
  })

  it('C07: of 200,000 names none shares a lease with another, and a named lock of the application is none', async () => {
    const [pairs] = await bench.shared.query<RowDataPacket[]>(
      `SELECT MIN(seq) AS one, MAX(seq) AS two FROM seq_1_to_200000 GROUP BY CRC32(CONCAT('name ', seq)) HAVING COUNT(*) > 1
       LIMIT 1`,
    )
    const [one, two] = [`name ${pairs[0]?.one}`, `name ${pairs[0]?.two}`]
    await Promise.all([one, two].map((name) => granted(bench.store(), name, 'a')))

    const hashed = (name: string) => String(crc32(name))
    const naive = [1, 2].map(() => new NaiveSessionLock(bench.pool({ connectionLimit: 1 })))
    expect(await naive[0]?.acquire(hashed(one))).toBe(true)
    expect(await naive[1]?.acquire(hashed(two))).toBe(false) // two that have nothing to do with each other
    const application = bench.pool({ connectionLimit: 1 })
    await application.query("SELECT GET_LOCK('report', 0)")
    expect(await naive[0]?.acquire('report')).toBe(false)
    await granted(bench.store(), 'report', 'a')
  })
})

describe('claims', () => {
  it('C41: two acquisitions by one holder name are two claims, and the late write of the first is refused', async () => {
    const store = bench.store()
    const [key, holder] = [fresh(), 'host:1']
    const first = await granted(store, key, 'first', { holder, ttlMs: 300 })
    expect(await store.acquire(request(key, 'second', { holder }))).toMatchObject({ because: 'held' })
    const second = await waitUntil('its turn', async () => {
      const answer = await store.acquire(request(key, 'second', { holder }))
      return answer.is === 'granted' ? answer.token : undefined
    })
    const fence = mysqlFence()
    const session = await bench.pool({ connectionLimit: 1 }).getConnection()
    await fence.install(session)
    const write = async (claim: string, token: number) => {
      await session.beginTransaction()
      try {
        await fence.admit(session, { key, claim, token, holder })
        await session.commit()
      } catch (error) {
        await session.rollback()
        throw error
      }
    }
    await write('second', second)
    expect(await reasonOf(write('first', first))).toMatchObject({ code: 'STALE_TOKEN', admitted: second })
    session.release()

    const naive = new NaiveSessionLock(bench.pool({ connectionLimit: 1 }))
    expect([await naive.acquire(key), await naive.acquire(key)]).toEqual([true, true]) // one session, two believe
    expect(await naive.release(key)).toBe(true)
    expect(await new NaiveSessionLock(bench.pool({ connectionLimit: 1 })).acquire(key)).toBe(false) // still locked
  })
})

describe('acquire', () => {
  it('C08: a reply that was swallowed is asked for again and found, or taken back long before its term is over', async () => {
    const proxy = await bench.proxy()
    const pool = bench.pool({ port: proxy.port })
    const store = bench.store({}, pool)
    const [kept, given] = [fresh(), fresh()]
    for (const claim of ['warm', 'warmer', 'warmest']) {
      for (const key of [kept, given]) {
        await granted(store, key, claim)
        await store.release(grantOf(key, claim))
      }
    }
    proxy.swallowReplies()
    const error = await reasonOf(store.acquire(request(kept, 'a'), { timeoutMs: 300 }))
    expect(error).toMatchObject({ outcome: 'unknown' })
    await waitUntil('the command has been applied', async () => (await bench.store().inspect(kept))?.claim === 'a')
    proxy.heal()
    const token = await granted(store, kept, 'a')
    expect(await bench.store().inspect(kept)).toMatchObject({ token, changes: 4 })

    const leases = createLeases({ store, ttlMs: 60_000, callTimeoutMs: 300, closeStore: false })
    proxy.swallowReplies()
    expect(await reasonOf(leases.acquire(given, { waitMs: 0 }))).toBeInstanceOf(StoreError)
    proxy.heal()
    const other = createLeases({ store: bench.store() })
    const lease = await other.acquire(given, { waitMs: 20_000 })
    expect(lease.held).toBe(true)
    await lease.release()
    await leases.close()

    // The naive way: the row stays taken, by nobody who knows of it.
    const lost = new NaiveRowLock(bench.pool({ port: proxy.port }))
    const row = fresh()
    await lost.acquire(row, 'a', 0)
    proxy.swallowReplies()
    const asked = lost.take(row, 'b', 60).catch(() => undefined)
    await waitUntil('it has been taken', async () => (await naiveOwner(row)) === 'b')
    proxy.cut()
    proxy.heal()
    expect(await asked).toBeUndefined()
    expect(await new NaiveRowLock(bench.shared).acquire(row, 'c', 60)).toBeUndefined()
  })

  it('C42: many who take and give the same new names at once, at any isolation: no deadlock, no gap lock, never two holders', async () => {
    for (const level of ['REPEATABLE READ', 'READ COMMITTED']) {
      const pool = bench.pool({ connectionLimit: 12 })
      pool.on('connection', (connection) =>
        (connection as unknown as { query(sql: string): void }).query(
          `SET SESSION TRANSACTION ISOLATION LEVEL ${level}`,
        ),
      )
      const names = Array.from({ length: 8 }, () => fresh())
      const stores = Array.from({ length: 6 }, () => bench.store({}, pool))
      const holders = new Map<string, string>()
      let grants = 0
      await Promise.all(
        stores.map(async (store) => {
          for (let round = 0; round < 12; round++) {
            await Promise.all(
              names.map(async (name) => {
                const claim = systemRandom.claim()
                const answer = await store.acquire(request(name, claim))
                if (answer.is !== 'granted') return
                grants++
                expect(holders.get(name)).toBeUndefined()
                holders.set(name, claim)
                await store.renew([{ key: name, claim, ttlMs: HOUR_MS }])
                holders.delete(name)
                expect(await store.release(grantOf(name, claim))).toEqual({ is: 'released' })
              }),
            )
            if (round % 4 === 3) await store.prune({ olderThanMs: 0 })
          }
        }),
      )
      expect(grants).toBeGreaterThan(names.length)
    }
    const failures = new Set<unknown>()
    const pool = bench.pool({ connectionLimit: 12 })
    await waitUntil('the naive way runs into a deadlock', async () => {
      const name = fresh()
      const runs = Array.from({ length: 12 }, (_, n) => naiveTransaction(pool, name, `owner ${n}`))
      for (const run of await Promise.allSettled(runs)) if (run.status === 'rejected') failures.add(run.reason.errno)
      return failures.size > 0
    })
    expect([...failures]).toContain(1213)
  })

  it('C42: a verb runs at READ COMMITTED, whatever the default of its session', async () => {
    const pool = bench.pool({ connectionLimit: 2 })
    pool.on('connection', (connection) =>
      (connection as unknown as { query(sql: string): void }).query(
        'SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE',
      ),
    )
    const key = fresh()
    const other = await bench.shared.getConnection()
    await other.beginTransaction()
    await other.query('INSERT INTO holdfast_lease (lease_key) VALUES (?)', [Buffer.from(key)])
    const waits = bench.store({}, pool).acquire(request(key, 'a'), { timeoutMs: 30_000 }) // to see whether the row comes to be
    const seen = await waitUntil('it is seen to wait', async () => {
      await pass(150) // the server makes this view anew only when it has not been read for 100 ms
      const [rows] = await bench.shared.query<RowDataPacket[]>(
        "SELECT trx_isolation_level AS level FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
      )
      return rows[0]?.level
    })
    expect(seen).toBe('READ COMMITTED')
    await other.rollback()
    other.release()
    expect(await waits).toMatchObject({ is: 'granted' })
  })

  it('C42: neither a lock time-out nor an old snapshot reaches the caller', async () => {
    const pool = bench.pool({ connectionLimit: 2 })
    pool.on('connection', (connection) =>
      (connection as unknown as { query(sql: string): void }).query('SET SESSION innodb_lock_wait_timeout = 1'),
    )
    const [key, name] = [fresh(), fresh()]
    await granted(bench.store(), key, 'a')
    const naive = new NaiveRowLock(pool)
    await naive.acquire(name, 'a', 0)

    const sits = await lockRow(bench.pool(), key)
    const raw = await bench.shared.getConnection()
    await raw.beginTransaction()
    await raw.query('SELECT * FROM naive_lock WHERE name = ? FOR UPDATE', [name])
    const asked = bench.store({}, pool).release(grantOf(key, 'a'), { timeoutMs: 1_500 })
    expect(await reasonOf(asked)).toMatchObject({ code: 'STORE_ERROR', outcome: 'none' })
    expect(await reasonOf(naive.take(name, 'b', 60))).toMatchObject({ errno: 1205 })
    await sits.letGo()
    await raw.rollback()

    // A transaction that has read before: it sees who held then, and an acquire beside it sees who holds now.
    await raw.beginTransaction()
    const owner = async () =>
      (await raw.query<RowDataPacket[]>('SELECT owner FROM naive_lock WHERE name = ?', [name]))[0]
    await raw.query('SELECT * FROM holdfast_lease')
    const before = await owner()
    await bench.store().release(grantOf(key, 'a'))
    await granted(bench.store(), key, 'b')
    expect(await naive.take(name, 'b', 60)).toBeDefined()
    expect(await bench.store({}, pool).acquire(request(key, 'c'))).toMatchObject({ holder: 'holder of b' })
    expect(await owner()).toEqual(before) // the naive look tells of one that is gone
    await raw.rollback()
    raw.release()
  })

  it('C42: no verb locks a gap', async () => {
    const pool = bench.pool({ multipleStatements: true })
    const [low, middle, high] = ['a', 'm', 'z'].map((letter) => `${fresh('gap')} ${letter}`) as [string, string, string]
    const store = bench.store()
    for (const key of [low, high]) await granted(store, key, 'a')
    // Our procedures run inside one another's transaction here: only to look at the locks that they leave.
    const connection = await pool.getConnection()
    await connection.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED')
    await connection.beginTransaction()
    const hex = (text: string) => Buffer.from(text).toString('hex')
    await connection.query(
      `CALL holdfast_lease_v1_release_one(X'${hex(high)}', 'a', @is, @wake);
       CALL holdfast_lease_v1_acquire_one(X'${hex(middle)}', 'b', 'h', 1000, 1000, NULL, 0, NULL, @is, @t, @l, @h, @r, @w);
       CALL holdfast_lease_v1_renew_one(X'${hex(`${low} not there`)}', 'b', 1000, @is)`,
    )
    for (const ending of ['0', ' between', ' after']) {
      for (const key of [low, high]) expect(await granted(store, key + ending, 'c')).toBeGreaterThan(0)
    }
    await connection.rollback()
    connection.release()
  })
})

describe('clocks', () => {
  it('C23: clients whose clocks are hours apart agree, since only the server decides', async () => {
    const [ahead, behind] = [3_600_000, -3_600_000].map(
      (offMs) => () => performance.timeOrigin + performance.now() + offMs,
    )
    const key = fresh()
    await granted(bench.store(), key, 'a', { ttlMs: 60_000 })
    expect(await bench.store().acquire(request(key, 'b'))).toMatchObject({ because: 'held' })
    const naive = [behind, ahead].map((nowMs) => new NaiveRowLock(bench.pool(), nowMs))
    expect(await naive[0]?.acquire(key, 'a', 60)).toBeDefined()
    expect(await naive[1]?.acquire(key, 'b', 60)).toBeDefined() // two holders
  })

  it('C25: sessions in other zones, and the hour that comes twice, make no difference', async () => {
    const zoned = (zone: string, at?: string) => {
      const pool = bench.pool({ connectionLimit: 2 })
      pool.on('connection', (connection) => {
        const raw = connection as unknown as { query(sql: string): void }
        raw.query(`SET time_zone = '${zone}'`)
        if (at !== undefined) raw.query(`SET timestamp = ${at}`)
      })
      return pool
    }
    for (const [one, two] of [
      ['+09:00', '-05:00'],
      ['-05:00', '+09:00'],
    ] as const) {
      const key = fresh()
      const token = await granted(bench.store({}, zoned(one)), key, 'a', { ttlMs: 60_000 })
      const held = await bench.store({}, zoned(two)).acquire(request(key, 'b'))
      expect(held).toMatchObject({ because: 'held', token })
      if (held.is === 'held') expect(held.remainingMs).toBeGreaterThan(0)
      if (held.is === 'held') expect(held.remainingMs).toBeLessThanOrEqual(60_000)
    }
    // 00:30 and 01:30 UTC of the night in which summer ends in Berlin are both 02:30 there.
    const [[row]] = await zoned('+00:00').query<RowDataPacket[]>(
      "SELECT UNIX_TIMESTAMP('2026-10-25 00:30:00') AS first",
    )
    const first = Number(row?.first)
    const instants = []
    for (const at of [first, first + 3_600]) {
      const pool = zoned('SYSTEM', String(at))
      const [[now]] = await pool.query<RowDataPacket[]>(
        "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS us",
      )
      instants.push(Number(now?.us))
    }
    expect(instants).toEqual([first * 1e6, (first + 3_600) * 1e6])

    const naive = [new NaiveRowLock(zoned('-05:00')), new NaiveRowLock(zoned('+09:00'))]
    const key = fresh()
    expect(await naive[0]?.acquire(key, 'a', 60)).toBeDefined()
    expect(await naive[1]?.acquire(key, 'b', 60)).toBeDefined() // two holders
  })
})

describe('sessions', () => {
  it('C39: a session that is killed takes no lease with it', async () => {
    const pool = bench.pool({ connectionLimit: 2 })
    const store = bench.store({}, pool)
    const key = fresh()
    const token = await granted(store, key, 'a')
    await killAll()
    expect(await bench.store().acquire(request(key, 'b'))).toMatchObject({ because: 'held' })
    expect(await store.acquire(request(key, 'a'))).toMatchObject({ is: 'granted', token })

    const naivePool = bench.pool({ connectionLimit: 1 })
    const naive = new NaiveSessionLock(naivePool)
    expect(await naive.acquire(key)).toBe(true)
    await killAll()
    const other = new NaiveSessionLock(bench.pool({ connectionLimit: 1 }))
    await waitUntil('the server let go', () => other.acquire(key))
    expect([naive.held, other.held]).toEqual([true, true]) // two believe
  })

  it('C39: sessions that the server ends since they are idle take no lease with them', async () => {
    const short = (pool: Pool) =>
      pool.on('connection', (connection) =>
        (connection as unknown as { query(sql: string): void }).query('SET SESSION wait_timeout = 1'),
      )
    const pool = bench.pool({ connectionLimit: 2 })
    short(pool)
    const leases = createLeases({ store: bench.store({}, pool), closeStore: false })
    const key = fresh()
    const lease = await leases.acquire(key, { ttlMs: 12_000, renewEveryMs: 3_000 })
    const naivePool = bench.pool({ connectionLimit: 1 })
    short(naivePool)
    const naive = new NaiveSessionLock(naivePool)
    expect(await naive.acquire(key)).toBe(true)
    const other = new NaiveSessionLock(bench.pool({ connectionLimit: 1 }))
    await waitUntil('its session has been ended', () => other.acquire(key))
    expect([naive.held, other.held]).toEqual([true, true]) // two believe
    const { remainingMs } = lease
    await waitUntil('a renewal', () => lease.remainingMs > remainingMs)
    expect(await bench.store().acquire(request(key, 'b'))).toMatchObject({ because: 'held' })
    await lease.release()
    await leases.close()
  })

  it('C40, C41: whichever connection of a pool is used, a lease is taken and given back once, and nothing is left behind', async () => {
    for (const connectionLimit of [1, 2, 10]) {
      const stores = [1, 2, 3].map(() => bench.store({}, bench.pool({ connectionLimit })))
      const key = fresh()
      for (let round = 0; round < 10; round++) {
        const answers = await Promise.all(stores.map((store, n) => store.acquire(request(key, `${round} ${n}`))))
        const holder = answers.findIndex(({ is }) => is === 'granted')
        expect(answers.filter(({ is }) => is === 'granted')).toHaveLength(1)
        expect(await stores[(holder + 1) % 3]?.release(grantOf(key, `${round} ${holder}`))).toEqual({ is: 'released' })
      }
      expect(await bench.store().inspect(key)).toMatchObject({ state: 'free', changes: 10 })
    }
    const pool = bench.pool({ connectionLimit: 2 })
    const naive = new NaiveSessionLock(pool)
    const key = fresh()
    expect(await naive.acquire(key)).toBe(true)
    const [busy, other] = [await pool.getConnection(), await pool.getConnection()]
    const ids = await Promise.all(
      [busy, other].map((c) => c.query<RowDataPacket[]>('SELECT IS_USED_LOCK(?) = CONNECTION_ID() AS mine', [key])),
    )
    const owner = ids.findIndex(([[row]]) => row?.mine === 1)
    ;[busy, other][owner === 0 ? 1 : 0]?.release() // only the connection that has no lock is free now
    expect(await naive.release(key)).toBe(false) // and nobody looks: the lock stays, with no owner
    ;[busy, other][owner]?.release()
  })

  it('C43: a renewal that changes nothing is no loss, whichever rows the connection counts', async () => {
    for (const flags of [['-FOUND_ROWS'], ['FOUND_ROWS']]) {
      const pool = bench.pool({ flags, connectionLimit: 2 })
      const store = bench.store({}, pool)
      const keys = [fresh(), fresh(), fresh()]
      const tokens = await Promise.all(keys.map((key) => granted(store, key, 'a', { ttlMs: HOUR_MS })))
      for (let round = 0; round < 5; round++) {
        // Shorter terms than what is left: nothing changes.
        const leases = keys.map((key) => ({ key, claim: 'a', ttlMs: 1_000 }))
        expect((await store.renew(leases)).map(({ is }) => is)).toEqual(['renewed', 'renewed', 'renewed'])
        expect(await Promise.all(keys.map((key) => granted(store, key, 'a', { ttlMs: 1_000 })))).toEqual(tokens)
      }
      for (const n of [1, 2]) {
        const released = await Promise.all(keys.map((key) => store.release(grantOf(key, 'a'))))
        expect(released, `time ${n}`).toEqual(keys.map(() => ({ is: 'released' })))
      }
      expect(await store.acquire(request(keys[0] ?? '', 'a'))).toMatchObject({ because: 'ended' })
      const next = await Promise.all(keys.map((key) => granted(store, key, 'b')))
      for (const [n, token] of next.entries()) expect(token).toBeGreaterThan(tokens[n] ?? 0)
    }
    const naive = new NaiveRowLock(bench.pool({ flags: ['-FOUND_ROWS'] }))
    const key = fresh()
    await naive.acquire(key, 'a', 60)
    await waitUntil('two renewals within one second', async () => !(await naive.renew(key, 'a', 60))) // a good renewal, told as a loss
  })
})

async function naiveOwner(name: string): Promise<unknown> {
  const [[row]] = await bench.shared.query<RowDataPacket[]>('SELECT owner FROM naive_lock WHERE name = ?', [name])
  return row?.owner
}

/** Ends every session but the asker's own. */
async function killAll(): Promise<void> {
  const pool = bench.pool({ connectionLimit: 1 })
  const [rows] = await pool.query<RowDataPacket[]>(
    "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'",
  )
  for (const { id } of rows) await pool.query(`KILL ${id}`).catch(() => {})
}
