// Faults on a real server: killed in every phase, sessions ended, rows locked across a term, the clock stepped, pools that have nothing to
// give. What was written under a grant is read afterwards, with a fence and without.
import type { Pool, RowDataPacket } from 'mysql2/promise'
import { describe, expect, it } from 'vitest'
import { createLeases, type Leases } from '../../src/index.js'
import { StoreError } from '../../src/lease/errors.js'
import { mysqlFence, mysqlStore } from '../../src/stores/mysql/index.js'
import { Bench, fresh, granted, grantOf, HOUR_MS, lockRow, reasonOf, request } from './harness.js'
import { pass, waitUntil } from './servers.js'

const fence = mysqlFence()
const asInstalled = Bench.here()
const otherwise = Bench.here({
  args: ['--sysdate-is-now', '--default-time-zone=+05:30', '--transaction-isolation=SERIALIZABLE'],
})

/** Clients that take turns on one key, and write under their grants into two logs: one behind the fence, one without. */
class Writers {
  readonly #pools: Pool[]
  readonly #leases: Leases[]
  readonly #key: string
  readonly problems: unknown[] = []
  written = 0
  #stop = false
  #work: Promise<unknown> = Promise.resolve()

  constructor(bench: Bench, key: string, count: number) {
    this.#key = key
    this.#pools = Array.from({ length: count }, () => bench.pool({ connectionLimit: 3 }))
    this.#leases = this.#pools.map((pool) => createLeases({ store: mysqlStore(pool), ttlMs: 2_000 }))
  }

  static async install(pool: Pool): Promise<void> {
    await fence.install(pool)
    await pool.query('CREATE TABLE fenced_log (place INT AUTO_INCREMENT PRIMARY KEY, token BIGINT)')
    await pool.query('CREATE TABLE plain_log (place INT AUTO_INCREMENT PRIMARY KEY, token BIGINT)')
  }

  start(): void {
    this.#work = Promise.all(this.#leases.map((leases, n) => this.#one(leases, this.#pools[n])))
  }

  async #one(leases: Leases, pool: Pool | undefined): Promise<void> {
    while (!this.#stop) {
      try {
        await leases.hold(this.#key, { waitMs: 1_000 }, async ({ grant }) => {
          const tx = await pool?.getConnection()
          if (tx === undefined) return
          try {
            await tx.query('INSERT INTO plain_log (token) VALUES (?)', [grant.token])
            await tx.beginTransaction()
            await fence.admit(tx, grant)
            await tx.query('INSERT INTO fenced_log (token) VALUES (?)', [grant.token])
            await tx.commit()
            this.written++
          } finally {
            tx.destroy()
          }
        })
      } catch (error) {
        this.problems.push(error)
        await pass(20)
      }
    }
  }

  async stop(): Promise<void> {
    this.#stop = true
    await this.#work
    await Promise.all(this.#leases.map((leases) => leases.close()))
  }
}

/** Whether the tokens of a log never fall. */
async function rises(pool: Pool, table: string): Promise<boolean> {
  const [rows] = await pool.query<RowDataPacket[]>(`SELECT token FROM ${table} ORDER BY place`)
  expect(rows.length).toBeGreaterThan(10)
  return rows.every((row, n) => n === 0 || row.token >= rows[n - 1]?.token)
}

