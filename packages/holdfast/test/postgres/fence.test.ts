// Fences in an application's Postgres database: the check is one step with the write, for transactions of pg and of postgres.js, as a
// column with a trigger, and as a transaction that is tied to the lease. A naive fence stands beside each.
import postgres from 'postgres'
import { beforeAll, describe, expect, it } from 'vitest'
import { InvalidArgumentError, LeaseLostError, StaleTokenError } from '../../src/lease/errors.js'
import { type PostgresTransaction, postgresFence, postgresStore } from '../../src/stores/postgres/index.js'
import { Bench, errorOf, fresh, granted, grantOf, HOUR_MS, request } from './harness.js'
import { pass, waitUntil } from './servers.js'

const bench = Bench.here()
const fence = postgresFence()

beforeAll(async () => {
  const pool = bench.pool()
  await Promise.all(Array.from({ length: 10 }, () => fence.install(pool)))
  await pool.query('create table register (name text primary key, value text, fence bigint)')
})

type Run = <T>(work: (tx: PostgresTransaction, query: (text: string) => Promise<unknown>) => Promise<T>) => Promise<T>

/** Only its `query`, as of a client of pg before 8.21, or of what wraps one. */
const dumb = (client: {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>
}): PostgresTransaction => ({
  query: (text, values) => client.query(text, values),
})

const ways: Record<string, () => { run: Run; end(): Promise<void> }> = {
  pg() {
    const pool = bench.pool()
    return {
      async run(work) {
        const tx = await pool.connect()
        try {
          await tx.query('begin')
          const value = await work(tx, (text) => tx.query(text))
          await tx.query('commit')
          return value
        } catch (error) {
          await tx.query('rollback')
          throw error
        } finally {
          tx.release()
        }
      },
      async end() {},
    }
  },
  'a client that does not tell whether it is in one'() {
    const { run, end } = (ways.pg as () => { run: Run; end(): Promise<void> })()
    return { run: (work) => run((tx, query) => work(dumb(tx as never), query)), end }
  },
  'postgres.js'() {
    const sql = postgres(bench.server.url, { max: 4, onnotice: () => {} })
    return {
      run: (work) => sql.begin((tx) => work(tx, (text) => tx.unsafe(text) as never)) as never,
      end: () => sql.end({ timeout: 1 }),
    }
  },
}

