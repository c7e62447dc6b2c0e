// Acquires and releases of keys that the process has given back itself: plain statements, many keys in each. They decide as the procedures
// do, touch no other key, and leave to the procedures whatever is not plain.
import type { RowDataPacket } from 'mysql2/promise'
import { describe, expect, it } from 'vitest'
import { type MysqlStore, mysqlFence } from '../../src/stores/mysql/index.js'
import { Bench, fresh, granted, grantOf, HOUR_MS, lockRow, reasonOf, request } from './harness.js'
import { waitUntil } from './servers.js'

const bench = Bench.here()

/** How many procedures the server has been called for so far. */
async function calls(): Promise<number> {
  const [[row]] = await bench.shared.query<RowDataPacket[]>("SHOW GLOBAL STATUS LIKE 'Com_call_procedure'")
  return Number(row?.Value)
}

/** Keys that the store has given back, so that it goes the plain way with them. */
async function givenBack(store: MysqlStore, count: number): Promise<string[]> {
  const keys = Array.from({ length: count }, () => fresh())
  const pairs = async (claim: string) => {
    await Promise.all(keys.map((key) => granted(store, key, claim, { holder: 'one' })))
    await Promise.all(keys.map((key) => store.release(grantOf(key, claim))))
  }
  await waitUntil('the plain way', async () => {
    const before = await calls()
    await pairs(fresh('claim'))
    return (await calls()) === before
  })
  return keys
}

