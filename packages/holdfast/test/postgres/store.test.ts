// What the Postgres store does with its server: any name, any default of the session, tables made by itself or by hand, tokens that
// are exact, and nothing that belongs to somebody else. Cases of the field by number.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { InvalidArgumentError, StoreError } from '../../src/lease/errors.js'
import { createLeases } from '../../src/lease/leases.js'
import {
  type PostgresStore,
  type PostgresStoreOptions,
  postgresSchema,
  postgresStore,
} from '../../src/stores/postgres/index.js'
import { pgPool } from './clients.js'
import { Bench, errorOf, fresh, granted, grantOf, HOUR_MS, request } from './harness.js'
import { waitUntil } from './servers.js'

const bench = Bench.here()

describe('names', () => {
  it.each<[string, PostgresStoreOptions]>([
    ['of another schema', { schema: 'leases' }],
    ['of another table', { table: 'my_leases' }],
    ['that need quotes', { schema: `it's "quoted" \\ here`, table: 'Größe; drop table x --' }],
    ['that are as long as they may be', { schema: 's'.repeat(63), table: 't'.repeat(45) }],
    ['of keywords', { schema: 'select', table: 'table' }],
  ])('tables %s', async (_, names) => {
    const store = bench.store(names)
    const key = fresh()
    const token = await granted(store, key, 'a')
    expect(await store.acquire(request(key, 'b', { queue: { pollMs: 1_000 } }))).toMatchObject({ is: 'held', token })
    expect(await store.release(grantOf(key, 'a'))).toEqual({ is: 'released' })
    await store.withdraw(key, 'b')
    expect((await store.inspect(key))?.state).toBe('free')
    const [there] = await bench.server.sql('select to_regclass($1) as is', [
      `"${(names.schema ?? 'public').replaceAll('"', '""')}"."${(names.table ?? 'holdfast_lease').replaceAll('"', '""')}"`,
    ])
    expect(there?.is).not.toBeNull()
  })

  it('C07: two stores in one schema share nothing, also when their tables begin alike', async () => {
    const stores = ['lease', 'lease_waiter_', 'lease2'].map((table) => bench.store({ table }))
    const key = fresh()
    await Promise.all(stores.map((store) => granted(store, key, 'a')))
  })

  it('C07: plain advisory locks of the application, whatever their number, are no leases, and take none', async () => {
    const pool = bench.pool({ max: 1 })
    await pool.query('select pg_advisory_lock(n) from generate_series(0, 200) n')
    const store = bench.store()
    const keys = Array.from({ length: 200 }, (_, n) => String(n))
    await Promise.all(keys.map((key) => granted(store, key, fresh('claim'))))
  })

  it.each<[string, object]>([
    ['schema', { schema: '' }],
    ['schema', { schema: 'a\0b' }],
    ['schema', { schema: 's'.repeat(64) }],
    ['schema', { schema: 'a\ud800' }],
    ['table', { table: 't'.repeat(46) }],
    ['table', { table: 'ü'.repeat(23) }],
    ['table', { table: 7 }],
    ['table', { table: 'a\udc00' }],
    ['retentionMs', { retentionMs: -1 }],
    ['endedRetentionMs', { endedRetentionMs: Number.NaN }],
    ['listen', { listen: {} }],
    ['listen', { listen: true }],
  ])('%s that cannot be right is refused: %j', (option, options) => {
    const pool = bench.pool()
    expect(() => postgresStore(pool, options)).toThrow(InvalidArgumentError)
    expect(() => postgresStore(pool, options)).toThrow(option)
  })

  it('C06, C54: names and claims with quotes, brackets, backslashes and JSON in them are letters', async () => {
    const store = bench.store({ table: 'letters' })
    const odd = ['"', '\\', '{"k":["x"]}', "'; drop table letters; --", '$1', '\u2028', '\u0001', '{}', 'a,b', 'NULL']
    await Promise.all(odd.map((name) => granted(store, name, `claim ${name}`)))
    for (const name of odd) expect(await store.inspect(name)).toMatchObject({ key: name, claim: `claim ${name}` })
    expect(await Promise.all(odd.map((name) => store.release(grantOf(name, `claim ${name}`))))).toEqual(
      odd.map(() => ({ is: 'released' })),
    )
  })
})