describe('a server that is killed', () => {
  const bench = Bench.here()

  it('in every phase: nothing that was granted is forgotten, tokens rise, and nobody else gets in before', async () => {
    const key = fresh()
    const store = bench.store({}, bench.pool())
    const tokens: number[] = []
    const restart = async () => {
      await bench.server.kill()
      await bench.server.start()
    }
    // held
    tokens.push(await granted(store, key, 'a', { ttlMs: 120_000 }))
    await restart()
    expect(await settled(() => store.acquire(request(key, 'b')))).toMatchObject({ because: 'held', token: tokens[0] })
    // renewed
    expect((await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }]))[0]?.is).toBe('renewed')
    await restart()
    expect((await settled(() => store.inspect(key)))?.remainingMs).toBeGreaterThan(120_000)
    // released
    await store.release(grantOf(key, 'a'))
    await restart()
    expect(await settled(() => store.release(grantOf(key, 'a')))).toEqual({ is: 'released' })
    expect(await store.acquire(request(key, 'a'))).toMatchObject({ because: 'ended' })
    // withdrawn
    await store.withdraw(key, 'c')
    await restart()
    expect(await settled(() => store.acquire(request(key, 'c')))).toMatchObject({ because: 'ended' })
    // on its way: many acquires, the server killed among them; what was answered is there
    const keys = Array.from({ length: 60 }, () => fresh())
    const answers = keys.map((name) => store.acquire(request(name, 'd')))
    await Promise.race(answers)
    await bench.server.kill()
    const outcomes = await Promise.allSettled(answers)
    await bench.server.start()
    for (const [n, outcome] of outcomes.entries()) {
      if (outcome.status === 'rejected') {
        expect(outcome.reason).toBeInstanceOf(StoreError)
        continue
      }
      const record = await settled(() => store.inspect(keys[n] ?? ''))
      expect(record).toMatchObject({
        state: 'held',
        claim: 'd',
        ...(outcome.value.is === 'granted' && { token: outcome.value.token }),
      })
    }
    tokens.push(await granted(store, key, 'e'))
    expect(tokens[1]).toBeGreaterThan(tokens[0] ?? 0)
  })

  it('again and again under clients at work, and sessions ended: both logs read right afterwards', async () => {
    const key = fresh()
    await Writers.install(bench.pool())
    const writers = new Writers(bench, key, 4)
    writers.start()
    let ended = 0
    for (let round = 1; round <= 3; round++) {
      const before = writers.written
      await waitUntil('some writes', () => writers.written >= before + 8)
      if (round === 2) {
        await bench.server.kill()
        await bench.server.start()
      } else ended += await killSessions(bench.pool({ connectionLimit: 1 }))
    }
    const before = writers.written
    await waitUntil('they recover', () => writers.written >= before + 8)
    await writers.stop()
    expect(ended).toBeGreaterThan(4) // some of them in the middle of something, on most days
    expect(await rises(bench.pool(), 'fenced_log')).toBe(true)
    expect(await rises(bench.pool(), 'plain_log')).toBe(true)
  })
})

