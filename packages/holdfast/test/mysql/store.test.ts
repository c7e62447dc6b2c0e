// What is particular to the store in MySQL: which pools it takes, sessions in any state and mode, names, tables and rights.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { freemem } from 'node:os'
import { fileURLToPath } from 'node:url'
import { createPool as createCallbackPool, createConnection } from 'mysql2'
import { createConnection as connect, type Pool, type RowDataPacket } from 'mysql2/promise'
import { describe, expect, it } from 'vitest'
import { InvalidArgumentError, StoreError } from '../../src/lease/errors.js'
import { createLeases } from '../../src/lease/leases.js'
import { type MysqlStore, mysqlSchema, mysqlStore } from '../../src/stores/mysql/index.js'
import { checkVersion } from '../../src/stores/mysql/server.js'
import { Bench, fresh, granted, grantOf, HOUR_MS, lockRow, reasonOf, request } from './harness.js'
import { waitUntil } from './servers.js'

const bench = Bench.here()

describe('what it takes', () => {
  it('refuses what is no promise pool of mysql2, and says what to give', async () => {
    const at = { host: '127.0.0.1', port: bench.server.port, user: 'root', database: 'test' }
    const callbacks = createCallbackPool(at)
    const connection = await connect(at)
    const callbackConnection = createConnection(at)
    const cluster = (await import('mysql2/promise')).createPoolCluster()
    const cases: [unknown, RegExp][] = [
      [callbacks, /answers through callbacks: give pool.promise\(\), or import mysql2\/promise/],
      [callbackConnection, /answers through callbacks/],
      [connection, /one connection/],
      [cluster, /PoolCluster/],
      [undefined, /must be a pool of mysql2\/promise/],
      [{}, /something else/],
      ['mysql://db', /must be a pool/],
    ]
    for (const [pool, message] of cases) {
      expect(() => mysqlStore(pool as Pool)).toThrow(message)
      expect(() => mysqlStore(pool as Pool)).toThrow(InvalidArgumentError)
    }
    await granted(bench.store({}, callbacks.promise() as unknown as Pool), fresh(), 'a')
    callbacks.end()
    callbackConnection.end()
    await connection.end()
    await cluster.end()
  })

  it('refuses options that cannot be right', () => {
    const pool = bench.pool()
    const wrong: [object, RegExp][] = [
      [{ table: '' }, /table must be a name/],
      [{ table: 'a\0b' }, /table must be a name/],
      [{ table: '\u{1F600}' }, /table must be a name/],
      [{ table: 'x'.repeat(47) }, /at most 46/],
      [{ database: 'x '.repeat(10) }, /not ending in a space/],
      [{ retentionMs: -1 }, /retentionMs must be/],
      [{ endedRetentionMs: Number.NaN }, /endedRetentionMs must be/],
    ]
    for (const [options, message] of wrong) expect(() => mysqlStore(pool, options)).toThrow(message)
  })

  it('refuses claims that do not fit, before any command', async () => {
    const error = await reasonOf(bench.store().acquire(request(fresh(), 'x'.repeat(256))))
    expect(error).toBeInstanceOf(InvalidArgumentError)
    await granted(bench.store(), fresh(), 'x'.repeat(255))
  })

  it('knows the servers that it can work with', () => {
    for (const version of [
      '8.0.36',
      '8.4.0',
      '9.1.0',
      '10.6.0-MariaDB',
      '5.5.5-10.11.6-MariaDB-log',
      '11.4.2-MariaDB',
    ]) {
      checkVersion(version)
    }
    for (const version of ['5.7.44', '10.5.9-MariaDB', '5.5.5-10.3.1-MariaDB']) {
      expect(() => checkVersion(version)).toThrow(/MySQL 8.0 or newer, or MariaDB 10.6/)
    }
  })
})