describe('what is given to the store', () => {
  it('a single client of pg is refused, with the reason, and so is what is no client', async () => {
    const { Client } = await import('pg').then(({ default: pg }) => pg)
    expect(() => postgresStore(new Client() as never)).toThrow(/not a single Client/)
    for (const no of [undefined, null, {}, 'postgres://x', () => {}, { query() {} }]) {
      expect(() => postgresStore(no as never)).toThrow(InvalidArgumentError)
    }
  })

  it('anything with connect and query is a pool: one that answers by promises, and knows no client of its own', async () => {
    const pool = bench.pool({ max: 3 })
    const store = postgresStore({ connect: () => pool.connect(), query: (text, values) => pool.query(text, values) })
    const key = fresh()
    const token = await granted(store, key, 'a')
    expect(await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toEqual([{ is: 'renewed', ttlMs: HOUR_MS }])
    const left = new AbortController()
    const watch = store.watch?.(key, { claim: 'b', signal: left.signal })[Symbol.asyncIterator]()
    await watch?.next() // it listens, on a connection of the pool
    const told = watch?.next()
    await store.release(grantOf(key, 'a', token))
    expect(await told).toMatchObject({ done: false })
    left.abort()
    await store.close()
    await waitUntil('its connections are back', () => pool.idleCount === pool.totalCount)
  })

  it('its pool stays open when the store is closed', async () => {
    const pool = bench.pool()
    const store = postgresStore(pool)
    await granted(store, fresh(), 'a')
    await store.close()
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
    await expect(store.acquire(request(fresh(), 'a'))).rejects.toMatchObject({ outcome: 'none' })
  })
})

describe('defaults of the session', () => {
  it.each([
    'default_transaction_isolation=serializable',
    'default_transaction_isolation=repeatable\\ read',
    'default_transaction_read_only=on',
  ])('%s: verbs decide on committed rows all the same', async (setting) => {
    const pool = bench.pool({ options: `-c ${setting}` })
    const table = fresh('defaults')
    const [near, far] = [bench.store({ table }, pool), bench.store({ table })]
    await near.install().catch(() => far.install())
    const keys = Array.from({ length: 20 }, () => fresh())
    for (let round = 0; round < 5; round++) {
      const claims = keys.map((key) => `${key} ${round}`)
      const answers = await Promise.all(
        keys.flatMap((key, i) => [near, far].map((store, j) => store.acquire(request(key, `${claims[i]} ${j}`)))),
      )
      expect(answers.filter(({ is }) => is === 'granted')).toHaveLength(keys.length)
      await Promise.all(
        keys.flatMap((key, i) => [near, far].map((store, j) => store.release(grantOf(key, `${claims[i]} ${j}`)))),
      )
    }
  })

  it('C25: time zones, in sessions and in processes, make no difference', async () => {
    const zones = ['Asia/Seoul', 'America/New_York', 'Europe/Berlin', 'UTC']
    const stores = zones.map((zone) => bench.store({}, bench.pool({ options: `-c timezone=${zone}` })))
    const key = fresh()
    const tokens: number[] = []
    for (const [i, store] of stores.entries()) {
      tokens.push(await granted(store, key, `claim ${i}`, { ttlMs: 60_000 }))
      for (const other of stores) {
        const record = await other.inspect(key)
        expect(record).toMatchObject({ state: 'held', claim: `claim ${i}` })
        expect(record?.remainingMs).toBeGreaterThan(30_000)
        expect(record?.remainingMs).toBeLessThanOrEqual(60_000)
      }
      await store.release(grantOf(key, `claim ${i}`))
    }
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b))
  })

  it('C25, negative control: a column without a zone gives another hour to each session', async () => {
    const read = async (zone: string) => {
      const pool = bench.pool({ options: `-c timezone=${zone}` })
      await pool.query('create table if not exists naive_zone (at timestamp)')
      await pool.query('insert into naive_zone select now() where not exists (select from naive_zone)')
      const { rows } = await pool.query(
        'select abs(extract(epoch from now()::timestamp - at))::float8 as off from naive_zone',
      )
      return Number(rows[0].off)
    }
    await read('UTC')
    expect(await read('Asia/Seoul')).toBeGreaterThan(8 * 3_600)
  })

  it('statement_timeout and lock_timeout of the session end a call with outcome none', async () => {
    const store = bench.store({}, bench.pool({ options: '-c statement_timeout=1' }))
    const key = fresh()
    const blocker = bench.pool({ max: 1 })
    await granted(bench.store(), key, 'x', { ttlMs: 1 })
    await blocker.query('begin')
    await blocker.query('select from holdfast_lease where key = $1 for update', [key])
    expect(await errorOf(store.acquire(request(key, 'a'), { timeoutMs: 500 }))).toMatchObject({ outcome: 'none' })
    await blocker.query('rollback')
  })
})

