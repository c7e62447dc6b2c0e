// Real processes that are killed between the effect and its record, frozen beyond their term, or many at once: on every store, and the
// naive ways beside them, which pay twice (C23, C55, C57).
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import Database from 'libsql'
import { createPool } from 'mysql2/promise'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Records } from '../../src/idempotency/contract.js'
import { fingerprintOf, once } from '../../src/idempotency/index.js'
import { mysqlRecords } from '../../src/stores/mysql/index.js'
import { postgresRecords } from '../../src/stores/postgres/index.js'
import { redisRecords } from '../../src/stores/redis/index.js'
import { sqliteRecords } from '../../src/stores/sqlite/index.js'
import { folder, Program, type Said } from '../faults/harness.js'
import { MysqlServer } from '../mysql/servers.js'
import { pgPool } from '../postgres/clients.js'
import { PostgresServer } from '../postgres/servers.js'
import { RedisServer } from '../redis/servers.js'

vi.setConfig({ testTimeout: 120_000 })

const PAYER = fileURLToPath(new URL('./programs/payer.mjs', import.meta.url))
/** Short, but a loaded machine must start a process and send a renewal within it. */
const TTL_MS = 3_000
const request = (key: string) => ({ key, fingerprint: fingerprintOf({ amount: 100 }) })

type StoreName = 'sqlite' | 'redis' | 'postgres' | 'mysql'
interface Opened {
  readonly address: string
  readonly records: Records
  close(): Promise<unknown>
}

let redis: RedisServer
let postgres: PostgresServer
let mysql: MysqlServer

beforeAll(async () => {
  ;[redis, postgres, mysql] = await Promise.all([RedisServer.start(), PostgresServer.start(), MysqlServer.start()])
})
afterAll(() => Promise.all([redis?.stop(), postgres?.stop(), mysql?.stop()]))

const stores: Record<StoreName, () => Opened> = {
  sqlite() {
    const address = join(folder(), 'records.db')
    const records = sqliteRecords({ path: address, Database, synchronous: 'normal' })
    return { address, records, close: () => records.close() }
  },
  redis() {
    const address = `redis://127.0.0.1:${redis.port}`
    const client = new Redis(address)
    return { address, records: redisRecords(client), close: async () => client.disconnect() }
  },
  postgres() {
    const pool = pgPool(postgres.url)
    return { address: postgres.url, records: postgresRecords(pool), close: () => pool.end() }
  },
  mysql() {
    const address = `mysql://root@127.0.0.1:${mysql.port}/test`
    const pool = createPool(address)
    return { address, records: mysqlRecords(pool), close: () => pool.end() }
  },
}

let keys = 0
const freshKey = () => `pay-${process.pid}-${++keys}`

/** What the payment provider saw. */
class Provider {
  readonly path = join(folder(), 'effects')

  constructor() {
    writeFileSync(this.path, '')
  }

  effects(key: string): number {
    return readFileSync(this.path, 'utf8')
      .split('\n')
      .filter((line) => line.startsWith(`${key} `)).length
  }

  payer(store: StoreName, address: string, key: string, mode = 'once', options: Record<string, unknown> = {}): Program {
    const more = Object.entries(options).map(([name, value]) => `${name}=${value}`)
    return new Program(process.execPath, [PAYER, store, address, this.path, key, mode, ...more])
  }
}

const heard = (program: Program, name: string): Promise<Said> => program.hears(name, (said) => name in said, 45_000)

async function go(...programs: Program[]): Promise<void> {
  await Promise.all(programs.map((program) => heard(program, 'ready')))
  for (const program of programs) program.tell('go')
}

/** Starts, lets it come as far as it says `until`, and kills it. */
async function killed(program: Program, until: string): Promise<void> {
  await go(program)
  await heard(program, until)
  await program.kill()
}

const names = ['sqlite', 'redis', 'postgres', 'mysql'] as const