describe.each(Object.keys(ways))('admit, in a transaction of %s', (way) => {
  const made = () => (ways[way] as () => { run: Run; end(): Promise<void> })()

  it('C54: bigger tokens always, an equal one of the same claim again, and nothing else (G7)', async () => {
    const { run, end } = made()
    const key = fresh()
    const admit = (token: number, claim: string) => run((tx) => fence.admit(tx, grantOf(key, claim, token)))
    for (const [token, claim] of [
      [9, 'a'],
      [10, 'b'],
      [10, 'b'],
      [99, 'c'],
      [100, 'd'],
      [Number.MAX_SAFE_INTEGER, 'e'],
    ] as const) {
      await admit(token, claim)
    }
    for (const [token, claim] of [
      [99, 'c'],
      [Number.MAX_SAFE_INTEGER, 'f'],
      [Number.MAX_SAFE_INTEGER - 1, 'e'],
      [1, 'x'],
    ] as const) {
      const error = await errorOf(admit(token, claim))
      expect(error).toBeInstanceOf(StaleTokenError)
      expect(error).toMatchObject({ resource: key, token, admitted: Number.MAX_SAFE_INTEGER })
    }
    await end()
  })

  it('a refused write is rolled back, and a rolled back check leaves nothing', async () => {
    const { run, end } = made()
    const key = fresh()
    const write = (token: number, claim: string, fail = false) =>
      run(async (tx, query) => {
        await query(
          `insert into register values ('${key}', '${claim}') on conflict (name) do update set value = excluded.value`,
        )
        await fence.admit(tx, grantOf(key, claim, token))
        if (fail) throw new Error('mine')
      })
    await write(5, 'five')
    await expect(write(8, 'eight', true)).rejects.toThrow('mine')
    await write(7, 'seven')
    await expect(write(6, 'six')).rejects.toBeInstanceOf(StaleTokenError)
    expect(await bench.server.sql('select value from register where name = $1', [key])).toEqual([{ value: 'seven' }])
    await end()
  })

  it('old and new at the same moment: what was written last has the bigger token, fifty times', async () => {
    const { run, end } = made()
    for (let round = 0; round < 50; round++) {
      const key = fresh('race')
      const write = (token: number) =>
        run(async (tx, query) => {
          await fence.admit(tx, grantOf(key, `claim ${token}`, token))
          await query(
            `insert into register values ('${key}', '${token}') on conflict (name) do update set value = excluded.value`,
          )
        })
      const outcomes = await Promise.allSettled([write(2), write(1)])
      expect(outcomes[0]?.status).toBe('fulfilled')
      expect(await bench.server.sql('select value from register where name = $1', [key])).toEqual([{ value: '2' }])
    }
    await end()
  })

  it('outside a transaction, on a pool, or for what is no grant, it throws, and nothing is done', async () => {
    const key = fresh()
    const pool = bench.pool()
    const sql = postgres(bench.server.url, { max: 1, onnotice: () => {} })
    const session = await bench.session()
    const outside = way === 'postgres.js' ? [sql] : way === 'pg' ? [pool, session] : [dumb(pool), dumb(session)]
    for (const db of outside) {
      await expect(fence.admit(db as never, grantOf(key, 'a', 5))).rejects.toThrow(InvalidArgumentError)
      await expect(fence.whileHeld(db as never, grantOf(key, 'a', 5))).rejects.toThrow(/transaction/)
    }
    for (const no of [undefined, {}, 'x', () => {}]) {
      await expect(fence.admit(no as never, grantOf(key, 'a', 5))).rejects.toThrow(InvalidArgumentError)
    }
    const { run, end } = made()
    for (const no of [
      { token: 7.5 },
      { token: '7' },
      { token: 2 ** 53 },
      { token: undefined },
      { claim: '' },
      { key: '' },
    ]) {
      const grant = { ...grantOf(key, 'a', 7), ...no } as never
      await expect(run((tx) => fence.admit(tx, grant))).rejects.toThrow(InvalidArgumentError)
    }
    expect(await bench.server.sql('select * from holdfast_fence where resource = $1', [key])).toEqual([])
    await sql.end({ timeout: 1 })
    await end()
  })
})

describe('negative controls', () => {
  it('C54: a fence that reads, compares in the program, and then writes lets an older write land last', async () => {
    const [old, young] = [bench.pool({ max: 1 }), bench.pool({ max: 1 })]
    await old.query("insert into register values ('naive', '', 0)")
    const check = async (db: typeof old, token: number) =>
      Number((await db.query("select fence from register where name = 'naive'")).rows[0].fence) <= token
    expect(await check(old, 1)).toBe(true) // and here the old holder is paused
    expect(await check(young, 2)).toBe(true)
    await young.query("update register set value = 'young', fence = 2 where name = 'naive'")
    await old.query("update register set value = 'old', fence = 1 where name = 'naive'")
    expect(await bench.server.sql("select value from register where name = 'naive'")).toEqual([{ value: 'old' }])
  })

  it("C54: compared as text, '9' beats '10'", async () => {
    expect(await bench.server.sql(`select '9' > '10' collate "C" as beats`)).toEqual([{ beats: true }])
  })
})

describe('statement and verify, for code that runs its SQL itself', () => {
  it('rows as objects or as arrays; anything else is refused', async () => {
    const pool = await bench.session()
    const key = fresh()
    const { sql, params } = fence.statement(grantOf(key, 'a', 5))
    await pool.query('begin')
    fence.verify((await pool.query(sql, [...params])).rows)
    fence.verify((await pool.query({ text: sql, values: [...params], rowMode: 'array' })).rows)
    const stale = fence.statement(grantOf(key, 'b', 4))
    const { rows } = await pool.query(stale.sql, [...stale.params])
    expect(() => fence.verify(rows)).toThrow(StaleTokenError)
    await pool.query('rollback')
    for (const no of [undefined, [], [1], [{}], [{ resource: 'x' }], {}]) {
      expect(() => fence.verify(no as never)).toThrow(InvalidArgumentError)
    }
  })

  it('of a resource that has another name than the key', async () => {
    const pool = await bench.session()
    await pool.query('begin')
    await fence.admit(pool, grantOf('some key', 'a', 5), { resource: 'orders' })
    await pool.query('commit')
    expect(await bench.server.sql("select token from holdfast_fence where resource = 'orders'")).toEqual([
      { token: '5' },
    ])
  })
})