describe('rows that somebody else has locked', () => {
  const servers = { 'as installed': asInstalled, '--sysdate-is-now, in another zone': otherwise }
  for (const [name, bench] of Object.entries(servers)) {
    it(`across the term: granted with the whole ttl, and expiry is final (${name})`, async () => {
      const store = bench.store()
      const [key, other] = [fresh(), fresh()]
      const first = await granted(store, key, 'a', { ttlMs: 700 })
      await granted(store, other, 'a')
      const sits = await lockRow(bench.pool(), key)
      const renewal = store.renew([{ key, claim: 'a', ttlMs: 60_000 }], { timeoutMs: 30_000 })
      const next = store.acquire(request(key, 'b', { ttlMs: 60_000 }), { timeoutMs: 30_000 })
      await waitUntil('the term is over', async () => (await store.inspect(key))?.state === 'free')
      expect(await store.renew([{ key: other, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
      await sits.letGo()
      expect(await renewal).toMatchObject([{ is: 'lost' }])
      expect(await next).toMatchObject({ is: 'granted' })
      const [[row]] = await bench.shared.query<RowDataPacket[]>('SELECT * FROM holdfast_lease WHERE lease_key = ?', [
        Buffer.from(key),
      ])
      expect(row?.expires_us - row?.granted_us).toBe(60_000_000)
      expect(row?.granted_us - first).toBeGreaterThanOrEqual(700_000)
    })
  }

  const bench = asInstalled

  it('for longer than the call: said, with outcome none, and the pool is as full as before', async () => {
    const pool = bench.pool({ connectionLimit: 2 })
    const store = bench.store({}, pool)
    const keys = [fresh(), fresh(), fresh()]
    for (const key of keys) await granted(store, key, 'a')
    const other = bench.pool()
    const sits = await Promise.all(keys.map((key) => lockRow(other, key)))
    const call = { timeoutMs: 1_500 }
    const asked = [
      ...keys.map((key) => store.acquire(request(key, 'b'), call)),
      ...keys.map((key) => store.release(grantOf(key, 'a'), call)),
      ...keys.map((key) => store.withdraw(key, 'c', call)),
      ...keys.map((key) => store.revoke(key, {}, call)),
    ]
    for (const error of await Promise.all(asked.map((promise) => reasonOf(promise)))) {
      expect(error).toMatchObject({ outcome: 'none' })
    }
    await granted(store, fresh(), 'a')
    await Promise.all(sits.map(({ letGo }) => letGo()))
    for (const key of keys) expect(await store.release(grantOf(key, 'a'))).toEqual({ is: 'released' })
  })

  it('a long transaction of the caller on the same pool costs its own connection, and no lease', async () => {
    const pool = bench.pool({ connectionLimit: 2 })
    const leases = createLeases({ store: mysqlStore(pool), ttlMs: 2_000 })
    const key = fresh()
    await leases.hold(key, async ({ signal, grant }) => {
      const tx = await pool.getConnection()
      await tx.beginTransaction()
      await tx.query('SELECT * FROM holdfast_lease') // an old snapshot
      const store = bench.store()
      await waitUntil('two renewals', async () => ((await store.inspect(key))?.heldMs ?? 0) > 2_500)
      expect(await store.inspect(key)).toMatchObject({ state: 'held', token: grant.token })
      await tx.commit()
      tx.release()
      expect(signal.aborted).toBe(false)
    })
    await leases.close()
  })
})

describe('pools', () => {
  const bench = asInstalled

  it('exhausted: said, with outcome none; and it works again when there is a connection', async () => {
    const pool = bench.pool({ connectionLimit: 1 })
    const store = bench.store({}, pool)
    const key = fresh()
    await granted(store, key, 'a')
    const taken = await pool.getConnection()
    for (const ask of [
      () => store.acquire(request(fresh(), 'b'), { timeoutMs: 100 }),
      () => store.release(grantOf(key, 'a'), { timeoutMs: 100 }),
      () => store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }], { timeoutMs: 100 }),
      () => store.inspect(key, { timeoutMs: 100 }),
    ]) {
      expect(await reasonOf(ask())).toMatchObject({
        outcome: 'none',
        message: expect.stringMatching(/was not sent|not sent/),
      })
    }
    taken.release()
    expect(await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
    const impatient = bench.pool({ connectionLimit: 1, waitForConnections: false })
    const held = await impatient.getConnection()
    const error = await reasonOf(bench.store({}, impatient).acquire(request(fresh(), 'a')))
    expect(error).toMatchObject({ outcome: 'none', message: expect.stringMatching(/make it bigger/) })
    held.release()
  })

  it('of one connection: hundreds of operations and waiters get through', async () => {
    const pool = bench.pool({ connectionLimit: 1 })
    const store = bench.store({}, pool)
    const keys = Array.from({ length: 300 }, () => fresh())
    await Promise.all(keys.map((key) => granted(store, key, 'a')))
    const leases = createLeases({ store: mysqlStore(pool), closeStore: false })
    const waits = leases.acquire(keys[0] ?? '', { waitMs: 20_000 })
    expect(
      (await store.renew(keys.map((key) => ({ key, claim: 'a', ttlMs: HOUR_MS })))).every(({ is }) => is === 'renewed'),
    ).toBe(true)
    await Promise.all(keys.map((key) => store.release(grantOf(key, 'a'))))
    await (await waits).release()
    await leases.close()
  })

  it('ended, or of a server that is not there: said, with outcome none', async () => {
    const pool = bench.server.pool()
    const store = mysqlStore(pool)
    await granted(store, fresh(), 'a')
    await pool.end()
    expect(await reasonOf(store.acquire(request(fresh(), 'a')))).toMatchObject({ outcome: 'none' })
    const nowhere = bench.pool({ port: 1 })
    const error = await reasonOf(bench.store({}, nowhere).acquire(request(fresh(), 'a')))
    expect(error).toMatchObject({ outcome: 'none', message: expect.stringMatching(/cannot be reached/) })
    const stranger = await reasonOf(bench.store({}, bench.pool({ user: 'nobody', password: 'x' })).inspect('x'))
    expect(stranger).toMatchObject({ outcome: 'none', message: expect.stringMatching(/user and password/) })
  })

  it('a server that hangs: outcome unknown after the call time, and the connection is not used again', async () => {
    const proxy = await bench.proxy()
    const store = bench.store({}, bench.pool({ port: proxy.port, connectionLimit: 1 }))
    const key = fresh()
    await granted(store, key, 'a')
    proxy.hang()
    expect(await reasonOf(store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }], { timeoutMs: 200 }))).toMatchObject({
      outcome: 'unknown',
    })
    proxy.heal()
    expect(await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
  })
})