describe('sessions', () => {
  /** Pools whose sessions are as an application may have set them. */
  const sessions: Record<string, string[]> = {
    'autocommit off': ['SET autocommit = 0'],
    'REPEATABLE READ': ['SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ'],
    SERIALIZABLE: ['SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE'],
    'read only by default': ['SET SESSION TRANSACTION READ ONLY'],
    'ANSI_QUOTES, NO_BACKSLASH_ESCAPES': ["SET SESSION sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES'"],
    'not strict': ["SET SESSION sql_mode = ''"],
    'as in Oracle': ["SET SESSION sql_mode = 'ORACLE,SIMULTANEOUS_ASSIGNMENT,PAD_CHAR_TO_FULL_LENGTH'"],
    latin1: ['SET NAMES latin1'],
    'three-byte utf8': ['SET NAMES utf8mb3'],
    'another zone': ["SET time_zone = '-11:30'"],
    'chained commits': ['SET completion_type = 1'],
    'short of rows': ['SET sql_select_limit = 1', 'SET max_statement_time = 30', 'SET sql_safe_updates = 1'],
  }
  for (const [name, settings] of Object.entries(sessions)) {
    it(`works the same, and leaves the session as it was: ${name}`, async () => {
      const pool = bench.pool({ connectionLimit: 3 })
      pool.on('connection', (connection) => {
        const raw = connection as unknown as { query(sql: string): void }
        for (const sql of settings) raw.query(sql)
      })
      const look = `SELECT @@autocommit, @@tx_isolation, @@tx_read_only, @@sql_mode, @@character_set_client, @@time_zone,
        @@innodb_lock_wait_timeout, @@completion_type, @@in_transaction`
      const read = async () => (await pool.query<RowDataPacket[]>(look))[0][0]
      const before = await read()
      const store = bench.store({}, pool)
      const key = `${fresh()} 'ä"\\\u{1F600}`
      const token = await granted(store, key, 'a', { holder: 'é\u{1F600}' })
      await granted(store, key, 'a')
      await Promise.all(['b', 'c', 'd'].map((end) => granted(store, key + end, 'a')))
      expect(await store.acquire(request(key, 'b', { queue: { pollMs: 60_000 } }))).toMatchObject({
        because: 'held',
        holder: 'é\u{1F600}',
        token,
      })
      expect(await store.renew([key, `${key}b`].map((one) => ({ key: one, claim: 'a', ttlMs: HOUR_MS })))).toEqual([
        { is: 'renewed', ttlMs: HOUR_MS },
        { is: 'renewed', ttlMs: HOUR_MS },
      ])
      expect(await bench.store().inspect(key)).toMatchObject({ key, claim: 'a', waiters: [{ holder: 'holder of b' }] })
      expect(await store.release(grantOf(key, 'a'))).toEqual({ is: 'released' })
      await store.withdraw(key, 'c')
      expect(await store.acquire(request(key, 'b'))).toMatchObject({ is: 'granted' })
      expect(await store.acquire(request(key, 'c'))).toMatchObject({ because: 'ended' })
      for (const claim of ['e', 'f', 'g']) {
        await store.release(grantOf(`${key}d`, claim === 'e' ? 'a' : claim === 'f' ? 'e' : 'f'))
        const back = 'UPDATE holdfast_lease SET token = token - 7200000000 WHERE lease_key = ?' // as after two idle hours
        await bench.shared.query(back, [Buffer.from(`${key}d`)])
        await granted(store, `${key}d`, claim)
        expect((await bench.store().inspect(`${key}d`))?.remainingMs).toBeGreaterThan(HOUR_MS / 2)
      }
      const keys: string[] = []
      for await (const record of store.list({ prefix: key })) keys.push(record.key)
      expect(keys).toEqual([key, `${key}b`, `${key}c`, `${key}d`])
      expect(await read()).toEqual(before)
    })
  }

  it('refuses a connection that was released within a transaction, and does not touch what is open on it', async () => {
    const pool = bench.pool({ connectionLimit: 1 })
    const store = bench.store({}, pool)
    const key = fresh()
    await granted(store, key, 'a')
    await pool.query('CREATE TABLE IF NOT EXISTS mine (n INT)')
    await pool.query('START TRANSACTION')
    await pool.query('INSERT INTO mine VALUES (1)')
    const error = await reasonOf(store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }]))
    expect(error).toMatchObject({
      outcome: 'none',
      message: expect.stringMatching(/released it without commit or rollback/),
    })
    await pool.query('COMMIT')
    expect((await pool.query<RowDataPacket[]>('SELECT * FROM mine'))[0]).toHaveLength(1)
  })

  it('a lone acquire or release in such a connection is undone, and done otherwise', async () => {
    const pool = bench.pool({ connectionLimit: 1 })
    const store = bench.store({}, pool)
    const key = fresh()
    await granted(store, key, 'a')
    await store.release(grantOf(key, 'a'))
    await waitUntil('the plain way', async () => {
      await granted(store, key, fresh('claim'))
      const { claim = '' } = (await store.inspect(key)) ?? {}
      await store.release(grantOf(key, claim))
      return true
    })
    await pool.query('START TRANSACTION')
    await store.acquire(request(key, 'b')) // the session is ended, and with it the transaction
    expect(await bench.store().inspect(key)).toMatchObject({ claim: 'b', state: 'held' })
  })
})