describe('a column of the user’s own table', () => {
  const update = async (name: string, token: number, extra = 'true') => {
    const pool = await bench.session()
    const { set, where, verify } = fence.predicate(grantOf(name, `claim ${token}`, token))
    const text = `update register set value = 'by ${token}', ${set} where name = $1 and ${where} and ${extra}`
    const { rowCount } = await pool.query(text, [name])
    return verify(
      rowCount,
      async () => (await pool.query('select fence from register where name = $1', [name])).rows[0]?.fence,
    )
  }

  it('tells written, stale, no such row and not matched apart', async () => {
    const name = fresh()
    expect(await update(name, 5)).toBe('no such row')
    await bench.server.sql("insert into register values ($1, 'new')", [name])
    expect(await update(name, 5)).toBe('written')
    expect(await update(name, 10)).toBe('written')
    expect(await update(name, 10)).toBe('written')
    expect(await update(name, 11, 'false')).toBe('not matched')
    await expect(update(name, 9)).rejects.toMatchObject({ code: 'STALE_TOKEN', admitted: 10 })
  })

  it('the trigger refuses whoever forgot the check', async () => {
    await bench.server.sql('create table guarded (id int primary key, value text, fence bigint)')
    for (let i = 0; i < 2; i++) await bench.server.sql(fence.trigger({ table: 'guarded' }))
    const misspelt = errorOf(bench.server.sql(fence.trigger({ table: 'guarded', column: 'fense' })))
    expect(await misspelt).toMatchObject({ code: '42703' })
    await bench.server.sql("insert into guarded values (1, 'new', null)")
    await bench.server.sql("update guarded set value = 'nine', fence = 9 where id = 1")
    await bench.server.sql("update guarded set value = 'ten', fence = 10 where id = 1")
    await bench.server.sql("update guarded set value = 'no word of it' where id = 1")
    for (const bad of ['9', 'null', '-1']) {
      expect(
        await errorOf(bench.server.sql(`update guarded set value = 'late', fence = ${bad} where id = 1`)),
      ).toMatchObject({
        code: 'HF001',
        message: expect.stringMatching(/stale token/),
      })
    }
    expect(await bench.server.sql('select * from guarded')).toEqual([{ id: 1, value: 'no word of it', fence: '10' }])
  })

  it('names are quoted: odd ones are only names, and no others get in', async () => {
    const odd = postgresFence({ schema: 'my "schema"', table: `odd '\\ table` })
    await odd.install(bench.pool())
    const pool = await bench.session()
    await pool.query('begin')
    await odd.admit(pool, grantOf('k', 'a', 3))
    await pool.query('commit')
    const column = `f' \\ $do$ o`
    await bench.server.sql(`create table "my ""schema"""."T's" (id int, "${column}" bigint)`)
    for (let i = 0; i < 2; i++) {
      await bench.server.sql(odd.trigger({ schema: 'my "schema"', table: "T's", column }))
    }
    await bench.server.sql(`insert into "my ""schema"""."T's" values (1, 5)`)
    const lowers = bench.server.sql(`update "my ""schema"""."T's" set "${column}" = 4`)
    expect(await errorOf(lowers)).toMatchObject({ code: 'HF001' })
    for (const bad of [{ table: '' }, { schema: 'x'.repeat(64) }, { table: 'a\0' }]) {
      expect(() => postgresFence(bad)).toThrow(InvalidArgumentError)
    }
  })
})

