// Records on real servers that are killed in every phase of a run, or whose clock is stepped; and the way it is often written beside
// them, which pays twice (C23, C55, C57).
import { Redis } from 'ioredis'
import { createPool } from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Records } from '../../src/idempotency/contract.js'
import { fingerprintOf, once } from '../../src/idempotency/index.js'
import { mysqlRecords } from '../../src/stores/mysql/index.js'
import { postgresRecords } from '../../src/stores/postgres/index.js'
import { redisRecords } from '../../src/stores/redis/index.js'
import { MysqlServer } from '../mysql/servers.js'
import { pgPool } from '../postgres/clients.js'
import { PostgresServer, waitUntil } from '../postgres/servers.js'
import { RedisServer } from '../redis/servers.js'
import { held } from './world.js'

const HOUR_S = 3_600
const KEYS_PREFIX = 'holdfast-record:'

/** A server and what is opened on it. */
interface Opened {
  readonly server: { kill(): Promise<void>; start(): Promise<void>; stop(): Promise<void> }
  readonly records: Records
  /** Steps the server's clock, so many seconds ahead of the machine's. */
  step(seconds: number): Promise<void>
  /** `once` as it is often written: looks, runs, writes, behind a lock whose term is in the row. */
  naive(key: string, ttlMs: number, work: () => Promise<string>): Promise<string>
  /** The same without the lock: looks by the key alone, runs, writes. */
  looked(key: string, work: () => Promise<string>): Promise<string>
  close(): Promise<unknown>
}

const stores: Record<string, () => Promise<Opened>> = {
  async postgres() {
    const server = await PostgresServer.start({ clock: true, settings: ['fsync = on'] })
    const pool = pgPool(server.url)
    await pool.query('create table naive (key text primary key, until_at timestamptz, result text)')
    return {
      server,
      records: postgresRecords(pool),
      step: async (seconds) => server.setClock(seconds),
      async naive(key, ttlMs, work) {
        const { rows } = await pool.query('select result from naive where key = $1', [key])
        if (typeof rows[0]?.result === 'string') return rows[0].result
        const { rowCount } = await pool.query(
          `insert into naive as n values ($1, now() + $2 * interval '1 ms') on conflict (key)
           do update set until_at = excluded.until_at where n.until_at <= now()`,
          [key, ttlMs],
        )
        if (rowCount === 0) throw new Error('locked')
        const result = await work()
        await pool.query('update naive set result = $2 where key = $1', [key, result])
        return result
      },
      async looked(key, work) {
        const { rows } = await pool.query('select result from naive where key = $1', [key])
        if (rows.length > 0) return rows[0].result
        const result = await work()
        await pool.query('insert into naive (key, result) values ($1, $2) on conflict do nothing', [key, result])
        return result
      },
      close: () => pool.end(),
    }
  },

  async mysql() {
    const server = await MysqlServer.start({ stepped: true })
    const pool = createPool(`mysql://root@127.0.0.1:${server.port}/test`)
    await pool.query('CREATE TABLE naive (k VARCHAR(99) PRIMARY KEY, until_at DATETIME, result TEXT)')
    return {
      server,
      records: mysqlRecords(pool),
      step: async (seconds) => server.step(seconds),
      async naive(key, ttlMs, work) {
        const [rows] = await pool.query('SELECT result FROM naive WHERE k = ?', [key])
        const [row] = rows as { result: string | null }[]
        if (typeof row?.result === 'string') return row.result
        await pool.query('INSERT IGNORE INTO naive VALUES (?, NOW(), NULL)', [key])
        const [{ affectedRows }] = (await pool.query(
          'UPDATE naive SET until_at = NOW() + INTERVAL ? SECOND WHERE k = ? AND until_at <= NOW()',
          [ttlMs / 1_000, key],
        )) as unknown as [{ affectedRows: number }]
        if (affectedRows === 0) throw new Error('locked')
        const result = await work()
        await pool.query('UPDATE naive SET result = ? WHERE k = ?', [result, key])
        return result
      },
      async looked(key, work) {
        const [rows] = await pool.query('SELECT result FROM naive WHERE k = ?', [key])
        const [row] = rows as { result: string }[]
        if (row !== undefined) return row.result
        const result = await work()
        await pool.query('INSERT IGNORE INTO naive (k, result) VALUES (?, ?)', [key, result])
        return result
      },
      close: () => pool.end(),
    }
  },

  async redis() {
    const server = await RedisServer.start('--appendonly', 'yes', '--appendfsync', 'always')
    // What could not be sent is not kept for later: the record would come after all, late but true.
    const client = new Redis(server.port, { retryStrategy: () => 50, enableOfflineQueue: false })
    client.on('error', () => {})
    await waitUntil('a connection', () => client.status === 'ready')
    let aheadMs = 0
    return {
      server,
      records: redisRecords(client),
      /** Redis cannot run under a false clock here: instead, what it keeps becomes older, as it does when its clock is set forward. */
      async step(seconds) {
        const ms = seconds * 1_000 - aheadMs
        aheadMs = seconds * 1_000
        const keys = [...(await client.keys(`${KEYS_PREFIX}*`)), ...(await client.keys('lock:*'))]
        if (keys.length > 0) await client.eval(OLDER, keys.length, ...keys, ms)
      },
      async naive(key, ttlMs, work) {
        const before = await client.get(`naive:${key}`)
        if (before !== null) return before
        if ((await client.set(`lock:${key}`, '1', 'PX', ttlMs, 'NX')) === null) throw new Error('locked')
        const result = await work()
        await client.set(`naive:${key}`, result)
        return result
      },
      async looked(key, work) {
        const before = await client.get(`looked:${key}`)
        if (before !== null) return before
        const result = await work()
        await client.set(`looked:${key}`, result)
        return result
      },
      close: async () => client.disconnect(),
    }
  },
}