describe('plain statements', () => {
  for (const count of [1, 3, 50]) {
    it(`take and give back ${count} together, and touch no row but theirs`, async () => {
      const table = fresh('plain')
      const store = bench.store({ table })
      await store.install()
      const keys = await givenBack(store, count)
      const other = await Promise.all(
        Array.from({ length: 8 }, async () => {
          const key = fresh('other')
          await granted(bench.store({ table }), key, 'o')
          return key
        }),
      )
      const sits = await Promise.all(other.map((key) => lockRow(bench.shared, key, table)))
      const before = await calls()
      const tokens = await Promise.all(keys.map((key) => granted(store, key, `of ${key}`, { holder: 'one' })))
      expect(await calls()).toBe(before)
      for (const [i, key] of keys.entries()) {
        const { remainingMs = 0, ...record } = (await bench.store({ table }).inspect(key)) ?? {}
        expect(record).toMatchObject({ state: 'held', claim: `of ${key}`, holder: 'one', token: tokens[i] })
        expect(remainingMs).toBeGreaterThan(HOUR_MS / 2)
      }
      const between = await calls()
      expect(await Promise.all(keys.map((key) => store.release(grantOf(key, `of ${key}`))))).toEqual(
        keys.map(() => ({ is: 'released' })),
      )
      expect(await calls()).toBe(between)
      for (const key of keys)
        expect(await bench.store({ table }).inspect(key)).toMatchObject({ state: 'free', claim: '' })
      for (const one of sits) await one.letGo()
    })
  }

  it('each key has the answer that it would have alone, and tokens rise', async () => {
    const [store, elsewhere] = [bench.store(), bench.store()]
    const keys = await givenBack(store, 7)
    const [plain, held, waited, ended, ahead, late, another] = keys as [
      string,
      string,
      string,
      string,
      string,
      string,
      string,
    ]
    const before = await granted(store, plain, 'first', { holder: 'one' })
    await store.release(grantOf(plain, 'first'))
    await granted(elsewhere, held, 'x')
    await granted(elsewhere, waited, 'x')
    await elsewhere.acquire(request(waited, 'y', { queue: { pollMs: HOUR_MS } }))
    await elsewhere.release(grantOf(waited, 'x'))
    await elsewhere.withdraw(ended, 'claim')
    await granted(elsewhere, ahead, 'x', { tokenFloor: 9e15 })
    await elsewhere.release(grantOf(ahead, 'x'))
    await granted(elsewhere, late, 'claim')
    await elsewhere.release(grantOf(late, 'claim'))
    const ask = (key: string, more = {}) =>
      store.acquire(request(key, 'claim', { holder: 'one', ...more }), { timeoutMs: 8_000 })
    const answers = await Promise.all([
      ...[plain, held, waited, ended, ahead, late].map((key) => ask(key)),
      ask(another, { ttlMs: 1_000, holder: 'two' }),
    ])
    expect(answers).toMatchObject([
      { is: 'granted' },
      { because: 'held', holder: 'holder of x' },
      { because: 'reserved' },
      { because: 'ended' },
      { is: 'granted', token: 9e15 + 1 },
      { because: 'ended' },
      { is: 'granted', ttlMs: 1_000 },
    ])
    const record = await store.inspect(plain)
    expect(record).toMatchObject({ claim: 'claim', token: (answers[0] as { token: number }).token })
    expect(record?.token).toBeGreaterThan(before)
    expect(await store.inspect(another)).toMatchObject({ holder: 'two', ttlMs: 1_000 })
  })

  it('a row that somebody else has locked keeps nobody else waiting', async () => {
    const store = bench.store()
    const keys = await givenBack(store, 3)
    const [locked = ''] = keys
    const sits = await lockRow(bench.shared, locked)
    const asked = keys.map((key) => store.acquire(request(key, 'a', { holder: 'one' }), { timeoutMs: 60_000 }))
    expect(await Promise.all(asked.slice(1))).toMatchObject([{ is: 'granted' }, { is: 'granted' }])
    await sits.letGo()
    expect(await asked[0]).toMatchObject({ is: 'granted' })
  })

  it('releases told apart: held, of another claim, expired, revoked and waited for', async () => {
    const [store, elsewhere] = [bench.store(), bench.store()]
    const keys = await givenBack(store, 5)
    const [, another, expired, revoked, waited] = keys as [string, string, string, string, string]
    await Promise.all(
      keys.map((key) => granted(store, key, 'a', { holder: 'one', ttlMs: key === expired ? 1 : HOUR_MS })),
    )
    await elsewhere.acquire(request(waited, 'w', { queue: { pollMs: HOUR_MS } }))
    await elsewhere.revoke(revoked)
    await waitUntil('it has expired', async () => (await elsewhere.inspect(expired))?.state === 'free')
    const answers = await Promise.all(
      keys.map((key) => store.release(grantOf(key, key === another ? 'b' : 'a'), { timeoutMs: 10_000 })),
    )
    expect(answers).toEqual([
      { is: 'released' },
      { is: 'lost', reason: 'taken' },
      { is: 'lost', reason: 'expired' },
      { is: 'released' },
      { is: 'released' },
    ])
    expect(await elsewhere.inspect(another)).toMatchObject({ state: 'held', claim: 'a' })
    const look = 'SELECT reserved_us FROM holdfast_lease WHERE lease_key = ?'
    const [[row]] = await bench.shared.query<RowDataPacket[]>(look, [Buffer.from(waited)])
    expect(Number(row?.reserved_us)).toBeGreaterThan(0)
    expect(await elsewhere.acquire(request(waited, 'x'))).toMatchObject({ because: 'reserved' })
    expect(await elsewhere.acquire(request(waited, 'w'))).toMatchObject({ is: 'granted' })
  })

  it('a change of hands waits for a transaction that commits only while the last holder has the lease', async () => {
    const store = bench.store()
    const keys = await givenBack(store, 2)
    const [first] = await Promise.all(keys.map((key) => granted(store, key, 'a', { holder: 'one' })))
    const grant = { ...grantOf(keys[0] ?? '', 'a', first), holder: 'one' }
    const tx = await bench.shared.getConnection()
    await tx.beginTransaction()
    await mysqlFence().whileHeld(tx, grant)
    await Promise.all(keys.map((key) => store.release(grantOf(key, 'a'))))
    const [refused, other] = await Promise.allSettled(
      keys.map((key) => store.acquire(request(key, 'b', { holder: 'one' }), { timeoutMs: 8_000 })),
    )
    expect(refused).toMatchObject({ status: 'rejected', reason: { outcome: 'none' } })
    expect(other).toMatchObject({ status: 'fulfilled', value: { is: 'granted' } })
    await tx.commit()
    tx.release()
    expect(await granted(store, grant.key, 'b')).toBeGreaterThan(grant.token)
  })

  it('what may have been done is not told as undone when the procedure cannot be asked', async () => {
    const table = fresh('plain')
    const store = bench.store({ table, migrate: false })
    await bench.store({ table }).install()
    const [free, held] = (await givenBack(store, 2)) as [string, string]
    await granted(bench.store({ table }), held, 'x')
    for (const verb of ['acquire', 'release']) await bench.shared.query(`DROP PROCEDURE \`${table}_v1_${verb}\``)
    const asked = await Promise.all(
      [free, held].map((key) => reasonOf(store.acquire(request(key, 'a', { holder: 'one' })))),
    )
    for (const error of asked) expect(error).toMatchObject({ outcome: 'unknown', lasting: true })
    expect((await store.inspect(free))?.claim).toBe('a')
    const alone = await reasonOf(store.acquire(request(held, 'a', { holder: 'one' })))
    expect(alone).toMatchObject({ outcome: 'none', lasting: true })
  })

  it('a caller who gives up between the statement and the procedure is heard', async () => {
    const table = fresh('plain')
    const store = bench.store({ table })
    const [key] = (await givenBack(store, 1)) as [string]
    await granted(bench.store({ table }), key, 'x')
    const before = await calls()
    const caller = new AbortController()
    const asked = reasonOf(store.acquire(request(key, 'a', { holder: 'one' }), { signal: caller.signal }))
    await Promise.resolve() // the statement is on its way
    caller.abort()
    expect(await asked).toMatchObject({ outcome: 'none', message: expect.stringMatching(/gave up/) })
    expect(await calls()).toBe(before)
  })
})
