// Cases of failures in Postgres, by number. Each is run against what people write instead as well, where it fails.
import { beforeAll, describe, expect, it } from 'vitest'
import { createLeases } from '../../src/index.js'
import { InvalidArgumentError } from '../../src/lease/errors.js'
import { postgresFence } from '../../src/stores/postgres/index.js'
import { Bench, errorOf, fresh, granted, grantOf, request } from './harness.js'
import { NaiveRowLock, NaiveSessionLock } from './naive.js'
import { waitUntil } from './servers.js'

const bench = Bench.here()

beforeAll(() => NaiveRowLock.install(bench.pool()))

/** Who has an advisory lock, whatever its number. */
const sessionLocks = () => bench.server.sql("select pid from pg_locks where locktype = 'advisory' and granted")

describe('names', () => {
  const GOOD = [' ', 'a b', 'user:42', 'a.b.*.>', '{', '}{a', '{}a', '{a}b{c}', 'é'.repeat(33), '\u{1F600}', 'a\nb']
  const LONG = [64, 65, 256, 512].map((length) => 'x'.repeat(length))
  const BAD = ['', 'a\0b', '\ud83d', 'x'.repeat(513), 'é'.repeat(257), undefined, null]

  it('C06: a name is refused before any command, or works as it is, beside those that look like it', async () => {
    const nowhere = createLeases({ store: bench.store({}, bench.pool({}, 'postgres://127.0.0.1:1/none')) })
    for (const key of BAD) {
      expect(await errorOf(nowhere.acquire(key as string, { waitMs: 0 }))).toBeInstanceOf(InvalidArgumentError)
    }
    const leases = createLeases({ store: bench.store(), closeStore: false })
    const names = [...GOOD, ...LONG, 'a b ', 'User:42', 'e\u0301'.repeat(33)]
    const held = await Promise.all(names.map((name) => leases.acquire(name, { waitMs: 0 })))
    for (const [i, lease] of held.entries()) {
      expect(await bench.store().inspect(names[i] ?? '')).toMatchObject({ key: names[i], token: lease.token })
      await lease.renew()
      await lease.release()
    }

    const naive = new NaiveRowLock(bench.pool())
    expect(await naive.acquire('', 'a', 60_000)).toBe(true)
    expect(await errorOf(naive.acquire('x'.repeat(65), 'a', 60_000))).toMatchObject({ code: '22001' }) // deep in the driver
    expect(await errorOf(naive.acquire('a\0b', 'a', 60_000))).toMatchObject({ code: '22021' })
    expect(await naive.acquire('a b', 'a', 60_000)).toBe(true)
    expect(await naive.acquire('a b ', 'b', 60_000)).toBe(false) // a stranger, who waits for it
  })

  it('C07: of 200,000 names none shares a lease with another, and nothing of the application is taken for one', async () => {
    const [pair] = await bench.server.sql<{ names: string[] }>(
      `select array_agg('name ' || n) as names from generate_series(1, 200000) n group by hashtext('name ' || n)
       having count(*) > 1 limit 1`,
    )
    const [one = '', two = ''] = pair?.names ?? []
    await Promise.all([one, two].map((name) => granted(bench.store(), name, 'a')))

    const naive = [1, 2].map(() => new NaiveSessionLock(bench.pool({ max: 1 })))
    expect(await naive[0]?.acquire(one)).toBe(true)
    expect(await naive[1]?.acquire(two)).toBe(false) // two that have nothing to do with each other
    await naive[0]?.release(one)
    const application = bench.pool({ max: 1 })
    await application.query("select pg_advisory_lock(hashtext('report'))") // a number of its own choice
    expect(await naive[0]?.acquire('report')).toBe(false)
    await granted(bench.store(), 'report', 'a')
    await application.query('select pg_advisory_unlock_all()')
  })

  it('C07: a table of the same name that is somebody else’s is told apart from a lease that is held, and left alone', async () => {
    await bench.server.sql('create table orders (key text primary key, value text)')
    await bench.server.sql("insert into orders values ('order:1', 'mine')")
    expect(await errorOf(bench.store({ table: 'orders' }).acquire(request('order:1', 'a')))).toMatchObject({
      code: 'STORE_ERROR',
      outcome: 'none',
      message: expect.stringMatching(/is not of Holdfast/),
    })
    expect(await bench.server.sql('select * from orders')).toEqual([{ key: 'order:1', value: 'mine' }])
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
    const fence = postgresFence()
    const session = await bench.session()
    await fence.install(session)
    const write = async (claim: string, token: number) => {
      await session.query('begin')
      try {
        await fence.admit(session, { key, claim, token, holder })
        await session.query('commit')
      } catch (error) {
        await session.query('rollback')
        throw error
      }
    }
    await write('second', second)
    expect(await errorOf(write('first', first))).toMatchObject({ code: 'STALE_TOKEN', admitted: second })

    const naive = new NaiveRowLock(bench.pool())
    expect(await naive.acquire(key, holder, 60_000)).toBe(true)
    expect(await naive.acquire(key, holder, 60_000)).toBe(true) // two hold, and nothing tells them apart
    expect(await naive.release(key, holder)).toBe(true) // of both
  })

  it('C41: of two callers in one pool one holds, and one release frees it', async () => {
    const store = bench.store({}, bench.pool({ max: 1 }))
    const key = fresh()
    const answers = await Promise.all(['a', 'b'].map((claim) => store.acquire(request(key, claim))))
    expect(answers.map(({ is }) => is)).toEqual(['granted', 'held'])
    await store.release(grantOf(key, 'a'))
    expect((await store.inspect(key))?.state).toBe('free')

    const naive = new NaiveSessionLock(bench.pool({ max: 1 }))
    expect([await naive.acquire(key), await naive.acquire(key)]).toEqual([true, true]) // one session, two believe
    expect(await naive.release(key)).toBe(true)
    expect(await sessionLocks()).toHaveLength(1) // and it is still locked
    expect(await naive.release(key)).toBe(true)
  })

  it('C41: an acquire that gave up leaves neither a lease nor a connection behind', async () => {
    const pool = bench.pool({ max: 1 })
    const key = fresh()
    await granted(bench.store(), key, 'old', { ttlMs: 1 })
    const raw = await bench.session()
    await raw.query('begin')
    await raw.query('select from holdfast_lease where key = $1 for update', [key])
    const leases = createLeases({ store: bench.store({ listen: false }, pool), ttlMs: 60_000, callTimeoutMs: 150 })
    expect(await errorOf(leases.acquire(key, { waitMs: 200 }))).toMatchObject({ code: 'STORE_ERROR' })
    await raw.query('rollback')
    await leases.close()
    await waitUntil('its connection is back', () => pool.idleCount === pool.totalCount)
    await granted(bench.store(), key, 'next') // long before the term that was asked for is over

    const naive = new NaiveSessionLock(bench.pool({ max: 1 }))
    await raw.query('select pg_advisory_lock(hashtext($1))', [key])
    expect(await naive.acquire(key, 200)).toBe(false)
    await raw.query('select pg_advisory_unlock(hashtext($1))', [key])
    await waitUntil('the grant that nobody knows of', async () => (await sessionLocks()).length === 1)
    expect(await new NaiveSessionLock(bench.pool({ max: 1 })).acquire(key)).toBe(false)
  })
})