describe('whileHeld', () => {
  it('until the transaction ends nobody else is granted the lease, though its term is over; renewals go on', async () => {
    const store = bench.store()
    const key = fresh()
    const token = await granted(store, key, 'a', { ttlMs: 700 })
    const pool = await bench.session()
    await pool.query('begin')
    await fence.whileHeld(pool, grantOf(key, 'a', token))
    for (let i = 0; i < 3; i++) {
      expect(await store.renew([{ key, claim: 'a', ttlMs: 700 }])).toEqual([{ is: 'renewed', ttlMs: 700 }])
      expect(await store.acquire(request(key, `other ${i}`))).toMatchObject({ is: 'held' })
    }
    await pass(1_200)
    const next = store.acquire(request(key, 'b', { ttlMs: 3_000 }), { timeoutMs: 20_000 })
    let done = false
    void next.then(() => {
      done = true
    })
    await pass(500)
    expect(done).toBe(false)
    await pool.query("insert into register values ('tied', 'written in time')")
    const { rows } = await pool.query('select (extract(epoch from clock_timestamp()) * 1000000)::bigint as us')
    await pool.query('commit')
    expect(await next).toMatchObject({ is: 'granted' })
    const [lease] = await bench.server.sql<Record<string, string>>('select * from holdfast_lease where key = $1', [key])
    expect(Number(lease?.granted_us)).toBeGreaterThan(Number(rows[0].us)) // its whole ttl counts from after the wait
    expect(Number(lease?.expires_us) - Number(lease?.granted_us)).toBe(3_000_000)
  })

  it.each(['release', 'withdrawal', 'handover'])(
    'a %s meets it as well: what ends the claim does not wait, who comes next does',
    async (how) => {
      const store = bench.store()
      const key = fresh()
      const token = await granted(store, key, 'a')
      const pool = await bench.session()
      await pool.query('begin')
      await fence.whileHeld(pool, grantOf(key, 'a', token))
      if (how === 'release') expect(await store.release(grantOf(key, 'a'))).toEqual({ is: 'released' })
      if (how === 'withdrawal') await store.withdraw(key, 'a')
      const next = request(key, 'b', how === 'handover' ? { replaces: 'a' } : {})
      expect(await errorOf(store.acquire(next, { timeoutMs: 1_000 }))).toMatchObject({ outcome: 'none' })
      expect((await store.inspect(key))?.state).toBe(how === 'handover' ? 'held' : 'free')
      await pool.query('commit')
      expect((await store.acquire(next)).token).toBeGreaterThan(token)
    },
  )

  it('of many acquires that share a statement only the one that is tied waits', async () => {
    const store = bench.store()
    const keys = Array.from({ length: 6 }, () => fresh())
    const tokens = await Promise.all(keys.map((key) => granted(store, key, 'a')))
    await Promise.all(keys.map((key) => store.release(grantOf(key, 'a'))))
    await Promise.all(keys.map((key) => granted(store, key, 'b')))
    const [tied = '', ...others] = keys
    const record = await store.inspect(tied)
    const pool = await bench.session()
    await pool.query('begin')
    await fence.whileHeld(pool, grantOf(tied, 'b', record?.token))
    await Promise.all(keys.map((key) => store.release(grantOf(key, 'b'))))
    const asked = keys.map((key) => store.acquire(request(key, 'c'), { timeoutMs: 20_000 }))
    for (const answer of await Promise.all(asked.slice(1))) expect(answer).toMatchObject({ is: 'granted' })
    expect((await store.inspect(tied))?.state).toBe('free')
    await Promise.all(others.map((key) => store.release(grantOf(key, 'c'))))
    await pool.query('commit')
    const next = await asked[0]
    expect(next).toMatchObject({ is: 'granted' })
    expect(next?.token).toBeGreaterThan(tokens[0] ?? 0)
  })

  it('rejects for a grant that does not hold: expired, released, revoked, taken, or of another token', async () => {
    const store = bench.store()
    const pool = await bench.session()
    const reason = async (key: string, claim: string, token: number) => {
      await pool.query('begin')
      const error = await errorOf(fence.whileHeld(pool, grantOf(key, claim, token)))
      await pool.query('rollback')
      expect(error).toBeInstanceOf(LeaseLostError)
      return (error as LeaseLostError).reason
    }
    const key = fresh()
    const first = await granted(store, key, 'a', { ttlMs: 1 })
    await waitUntil('its end', async () => (await store.inspect(key))?.state === 'free')
    expect(await reason(key, 'a', first)).toBe('expired')
    const second = await granted(store, key, 'b')
    expect(await reason(key, 'a', first)).toBe('taken')
    expect(await reason(key, 'b', second + 1)).toBe('taken')
    await store.revoke(key)
    expect(await reason(key, 'b', second)).toBe('revoked')
    await store.release(grantOf(key, 'b'))
    expect(await reason(key, 'b', second)).toBe('released')
    expect(await reason(fresh(), 'x', 1)).toBe('taken')
  })

  it.each(['repeatable read', 'serializable'])(
    'at %s a transaction that began before a renewal is tied, and one that began before a change of hands fails',
    async (level) => {
      const store = bench.store()
      const key = fresh()
      const token = await granted(store, key, 'a', { ttlMs: 500 })
      const [early, late] = [await bench.session(), await bench.session()]
      for (const session of [early, late]) {
        await session.query(`begin isolation level ${level}`)
        await session.query('select from holdfast_lease')
      }
      expect(await store.renew([{ key, claim: 'a', ttlMs: 3_600_000 }])).toMatchObject([{ is: 'renewed' }])
      await pass(600) // the term that the transactions see is over
      await fence.whileHeld(early, grantOf(key, 'a', token))
      await store.release(grantOf(key, 'a'))
      expect(await errorOf(store.acquire(request(key, 'b'), { timeoutMs: 1_000 }))).toMatchObject({ outcome: 'none' })
      await early.query('commit')
      await granted(store, key, 'b')
      expect(await errorOf(fence.whileHeld(late, grantOf(key, 'a', token)))).toMatchObject({ code: '40001' })
      await late.query('rollback')
    },
  )

  it('negative control: a plain look inside the transaction does not tie it', async () => {
    const store = bench.store()
    const key = fresh()
    const token = await granted(store, key, 'a', { ttlMs: 300 })
    const pool = await bench.session()
    await pool.query('begin')
    const { rows } = await pool.query('select from holdfast_lease where key = $1 and token = $2', [key, token])
    expect(rows).toHaveLength(1)
    await pass(600)
    expect(await store.acquire(request(key, 'b'))).toMatchObject({ is: 'granted' })
    await pool.query('commit') // after another has been granted the lease
  })
})