describe.each(names)('on %s', (store) => {
  async function open(run: (opened: Opened & { provider: Provider }) => Promise<void>): Promise<void> {
    const opened = stores[store]()
    try {
      await run({ ...opened, provider: new Provider() })
    } finally {
      await opened.close()
    }
  }

  it('a process killed between effect and record leaves it unknown; whoever looks finds the effect, and records it', () =>
    open(async ({ address, records, provider }) => {
      const key = freshKey()
      await killed(provider.payer(store, address, key, 'once', { hang: 'after', ttlMs: TTL_MS }), 'effect')
      const repeat = once(records, { ...request(key), waitMs: 30_000 }, () => 'paid again')
      await expect(repeat).rejects.toMatchObject({ code: 'UNKNOWN_OUTCOME', key, attempt: 1 })
      expect(provider.effects(key)).toBe(1)
      const found = once(
        records,
        { ...request(key), onUnknown: () => (provider.effects(key) > 0 ? { value: 'found' } : 'run') },
        () => 'paid again',
      )
      expect(await found).toBe('found')
      expect(await once(records, request(key), () => 'paid again')).toBe('found')
    }))

  it('a process killed before the effect looks the same, and running again is safe with the same outward key', () =>
    open(async ({ address, records, provider }) => {
      const key = freshKey()
      await killed(provider.payer(store, address, key, 'once', { hang: 'before', ttlMs: TTL_MS }), 'running')
      expect(provider.effects(key)).toBe(0)
      const run = await once(records, { ...request(key), waitMs: 30_000, onUnknown: 'run' }, (info) => ({
        key: info.key,
        attempt: info.attempt,
        afterUnknown: info.afterUnknown,
      }))
      expect(run).toEqual({ key, attempt: 2, afterUnknown: true })
    }))

  it('a frozen runner cannot record over its successor, and says what it did', () =>
    open(async ({ address, records, provider }) => {
      const key = freshKey()
      const frozen = provider.payer(store, address, key, 'once', { ttlMs: TTL_MS, workMs: 1_000 })
      await go(frozen)
      await heard(frozen, 'effect')
      await frozen.freeze()
      expect(await once(records, { ...request(key), waitMs: 30_000, onUnknown: 'run' }, () => 'by the successor')).toBe(
        'by the successor',
      )
      frozen.thaw()
      expect(await heard(frozen, 'failed')).toMatchObject({ code: 'LEASE_LOST', outcome: 'returned' })
      expect(await once(records, request(key), () => 'again')).toBe('by the successor')
    }))

  it('of 50 calls from 5 processes at once one has the effect, and all are told its result (C57)', () =>
    open(async ({ address, provider }) => {
      const all = Array.from({ length: 10 }, freshKey)
      const options = { times: 10, workMs: 50 }
      const payers = Array.from({ length: 5 }, () => provider.payer(store, address, all.join(), 'once', options))
      await go(...payers)
      for (const payer of payers) await heard(payer, 'done')
      for (const key of all) {
        expect(provider.effects(key), key).toBe(1)
        const answers = payers.flatMap(({ said }) =>
          said.filter((line) => line.paid === key).map((line) => line.paidBy),
        )
        expect(answers).toHaveLength(50)
        expect(new Set(answers).size).toBe(1)
      }
    }))
})

describe('on all of them at once, since it takes its time', () => {
  it('a run that goes on for longer than its term is renewed by its process', async () => {
    const provider = new Provider()
    const runs = names.map(async (store) => {
      const { address, records, close } = stores[store]()
      const key = freshKey()
      const long = provider.payer(store, address, key, 'once', { ttlMs: 2 * TTL_MS, workMs: 5 * TTL_MS })
      await go(long)
      await heard(long, 'effect')
      const result = await once(records, { ...request(key), waitMs: 45_000, onUnknown: 'run' }, () => 'taken over')
      expect(result, store).toMatchObject({ paidBy: long.pid })
      expect(provider.effects(key), store).toBe(1)
      await close()
    })
    await Promise.all(runs)
  })
})

describe.each(['postgres', 'mysql'] as const)('in a transaction of %s', (store) => {
  it('a process killed before the commit leaves nothing, and a repeat runs', async () => {
    const { address, records, close } = stores[store]()
    const provider = new Provider()
    const key = freshKey()
    await (records as Records & { install(): Promise<void> }).install()
    await killed(provider.payer(store, address, key, 'transaction', { hang: 'after' }), 'effect')
    expect(await records.inspect(key)).toBe(null)
    const second = provider.payer(store, address, key, 'transaction')
    await go(second)
    expect(await heard(second, 'paid')).toMatchObject({ paidBy: second.pid })
    expect(await records.inspect(key)).toMatchObject({ state: 'done', attempt: 1 })
    await close()
  })
})

describe('the naive ways, where they fail', () => {
  it('look, run, write: several of five processes pay (C57)', async () => {
    const provider = new Provider()
    const all = Array.from({ length: 10 }, freshKey)
    const address = `redis://127.0.0.1:${redis.port}`
    const payers = Array.from({ length: 5 }, () =>
      provider.payer('redis', address, all.join(), 'naive', { workMs: 50 }),
    )
    await go(...payers)
    for (const payer of payers) await heard(payer, 'done')
    expect(Math.max(...all.map((key) => provider.effects(key)))).toBeGreaterThan(1)
  })

  it('a lock with a ttl: a process killed between effect and record is paid twice, and nobody is told', async () => {
    const provider = new Provider()
    const key = freshKey()
    const address = `redis://127.0.0.1:${redis.port}`
    await killed(provider.payer('redis', address, key, 'lock', { hang: 'after', ttlMs: 300 }), 'effect')
    const client = new Redis(address)
    await expect.poll(() => client.exists(`lock:${key}`), { timeout: 20_000 }).toBe(0)
    client.disconnect()
    const second = provider.payer('redis', address, key, 'lock')
    await go(second)
    await heard(second, 'paid')
    expect(provider.effects(key)).toBe(2)
  })
})