describe('what lost to others', () => {
  it.each(['40001', '40P01'])(
    'is tried again inside the call: SQLSTATE %s reaches nobody, twice in a row',
    async (code) => {
      const table = fresh('loses')
      const store = bench.store({ table })
      await store.install()
      // A sequence is not rolled back: of three statements two lose.
      await bench.server.sql(`create sequence ${table}_tries`)
      await bench.server.sql(`create function ${table}_loses() returns trigger language plpgsql as $$ begin
      if nextval('${table}_tries') % 3 <> 0 then raise exception 'lost to others' using errcode = '${code}'; end if;
      return new;
    end $$`)
      await bench.server.sql(
        `create trigger loses before insert or update on ${table} for each statement execute function ${table}_loses()`,
      )
      for (const key of ['a', 'b']) {
        await granted(store, key, 'one')
        expect(await store.renew([{ key, claim: 'one', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
        expect(await store.release(grantOf(key, 'one'))).toEqual({ is: 'released' })
      }
      const [row] = await bench.server.sql<{ n: string }>(`select last_value as n from ${table}_tries`)
      expect(Number(row?.n)).toBeGreaterThan(12)
    },
  )
})

describe('tables and rights', () => {
  it('migrate: false makes nothing, and says what to do; the SQL by hand, twice, is enough', async () => {
    const names = { schema: fresh('byhand') }
    const store = bench.store({ ...names, migrate: false })
    const error = await errorOf(store.acquire(request('k', 'a')))
    expect(error).toBeInstanceOf(StoreError)
    expect(error).toMatchObject({ outcome: 'none', lasting: true, message: expect.stringMatching(/postgresSchema/) })
    await bench.server.sql(postgresSchema(names))
    await bench.server.sql(postgresSchema(names))
    await granted(store, 'k', 'a')
  })

  it('a role without rights is told which it needs; with them it needs no more', async () => {
    await bench.server.sql('create role worker login')
    const table = fresh('rights')
    const owner = bench.store({ table })
    await owner.install()
    const worker = bench.store(
      { table },
      bench.pool({ user: 'worker' }, bench.server.url.replace('postgres@', 'worker@')),
    )
    const error = await errorOf(worker.acquire(request('k', 'a')))
    expect(error).toMatchObject({
      outcome: 'none',
      lasting: true,
      message: expect.stringMatching(/select, insert, update and delete/),
    })
    for (const ending of ['', '_waiter', '_ended', '_meta']) {
      await bench.server.sql(`grant select, insert, update, delete on ${table}${ending} to worker`)
    }
    await granted(worker, 'k', 'a')
    await worker.acquire(request('k', 'b', { queue: { pollMs: 1_000 } }))
    await worker.release(grantOf('k', 'a'))
    await worker.withdraw('k', 'b')
    expect(await worker.serverId()).toBe(await owner.serverId())
    expect(await worker.prune({ olderThanMs: 0 })).toBe(0) // a withdrawn claim is remembered
  })

  it('a database that is not there, and a server that is not there, are told with outcome none', async () => {
    const nowhere = [
      bench.pool({}, bench.server.url.replace(/postgres$/, 'nosuch')),
      bench.pool({}, 'postgres://postgres@127.0.0.1:1/postgres'),
    ]
    for (const pool of nowhere) {
      expect(await errorOf(bench.store({}, pool).acquire(request('k', 'a')))).toMatchObject({
        outcome: 'none',
        message: expect.stringMatching(/was not sent/),
      })
    }
  })
})

describe('trouble that does not pass', () => {
  const poolOf = (login: string) => bench.pool({}, bench.server.url.replace('postgres@', `${login}@`))

  it('ends a wait at once, with an error that is lasting: a password, a role, a database, tables, rights', async () => {
    await bench.server.sql('create role barred nologin')
    await bench.server.sql('create role reader login')
    await bench.server.sql(`create role guarded login password 'right'`)
    const rules = join(bench.server.folder, 'data', 'pg_hba.conf')
    writeFileSync(rules, `host all guarded 127.0.0.1/32 scram-sha-256\n${readFileSync(rules, 'utf8')}`)
    await bench.server.sql('select pg_reload_conf()')
    const guarded = poolOf('guarded:wrong')
    await waitUntil('the rule', () => errorOf(guarded.query('select 1')))
    const table = fresh('lasting')
    await bench.store({ table }).install()
    const troubles: readonly (readonly [string, PostgresStore])[] = [
      ['28P01', bench.store({}, guarded)],
      ['28000', bench.store({}, poolOf('barred'))],
      ['3D000', bench.store({}, bench.pool({}, bench.server.url.replace(/postgres$/, 'nosuch')))],
      ['42883', bench.store({ table: fresh('missing'), migrate: false })],
      ['3F000', bench.store({ schema: fresh('missing'), migrate: false })],
      ['42501', bench.store({ table }, poolOf('reader'))],
      ['42501', bench.store({ schema: fresh('forbidden') }, poolOf('reader'))],
    ]
    for (const [code, store] of troubles) {
      const leases = createLeases({ store })
      const error = await errorOf(leases.acquire('k', { waitMs: HOUR_MS }))
      expect(error, code).toMatchObject({ lasting: true, outcome: 'none', cause: { code } })
      await leases.close()
    }
  })

  it('a server that is down, and one that is a standby, may be better the next time: nothing is lasting there', async () => {
    const down = await errorOf(bench.store({}, bench.pool({}, 'postgres://postgres@127.0.0.1:1/postgres')).inspect('k'))
    const standby = await errorOf(
      bench.store({}, bench.pool({ options: '-c default_transaction_read_only=on' })).install(),
    )
    for (const error of [down, standby]) expect(error).toMatchObject({ lasting: false, outcome: 'none' })
  })
})

describe('tokens', () => {
  it('C54: beyond 2^53 - 1 they are refused, in every verb that would show one, never rounded', async () => {
    const store = bench.store()
    for (const token of ['9007199254740992', '9007199254740993', '9223372036854775806']) {
      const key = fresh()
      await granted(store, key, 'a')
      await store.release(grantOf(key, 'a'))
      await bench.server.sql('update holdfast_lease set token = $2 where key = $1', [key, token])
      for (const show of [() => store.acquire(request(key, 'b')), () => store.inspect(key)]) {
        expect(await errorOf(show())).toMatchObject({ outcome: 'none', message: expect.stringMatching(/2\^53/) })
      }
    }
    const key = fresh()
    await granted(store, key, 'a', { tokenFloor: Number.MAX_SAFE_INTEGER })
    await store.release(grantOf(key, 'a'))
    for (const keys of [[key], [key, fresh()]]) {
      const answers = await Promise.allSettled(keys.map((one) => store.acquire(request(one, fresh('claim')))))
      expect(answers.map(({ status }) => status)).toEqual(['rejected', ...keys.slice(1).map(() => 'fulfilled')])
      expect(await bench.server.sql('select claim from holdfast_lease where key = $1', [key])).toEqual([{ claim: '' }])
    }
  })

  it('C54: rise above what was pruned, also when the clock seems to have gone back since', async () => {
    const table = fresh('pruned')
    const store = bench.store({ table })
    const keys = Array.from({ length: 2_500 }, (_, i) => `key ${i}`)
    const tokens = await Promise.all(keys.map((key) => granted(store, key, 'a')))
    await Promise.all(keys.slice(1).map((key) => store.release(grantOf(key, 'a'))))
    expect(await store.prune({ olderThanMs: 0 })).toBe(keys.length - 1)
    await bench.server.sql(`update ${table}_meta set pruned_token = $1`, [String(Number.MAX_SAFE_INTEGER - 10_000)])
    expect(await granted(store, 'key 1', 'b')).toBe(Number.MAX_SAFE_INTEGER - 9_999)
    const many = await Promise.all(['x', 'y', 'z'].map((key) => granted(store, key, 'b')))
    for (const token of many) expect(token).toBeGreaterThanOrEqual(Number.MAX_SAFE_INTEGER - 9_999)
    expect(Math.max(...tokens)).toBeLessThan(Number.MAX_SAFE_INTEGER - 10_000)
  })

  it('pruning waits for nobody: a row that somebody has locked is left for the next time', async () => {
    const table = fresh('prunes')
    const store = bench.store({ table })
    for (const key of ['a', 'b', 'c']) {
      await granted(store, key, 'one')
      await store.release(grantOf(key, 'one'))
    }
    const sits = await bench.session()
    await sits.query('begin')
    await sits.query(`select from ${table} where key = 'b' for update`)
    expect(await store.prune({ olderThanMs: 0 })).toBe(2)
    await sits.query('rollback')
    expect(await store.prune({ olderThanMs: 0 })).toBe(1)
  })

  it('pruning leaves a key that somebody waits for, and a token that is ahead of the clock', async () => {
    const store = bench.store({ table: fresh('prunes') })
    await granted(store, 'waited for', 'one')
    await store.acquire(request('waited for', 'two', { queue: { pollMs: HOUR_MS } }))
    await granted(store, 'ahead', 'one', { tokenFloor: 9e15 })
    await store.release(grantOf('waited for', 'one'))
    await store.release(grantOf('ahead', 'one'))
    expect(await store.prune({ olderThanMs: 0 })).toBe(0)
    expect(await store.acquire(request('waited for', 'three'))).toMatchObject({ because: 'reserved' })
    expect(await granted(store, 'ahead', 'two')).toBe(9e15 + 1)
    expect(await granted(store, 'another', 'one')).toBeLessThan(9e15)
  })

  it('C54: 100,000 names once each leave nothing behind when their retention is over', async () => {
    const table = fresh('many')
    const store = bench.store({ table, retentionMs: 0 })
    for (let n = 0; n < 20; n++) {
      const keys = Array.from({ length: 500 }, (_, i) => `name ${n} ${i}`)
      await Promise.all(keys.map((key) => granted(store, key, 'a')))
      await Promise.all(keys.map((key) => store.release(grantOf(key, 'a'))))
    }
    const [row] = await bench.server.sql<{ n: number }>(`select count(*)::int as n from ${table}`)
    expect(row?.n).toBeLessThan(9_000) // 10,000 names here, pruned as acquires go on
    await store.prune({ olderThanMs: 0 })
    expect(await bench.server.sql(`select key from ${table}`)).toEqual([])
  })
})

describe('one holder name, two claims', () => {
  it('C41: two acquisitions by one holder are two claims; the second waits, and ending one leaves the other', async () => {
    const store = bench.store()
    const key = fresh()
    const same = { holder: 'host:1' }
    await granted(store, key, 'first', same)
    expect(await store.acquire(request(key, 'second', same))).toMatchObject({ is: 'held', holder: 'host:1' })
    expect(await store.release(grantOf(key, 'second'))).toMatchObject({ is: 'lost' })
    expect(await store.inspect(key)).toMatchObject({ state: 'held', claim: 'first' })
  })

  it('C40, C41: a thousand acquires and releases leave no session lock, and no open transaction', async () => {
    const pool = pgPool(bench.server.url, { max: 5, application_name: 'c41' })
    const store = postgresStore(pool)
    const key = fresh()
    for (let round = 0; round < 20; round++) {
      const claims = Array.from({ length: 50 }, (_, i) => `claim ${round} ${i}`)
      await Promise.all(claims.map((claim) => store.acquire(request(key, claim))))
      await Promise.all(claims.map((claim) => store.release(grantOf(key, claim))))
    }
    const locks = await bench.server.sql(
      "select * from pg_locks where locktype = 'advisory' and pid in (select pid from pg_stat_activity where application_name = 'c41')",
    )
    expect(locks).toEqual([])
    const open = await bench.server.sql("select pid from pg_stat_activity where state like 'idle in transaction%'")
    expect(open).toEqual([])
    expect(pool.totalCount).toBeLessThanOrEqual(5)
    expect(pool.idleCount).toBe(pool.totalCount)
    await store.close()
    await pool.end()
  })
})

describe('a statement for many', () => {
  it('spoilt by one name that the database cannot carry, it fails for that one only', async () => {
    await bench.server.sql("create database latin encoding 'LATIN1' template template0 lc_collate 'C' lc_ctype 'C'")
    const store = bench.store({}, bench.pool({}, bench.server.url.replace(/postgres$/, 'latin')))
    await store.install()
    const keys = ['a', 'ä', '名', 'b', 'c']
    const answers = await Promise.allSettled(keys.map((key) => store.acquire(request(key, 'a'))))
    expect(answers.map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
    ])
    const [error] = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []))
    expect(error).toMatchObject({ outcome: 'none', message: expect.stringMatching(/UTF8/) })
  })

  it('decides on what a row is when it is locked, not on what it was when the statement began', async () => {
    const table = fresh('changed')
    const [store, other] = [bench.store({ table }), bench.store({ table })]
    const [stopped, freed, taken] = [fresh(), fresh(), fresh()]
    for (const key of [stopped, freed, taken]) await granted(store, key, 'old')
    for (const key of [stopped, taken]) await store.release(grantOf(key, 'old'))
    // A statement that comes to the row of `stopped` waits there for a lock that is ours.
    await bench.server.sql(`create function ${table}_stops() returns trigger language plpgsql as $$ begin
      if new.key = '${stopped}' then perform pg_advisory_xact_lock(4711); end if;
      return new;
    end $$`)
    await bench.server.sql(
      `create trigger stops before update on ${table} for each row execute function ${table}_stops()`,
    )
    const ours = bench.pool({ max: 1 })
    await ours.query('select pg_advisory_lock(4711)')
    const asked = Promise.all([stopped, freed, taken].map((key) => store.acquire(request(key, 'new'))))
    await waitUntil('the statement that waits', async () => {
      const waits = await bench.server.sql("select from pg_locks where locktype = 'advisory' and not granted")
      return waits.length > 0
    })
    const before = await granted(other, fresh(), 'clock')
    await other.release(grantOf(freed, 'old'))
    const theirs = await granted(other, taken, 'theirs')
    await ours.query('select pg_advisory_unlock(4711)')
    const answers = await asked
    expect(answers).toMatchObject([
      { is: 'granted' },
      { is: 'granted' },
      { is: 'held', because: 'held', holder: 'holder of theirs', token: theirs },
    ])
    expect(answers[1]?.token).toBeGreaterThan(before)
    expect(await other.inspect(freed)).toMatchObject({ claim: 'new', changes: 2, token: answers[1]?.token })
    expect(await other.inspect(taken)).toMatchObject({ claim: 'theirs', changes: 2 })
  })

  it('looks each key up, also when its plan was made while the table was small', async () => {
    const table = fresh('grown')
    await bench.store({ table }).install()
    const pool = bench.pool({ max: 1 })
    const store = bench.store({ table, listen: false }, pool)
    await bench.server.sql(`alter table ${table} set (autovacuum_enabled = off)`)
    const pair = async (keys: readonly string[], claim: string) => {
      await Promise.all(keys.map((key) => granted(store, key, claim)))
      await store.renew(keys.map((key) => ({ key, claim, ttlMs: HOUR_MS })))
      await Promise.all(keys.map((key) => store.release(grantOf(key, claim))))
    }
    await granted(store, 'one', 'a')
    await bench.server.sql(`analyze ${table}`)
    for (let n = 0; n < 8; n++) await pair(['k1', 'k2', `old ${n}`], `early ${n}`)
    await bench.server.sql(`insert into ${table} (key, token) select 'more' || n, 1 from generate_series(1, 5000) n`)
    const reads = async () => {
      await pool.query('select pg_stat_force_next_flush()')
      const { rows } = await pool.query(
        'select coalesce(sum(idx_tup_read + seq_tup_read), 0)::int as n from pg_stat_user_indexes i join pg_stat_user_tables t using (relid) where i.relname = $1',
        [table],
      )
      return rows[0].n as number
    }
    const before = await reads()
    await pair(['k1', 'k2', 'new 1', 'new 2'], 'late')
    expect(await waitUntil('the count', async () => Math.max(0, (await reads()) - before))).toBeLessThan(100)
  })

  it('gives the same answers as one for each: random histories in both, side by side', async () => {
    const [together, apart] = [bench.store({ table: fresh('together') }), bench.store({ table: fresh('apart') })]
    const keys = Array.from({ length: 12 }, (_, i) => `key ${i}`)
    let seed = 7
    const draw = (n: number) => {
      seed = (seed * 1103515245 + 12345) % 2 ** 31
      return Math.floor((seed / 2 ** 31) * n)
    }
    const plain = (answer: unknown) =>
      JSON.parse(JSON.stringify(answer, (name, value) => (['token', 'remainingMs'].includes(name) ? undefined : value)))
    for (let round = 0; round < 60; round++) {
      const verb = draw(4)
      const asked = keys.map((key) => ({ key, claim: `${'abc'[draw(3)]}${Math.floor(round / 10)}`, kind: draw(5) }))
      const ask = (store: typeof together) => async (one: (typeof asked)[number]) => {
        const { key, claim, kind } = one
        if (verb === 0 || verb === 1) {
          const more = [
            {},
            {},
            { queue: { pollMs: HOUR_MS } },
            { replaces: `b${Math.floor(round / 10)}` },
            { meta: 1 },
          ][kind]
          return store.acquire(request(key, claim, more))
        }
        if (verb === 2) return store.release(grantOf(key, claim))
        return kind === 0 ? store.withdraw(key, claim) : (await store.renew([{ key, claim, ttlMs: HOUR_MS }]))[0]
      }
      const one = await Promise.all(asked.map(ask(together)))
      const other: unknown[] = []
      for (const op of asked) other.push(await ask(apart)(op))
      expect(plain(one), `round ${round}, verb ${verb}`).toEqual(plain(other))
    }
  })
})