describe('the story: two registers, one fenced', () => {
  it('C41, C54: two acquisitions by one holder name, the first one pauses: its late write is refused by the fence, and lands in the plain one', async () => {
    const store = postgresStore(bench.pool())
    const key = fresh()
    const holder = 'same-host:1'
    await bench.server.sql('create table plain_register (value text)')
    await bench.server.sql('create table fenced_register (value text)')
    for (const name of ['plain', 'fenced']) await bench.server.sql(`insert into ${name}_register values ('')`)
    const write = async (claim: string, token: number) => {
      const pool = await bench.session()
      await pool.query(`update plain_register set value = '${claim}'`)
      await pool.query('begin')
      try {
        await fence.admit(pool, { key, claim, token, holder })
        await pool.query(`update fenced_register set value = '${claim}'`)
        await pool.query('commit')
      } catch (error) {
        await pool.query('rollback')
        throw error
      }
    }
    const first = await granted(store, key, 'first', { ttlMs: 50, holder })
    await waitUntil('its end', async () => (await store.inspect(key))?.state === 'free')
    const second = await granted(store, key, 'second', { ttlMs: HOUR_MS, holder })
    await write('second', second)
    await expect(write('first', first)).rejects.toBeInstanceOf(StaleTokenError)
    expect(await bench.server.sql('select value from plain_register')).toEqual([{ value: 'first' }])
    expect(await bench.server.sql('select value from fenced_register')).toEqual([{ value: 'second' }])
    await store.close()
  })
})