describe('a reply that is lost', () => {
  const bench = asInstalled

  it('C08: of renew and release: the repeat finds its own', async () => {
    const proxy = await bench.proxy()
    const near = bench.store({}, bench.pool({ port: proxy.port, connectionLimit: 1 }))
    const far = bench.store()
    const key = fresh()
    const token = await granted(near, key, 'a', { ttlMs: 60_000 })
    const renew = (ttlMs = HOUR_MS) => near.renew([{ key, claim: 'a', ttlMs }], { timeoutMs: 500 })
    /** Each verb twice on the connection, so that it is prepared there: else the reply to that would be swallowed. */
    const warmUp = async () => {
      for (const claim of ['one', 'two']) {
        const warm = fresh()
        await granted(near, warm, claim)
        await renew(1)
        await near.release(grantOf(warm, claim))
      }
    }
    await warmUp()
    proxy.swallowReplies()
    expect(await reasonOf(renew())).toMatchObject({ outcome: 'unknown' })
    proxy.heal()
    await waitUntil('it was applied', async () => ((await far.inspect(key))?.remainingMs ?? 0) > 60_000)
    expect(await renew()).toEqual([{ is: 'renewed', ttlMs: HOUR_MS }])
    await warmUp()
    proxy.swallowReplies()
    expect(await reasonOf(near.release(grantOf(key, 'a', token), { timeoutMs: 500 }))).toMatchObject({
      outcome: 'unknown',
    })
    proxy.heal()
    await waitUntil('it was applied', async () => (await far.inspect(key))?.state === 'free')
    expect(await near.release(grantOf(key, 'a', token))).toEqual({ is: 'released' })
  })
})

describe('the clock of the server', () => {
  const bench = Bench.here({ stepped: true })

  it('C23: stepped forward, a lease ends and tokens rise; set back, nobody gets in and tokens go on rising', async () => {
    const store = bench.store()
    const [key, held] = [fresh(), fresh()]
    const tokens = [await granted(store, key, 'a', { ttlMs: 60_000 })]
    bench.server.step(3_600)
    expect(await store.renew([{ key, claim: 'a', ttlMs: 60_000 }])).toEqual([{ is: 'lost', reason: 'expired' }])
    tokens.push(await granted(store, key, 'b', { ttlMs: 60_000 }))
    await granted(store, held, 'a', { ttlMs: 60_000 })
    const pruning = bench.store({ table: 'pruned' })
    const names = ['k', 'l', 'm']
    const pruned = await Promise.all(names.map((name) => granted(pruning, name, 'a')))
    await Promise.all(names.map((name) => pruning.release(grantOf(name, 'a'))))
    expect(await pruning.prune({ olderThanMs: 0 })).toBe(3)
    bench.server.step(-3_600)
    const again = await Promise.all(names.map((name) => granted(pruning, name, 'b')))
    expect(Math.min(...again)).toBeGreaterThan(Math.max(...pruned))
    expect(await store.acquire(request(held, 'b'))).toMatchObject({ because: 'held' })
    expect(await store.renew([{ key: held, claim: 'a', ttlMs: 60_000 }])).toMatchObject([{ is: 'renewed' }])
    for (const claim of ['c', 'd']) {
      await store.release(grantOf(key, (await store.inspect(key))?.claim ?? ''))
      tokens.push(await granted(store, key, claim))
    }
    expect([...tokens].sort((a, b) => a - b)).toEqual(tokens)
    expect(new Set(tokens).size).toBe(tokens.length)
    bench.server.step(0)
  })
})

describe('a binary log', () => {
  const bench = Bench.here({ args: ['--log-bin', '--binlog-format=STATEMENT', '--server-id=1'] })

  it('of statements is refused by the server, and said; of rows it is fine, and a replica that is read-only is told', async () => {
    const error = await reasonOf(bench.store().acquire(request(fresh(), 'a')))
    expect(error).toMatchObject({ outcome: 'none', message: expect.stringMatching(/binlog_format is STATEMENT/) })
    await bench.shared.query("SET GLOBAL binlog_format = 'MIXED'")
    const store = bench.store({}, bench.pool())
    const keys = [fresh(), fresh(), fresh()]
    await Promise.all(keys.map((key) => granted(store, key, 'a')))
    await Promise.all(keys.map((key) => store.release(grantOf(key, 'a'))))
    await bench.shared.query("CREATE USER app@'%'")
    await bench.shared.query("GRANT ALL ON test.* TO app@'%'")
    await bench.shared.query('SET GLOBAL read_only = 1')
    const refused = await reasonOf(bench.store({}, bench.pool({ user: 'app' })).acquire(request(fresh(), 'a')))
    expect(refused).toMatchObject({ outcome: 'none', message: expect.stringMatching(/replica or read-only/) })
  })
})

/** What a store answers once its pool has noticed that its connections are gone. */
async function settled<T>(ask: () => Promise<T>): Promise<T> {
  let answer: { value: T } | undefined
  await waitUntil('an answer', async () => {
    try {
      answer = { value: await ask() }
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
    }
    return answer !== undefined
  })
  return (answer as unknown as { value: T }).value
}

/** Ends every session but its own. Gives how many. */
async function killSessions(pool: Pool): Promise<number> {
  const [rows] = await pool.query<RowDataPacket[]>(
    "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'",
  )
  for (const { id } of rows) await pool.query(`KILL ${id}`).catch(() => {})
  return rows.length
}