/** A record begins with a mark and its state, then the ends of its term and of its keeping, in µs. A lock only has its time to live. */
const OLDER = `for _, key in ipairs(KEYS) do
  local v, left = redis.call('GET', key), redis.call('PTTL', key) - ARGV[1]
  if left <= 0 then redis.call('DEL', key)
  elseif v:byte(1) == 0xF2 then
    local mark, state, term, keep = struct.unpack('>BBdd', v)
    v = struct.pack('>BBdd', mark, state, term - ARGV[1] * 1000, keep - ARGV[1] * 1000) .. v:sub(19)
    redis.call('SET', key, v, 'PX', left)
  else redis.call('PEXPIRE', key, left) end
end`

const fingerprint = fingerprintOf({ amount: 100 })

describe.each(Object.keys(stores))('on %s', (name) => {
  let opened: Opened
  let keys = 0
  const fresh = () => `pay ${++keys}`
  const errorOf = (promise: Promise<unknown>) =>
    promise.then(
      (value) => ({ value }),
      (error: unknown) => error,
    )
  const restart = async () => {
    await opened.server.kill()
    await opened.server.start()
  }
  /** Until its connections are opened again. */
  const settled = (key: string) => waitUntil('an answer', () => opened.records.inspect(key).then(Boolean, () => false))

  beforeAll(async () => {
    opened = (await stores[name]?.()) as Opened
    await once(opened.records, { key: 'first', fingerprint }, () => 'made')
  })
  afterAll(async () => {
    await opened?.close()
    await opened?.server.stop()
  })

  it('C55, C57: of twenty at once one has the effect, and another payload is refused; looked for by its key, and written later, both fail', async () => {
    const key = fresh()
    let effects = 0
    const pay = async () => {
      effects++
      await new Promise((resolve) => setImmediate(resolve))
      return `receipt ${effects}`
    }
    const asked = Array.from({ length: 20 }, () => once(opened.records, { key, fingerprint, waitMs: 20_000 }, pay))
    expect(new Set(await Promise.all(asked))).toEqual(new Set(['receipt 1']))
    const other = once(opened.records, { key, fingerprint: fingerprintOf({ amount: 7 }) }, pay)
    expect(await errorOf(other)).toMatchObject({ code: 'KEY_REUSED' })
    expect(effects).toBe(1)

    effects = 0
    const naive = () => opened.looked(`naive ${key}`, pay)
    await Promise.all(Array.from({ length: 20 }, naive))
    expect(effects).toBeGreaterThan(1)
    expect(await naive()).toMatch(/receipt/) // whatever was asked for: the first answer, with no word of it
  })

  it('C56: an honest repeat has its members in another order; compared as text it is refused', async () => {
    const key = fresh()
    const [sent, again] = [
      { amount: 100, to: { name: 'caf\u00e9', id: 1 } },
      { to: { id: 1, name: 'cafe\u0301' }, amount: 100 },
    ]
    await once(opened.records, { key, fingerprint: fingerprintOf(sent) }, () => 'paid')
    expect(await once(opened.records, { key, fingerprint: fingerprintOf(again) }, () => 'again')).toBe('paid')
    const naive = (payload: object) => ({ key: `naive ${key}`, fingerprint: JSON.stringify(payload) })
    await once(opened.records, naive(sent), () => 'paid')
    expect(await errorOf(once(opened.records, naive(again), () => 'again'))).toMatchObject({ code: 'KEY_REUSED' })
  })

  it('the server killed between effect and record: unknown, and who looks finds the effect', async () => {
    const key = fresh()
    let effects = 0
    const pay = async () => {
      effects++
      await opened.server.kill()
      return 'paid'
    }
    const first = await errorOf(once(opened.records, { key, fingerprint, ttlMs: 1_000 }, pay))
    expect(first).toMatchObject({ code: 'NOT_RECORDED', outcome: { value: 'paid' } })
    await opened.server.start()
    await settled(key)
    const again = () => once(opened.records, { key, fingerprint, waitMs: 20_000 }, pay)
    expect(await errorOf(again())).toMatchObject({ code: 'UNKNOWN_OUTCOME', key, attempt: 1 })
    const found = once(opened.records, { key, fingerprint, onUnknown: () => ({ value: 'found' }) }, pay)
    expect(await found).toBe('found')
    expect(await again()).toBe('found')
    expect(effects).toBe(1)

    let paid = 0
    const naivePay = async () => {
      if (++paid === 1) await opened.server.kill()
      return 'paid'
    }
    await waitUntil('the naive one', () => opened.naive(`naive ${key}`, 1_000, naivePay).catch(() => paid > 0))
    await opened.server.start()
    await waitUntil('its repeat', () => opened.naive(`naive ${key}`, 1_000, naivePay).catch(() => false))
    expect(paid).toBe(2)
  })

  it('the server killed while it runs, and when it is done: the run goes on, and its result is kept', async () => {
    const key = fresh()
    const options = { key, fingerprint, ttlMs: 60_000 }
    const run = once(opened.records, options, async () => {
      await restart()
      return 'paid'
    })
    expect(await run).toBe('paid')
    await restart()
    await settled(key)
    expect(await once(opened.records, options, () => 'again')).toBe('paid')
  })

  it('the server killed among many claims and records: no key has two effects, and each repeat is told what is known', async () => {
    const names = Array.from({ length: 30 }, fresh)
    const effects = new Map<string, number>()
    let answered = 0
    const pay = (key: string) =>
      errorOf(
        once(opened.records, { key, fingerprint, ttlMs: 2_000, waitMs: 20_000 }, ({ key: of }) => {
          effects.set(of, (effects.get(of) ?? 0) + 1)
          return 'paid'
        }),
      ).finally(() => answered++)
    const asked = names.flatMap((key) => [pay(key), pay(key)])
    await waitUntil('some answers', () => answered > 3)
    await restart()
    await Promise.all(asked)
    await settled('first')
    for (const key of names) {
      const told = await pay(key)
      const unknown = (told as { code?: string }).code === 'UNKNOWN_OUTCOME'
      if (!unknown) expect(told).toEqual({ value: 'paid' })
      expect(effects.get(key) ?? 0).toBeLessThanOrEqual(1)
      if (!unknown) expect(effects.get(key)).toBe(1)
    }
  })

  it('C23: the clock of the server set forward by an hour: a run that goes on is unknown to others, and nobody runs beside it', async () => {
    const key = fresh()
    const { work, end, runs } = held<string>()
    const first = once(opened.records, { key, fingerprint, ttlMs: 60_000 }, work)
    await waitUntil('the run', () => runs.length === 1)
    let others = 0
    const other = () =>
      once(opened.records, { key, fingerprint, waitMs: 0 }, () => {
        others++
        return 'paid twice'
      })
    expect(await errorOf(other())).toMatchObject({ code: 'IN_PROGRESS' })
    await opened.step(HOUR_S)
    expect(await errorOf(other())).toMatchObject({ code: 'UNKNOWN_OUTCOME' })
    end('paid')
    expect(await first).toBe('paid') // late, but true: nobody has taken over
    expect(await other()).toBe('paid')
    expect(others).toBe(0)

    const naive = held<string>()
    const naiveKey = `naive ${key}`
    void opened.naive(naiveKey, 60_000, () => naive.work({} as never)).catch(() => {})
    await waitUntil('the naive run', () => naive.runs.length === 1)
    await opened.step(2 * HOUR_S)
    expect(await opened.naive(naiveKey, 60_000, async () => 'paid twice')).toBe('paid twice')
    naive.end('paid')
    await opened.step(0)
  })

  it('C23: a run that was taken over after such a step cannot record over its successor', async () => {
    const key = fresh()
    const { work, end, runs } = held<string>()
    const first = once(opened.records, { key, fingerprint, ttlMs: 60_000 }, work)
    await waitUntil('the run', () => runs.length === 1)
    await opened.step(HOUR_S)
    const second = await once(opened.records, { key, fingerprint, onUnknown: 'run' }, ({ afterUnknown }) => ({
      afterUnknown,
    }))
    expect(second).toEqual({ afterUnknown: true }) // it was told, and chose to run
    end('late')
    expect(await errorOf(first)).toMatchObject({ code: 'LEASE_LOST', outcome: { value: 'late' } })
    expect(await once(opened.records, { key, fingerprint }, () => 'third')).toEqual(second)
    await opened.step(0)
  })

  it('C23: the clock of the server set back: what runs goes on, what is done is replayed', async () => {
    const [running, done] = [fresh(), fresh()]
    await once(opened.records, { key: done, fingerprint }, () => 'paid')
    const { work, end, runs } = held<string>()
    const first = once(opened.records, { key: running, fingerprint, ttlMs: 60_000 }, work)
    await waitUntil('the run', () => runs.length === 1)
    await opened.step(-HOUR_S)
    const other = once(opened.records, { key: running, fingerprint, waitMs: 0 }, () => 'paid twice')
    expect(await errorOf(other)).toMatchObject({ code: 'IN_PROGRESS' })
    expect(await once(opened.records, { key: done, fingerprint }, () => 'paid twice')).toBe('paid')
    end('paid')
    expect(await first).toBe('paid')
    await opened.step(0)
  })
})