describe('tables and rights', () => {
  it('any database and any table', async () => {
    const options = { database: "our `leases`'s", table: 'Ünd "die` Tabelle' }
    const [one, two] = [bench.store(options), bench.store({ ...options, table: 'another' })]
    const key = fresh()
    await granted(one, key, 'a')
    await granted(two, key, 'b')
    expect(await one.inspect(key)).toMatchObject({ claim: 'a' })
    expect(await one.serverId()).toBe(await bench.store(options).serverId())
    expect(await one.serverId()).not.toBe(await two.serverId())
    await bench.pool().query("DROP DATABASE `our ``leases``'s`")
    await granted(one, key, 'a') // made again
  })

  // A Node process takes some 50 MB.
  it.skipIf(freemem() < 4 * 2 ** 30)(
    '50 processes that start at once make the tables together; each key has one holder',
    { timeout: 300_000 },
    async () => {
      await bench.pool().query('CREATE DATABASE bare')
      const program = fileURLToPath(new URL('worker.mjs', import.meta.url))
      const url = `mysql://root@127.0.0.1:${bench.server.port}/bare`
      const workers: ChildProcess[] = []
      try {
        while (workers.length < 50) {
          const some = Array.from({ length: 5 }, () =>
            fork(program, [url, '1'], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] }),
          )
          workers.push(...some)
          await Promise.all(some.map((worker) => once(worker, 'message'))) // loaded, and waiting for the word
        }
        const answers = Promise.all(workers.map(async (worker) => (await once(worker, 'message'))[0] as unknown))
        for (const worker of workers) worker.send('go')
        const said = (await answers) as { granted: string[]; errors: string[] }[]
        expect(said.flatMap(({ errors }) => errors)).toEqual([])
        expect(said.flatMap(({ granted: keys }) => keys).sort()).toEqual(
          Array.from({ length: 10 }, (_, i) => `key ${i}`),
        )
      } finally {
        for (const worker of workers) worker.kill('SIGKILL')
      }
    },
  )

  it('a deadlock is tried again inside the call: it reaches nobody, twice in a row', async () => {
    const table = fresh('loses')
    const pool = bench.pool({ connectionLimit: 1 })
    const store = bench.store({ table }, pool)
    await store.install()
    // A variable of the session is not rolled back: the first two writes lose.
    for (const event of ['INSERT', 'UPDATE']) {
      await pool.query(`CREATE TRIGGER ${table}_${event} BEFORE ${event} ON ${table} FOR EACH ROW BEGIN
        SET @tries = COALESCE(@tries, 0) + 1;
        IF @tries <= 2 THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF;
      END`)
    }
    const lost = async <T>(ask: () => Promise<T>): Promise<T> => {
      await pool.query('SET @tries = 0')
      const answer = await ask()
      const [[row]] = await pool.query<RowDataPacket[]>('SELECT @tries AS tries')
      expect(Number(row?.tries)).toBeGreaterThan(2)
      return answer
    }
    for (const key of ['a', 'b']) {
      await lost(() => granted(store, key, 'one'))
      const renew = () => store.renew([{ key, claim: 'one', ttlMs: 2 * HOUR_MS }])
      expect(await lost(renew)).toMatchObject([{ is: 'renewed' }])
      expect(await lost(() => store.release(grantOf(key, 'one')))).toEqual({ is: 'released' })
    }
  })

  it('the SQL by hand, and then a user with no more rights than that needs', async () => {
    const root = bench.pool({ multipleStatements: true })
    const table = fresh('by_hand')
    const sql = mysqlSchema({ table })
    const run = () => root.query(sql.replaceAll(/DELIMITER \/\/\n|\nDELIMITER ;/g, '').replaceAll('END//', 'END;'))
    const user = fresh('user')
    await root.query(`CREATE USER ${user}@'%'`)
    await root.query(`GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON test.* TO ${user}@'%'`)
    const pool = bench.pool({ user })
    const early = await reasonOf(bench.store({ table, migrate: false }, pool).acquire(request(fresh(), 'a')))
    expect(early).toMatchObject({
      outcome: 'none',
      lasting: true,
      message: expect.stringMatching(/run the SQL of mysqlSchema\(\)/),
    })
    const unable = await reasonOf(bench.store({ table }, pool).acquire(request(fresh(), 'a')))
    expect(unable).toMatchObject({ outcome: 'none', message: expect.stringMatching(/CREATE ROUTINE/) })
    await run()
    await run()
    const store = bench.store({ table, migrate: false }, pool)
    const key = fresh()
    await granted(store, key, 'a')
    await store.release(grantOf(key, 'a'))
    expect(await store.prune({ olderThanMs: 0 })).toBe(1)
  })

  it('trouble that does not pass ends a wait at once, with an error that is lasting: a login, a database, tables, rights', async () => {
    const root = bench.pool()
    const table = fresh('lasting')
    await bench.store({ table }).install()
    const [guarded, reader, caller] = [fresh('guarded'), fresh('reader'), fresh('caller')]
    await root.query(`CREATE USER ${guarded}@'%' IDENTIFIED BY 'right'`)
    await root.query(`CREATE USER ${reader}@'%'`)
    await root.query(`GRANT SELECT ON test.* TO ${reader}@'%'`)
    await root.query(`CREATE USER ${caller}@'%'`)
    await root.query(`GRANT SELECT, EXECUTE ON test.* TO ${caller}@'%'`)
    const troubles: readonly (readonly [number, MysqlStore])[] = [
      [1045, bench.store({}, bench.pool({ user: guarded, password: 'wrong' }))],
      [1044, bench.store({}, bench.pool({ user: guarded, password: 'right' }))],
      [1049, bench.store({}, bench.pool({ database: 'nosuch' }))],
      [1305, bench.store({ table: fresh('missing'), migrate: false })],
      [1370, bench.store({ table }, bench.pool({ user: reader }))],
      [1142, bench.store({ table }, bench.pool({ user: caller }))],
    ]
    for (const [errno, store] of troubles) {
      const leases = createLeases({ store })
      const error = await reasonOf(leases.acquire('k', { waitMs: HOUR_MS }))
      expect(error, String(errno)).toMatchObject({ lasting: true, outcome: 'none', cause: { errno } })
      await leases.close()
    }
  })

  it('a server that is down, and one that only reads, may be better the next time: nothing is lasting there', async () => {
    const down = await reasonOf(bench.store({}, bench.pool({ port: 1 })).inspect('k'))
    const user = fresh('user')
    await bench.pool().query(`CREATE USER ${user}@'%'`)
    await bench.pool().query(`GRANT ALL ON test.* TO ${user}@'%'`)
    await bench.store().install()
    await bench.pool().query('SET GLOBAL read_only = 1')
    const replica = await reasonOf(bench.store({}, bench.pool({ user })).acquire(request(fresh(), 'a')))
    await bench.pool().query('SET GLOBAL read_only = 0')
    expect(down).toMatchObject({ lasting: false, outcome: 'none' })
    expect(replica).toMatchObject({ lasting: false, outcome: 'none', cause: { errno: 1290 } })
  })

  it('a token beyond 2^53 - 1 is refused, never rounded', async () => {
    const store = bench.store()
    const [full, wrong, good] = [fresh(), fresh(), fresh()]
    for (const key of [full, wrong, good]) {
      await granted(store, key, 'a')
      await store.release(grantOf(key, 'a'))
    }
    const set = 'UPDATE holdfast_lease SET token = ? WHERE lease_key = ?'
    await bench.pool().query(set, ['9007199254740991', full])
    await bench.pool().query(set, ['9007199254740993', wrong])
    const answers = await Promise.allSettled([full, good, wrong].map((key) => store.acquire(request(key, 'b'))))
    expect(answers.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected'])
    expect(await reasonOf(store.acquire(request(full, 'c')))).toMatchObject({ outcome: 'none' })
    const look = 'SELECT claim FROM holdfast_lease WHERE lease_key = ?'
    const [[row]] = await bench.shared.query<RowDataPacket[]>(look, [Buffer.from(full)])
    expect(String(row?.claim)).toBe('') // nobody was granted what could not be told
    expect(await reasonOf(store.inspect(wrong))).toBeInstanceOf(StoreError)
  })

  it('pruning forgets what is free, and tokens go on rising', async () => {
    const store = bench.store({ table: fresh('pruned') })
    const keys = Array.from({ length: 1_200 }, () => fresh())
    const tokens = await Promise.all(keys.map((key) => granted(store, key, 'a')))
    await Promise.all(keys.slice(1).map((key) => store.release(grantOf(key, 'a'))))
    expect(await store.prune({ olderThanMs: 60_000 })).toBe(0)
    expect(await store.prune({ olderThanMs: 0 })).toBe(keys.length - 1)
    const again = await Promise.all(keys.slice(1).map((key) => granted(store, key, 'b')))
    expect(Math.min(...again)).toBeGreaterThan(Math.max(...tokens))
  })

  it('pruning leaves a key that somebody waits for or that remembers a claim, a row that is locked, and a token ahead of the clock', async () => {
    const table = fresh('prunes')
    const store = bench.store({ table })
    await granted(store, 'waited for', 'one')
    await store.acquire(request('waited for', 'two', { queue: { pollMs: HOUR_MS } }))
    await granted(store, 'ahead', 'one', { tokenFloor: 9e15 })
    for (const key of ['waited for', 'ahead']) await store.release(grantOf(key, 'one'))
    await store.withdraw('remembers', 'late')
    expect(await store.prune({ olderThanMs: 0 })).toBe(0)
    expect(await store.acquire(request('waited for', 'three'))).toMatchObject({ because: 'reserved' })
    expect(await store.acquire(request('remembers', 'late'))).toMatchObject({ because: 'ended' })
    expect(await granted(store, 'ahead', 'two')).toBe(9e15 + 1)
    expect(await granted(store, 'another', 'one')).toBeLessThan(9e15)
    await store.release(grantOf('another', 'one'))
    const sits = await lockRow(bench.pool(), 'another', table)
    expect(await store.prune({ olderThanMs: 0 })).toBe(0)
    await sits.letGo()
    expect(await store.prune({ olderThanMs: 0 })).toBe(1)
  })

  it('what is done together is decided as alone: ended, revoked, expired, held and waited for', async () => {
    const store = bench.store()
    const keys = [fresh(), fresh(), fresh()]
    const all = <T>(ask: (key: string) => Promise<T>) => Promise.all(keys.map(ask))
    const renewed = async () => (await store.renew(keys.map((key) => ({ key, claim: 'b', ttlMs: HOUR_MS })))) as unknown
    await all((key) => granted(store, key, 'a'))
    await all((key) => store.release(grantOf(key, 'a')))
    for (const answer of await all((key) => store.acquire(request(key, 'a'))))
      expect(answer).toMatchObject({ because: 'ended' })
    await all((key) => granted(store, key, 'b'))
    for (const answer of await all((key) => store.acquire(request(key, 'c'))))
      expect(answer).toMatchObject({ because: 'held' })
    await all((key) => store.revoke(key))
    expect(await renewed()).toEqual(keys.map(() => ({ is: 'lost', reason: 'revoked' })))
    await all((key) => store.release(grantOf(key, 'b')))
    await all((key) => granted(store, key, 'd', { ttlMs: 300 }))
    await all((key) => store.acquire(request(key, 'e', { queue: { pollMs: HOUR_MS } })))
    await waitUntil('they have expired', async () =>
      (await all((key) => store.inspect(key))).every((it) => it?.state === 'free'),
    )
    for (const answer of await all((key) => store.release(grantOf(key, 'd'))))
      expect(answer).toMatchObject({ is: 'lost' })
    for (const answer of await all((key) => store.acquire(request(key, 'f'))))
      expect(answer).toMatchObject({ because: 'reserved' })
    await all((key) => granted(store, key, 'e'))
    await all((key) => store.acquire(request(key, 'f', { queue: { pollMs: HOUR_MS } })))
    await all((key) => store.release(grantOf(key, 'e')))
    const kept = await all(async (key) => {
      const look = 'SELECT reserved_us FROM holdfast_lease WHERE lease_key = ?'
      return (await bench.shared.query<RowDataPacket[]>(look, [Buffer.from(key)]))[0][0]?.reserved_us
    })
    expect(Math.min(...kept)).toBeGreaterThan(0)
    for (const answer of await all((key) => store.acquire(request(key, 'g'))))
      expect(answer).toMatchObject({ because: 'reserved' })
    await all((key) => granted(store, key, 'f', { ttlMs: 200 }))
    await waitUntil('they have expired again', async () =>
      (await all((key) => store.inspect(key))).every((it) => it?.state === 'free'),
    )
    const late = await store.renew(keys.map((key) => ({ key, claim: 'f', ttlMs: HOUR_MS })))
    expect(late).toEqual(keys.map(() => ({ is: 'lost', reason: 'expired' })))
  })

  it('of many shared operations one that is locked by others keeps nobody waiting', async () => {
    const store = bench.store()
    const keys = Array.from({ length: 30 }, () => fresh())
    for (const key of keys) await granted(store, key, 'a')
    const [locked = '', ...others] = keys
    const sits = await lockRow(bench.pool(), locked)
    const outcomes = await store.renew(keys.map((key) => ({ key, claim: 'a', ttlMs: HOUR_MS })))
    expect(outcomes.map(({ is }) => is)).toEqual(['unknown', ...others.map(() => 'renewed')])
    const waits = store.release(grantOf(locked, 'a'))
    for (const answer of await Promise.all(others.map((key) => store.release(grantOf(key, 'a'))))) {
      expect(answer.is).toBe('released')
    }
    await sits.letGo()
    expect(await waits).toEqual({ is: 'released' })
  })
})
