// A process that pays once, on the store that it is told: it says each step as a line of JSON, and may be killed at any of them.
//   node payer.mjs STORE ADDRESS EFFECTS KEYS MODE [NAME=VALUE ...]
// The effect is a line in the file EFFECTS, which checks no token: what a payment provider would see.
import { appendFileSync } from 'node:fs'
import { fingerprintOf, once, onceInTransaction } from 'holdfast/idempotency'

const [store, address, effects, keys, mode, ...more] = process.argv.slice(2)
const options = Object.fromEntries(more.map((pair) => pair.split('=')))
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
const pass = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

const opened = {
  async sqlite() {
    const [{ sqliteRecords }, { default: Database }] = [await import('holdfast/sqlite'), await import('libsql')]
    return { records: sqliteRecords({ path: address, Database, synchronous: 'normal' }) }
  },
  async redis() {
    const [{ redisRecords }, { Redis }] = [await import('holdfast/redis'), await import('ioredis')]
    const client = new Redis(address)
    return { records: redisRecords(client), client, end: () => client.disconnect() }
  },
  async postgres() {
    const [{ postgresRecords }, { default: pg }] = [await import('holdfast/postgres'), await import('pg')]
    const pool = new pg.Pool({ connectionString: address, max: 3 })
    pool.on('error', () => {})
    const transaction = async (body) => {
      const tx = await pool.connect()
      await tx.query('begin')
      const value = await body(tx)
      await tx.query('commit')
      tx.release()
      return value
    }
    return { records: postgresRecords(pool), transaction, end: () => pool.end() }
  },
  async mysql() {
    const [{ mysqlRecords }, { createPool }] = [await import('holdfast/mysql'), await import('mysql2/promise')]
    const pool = createPool(address)
    const transaction = async (body) => {
      const tx = await pool.getConnection()
      await tx.beginTransaction()
      const value = await body(tx)
      await tx.commit()
      tx.release()
      return value
    }
    return { records: mysqlRecords(pool), transaction, end: () => pool.end() }
  },
}
const { records, client, transaction, end } = await opened[store]()

/** `once` as it is often written: look, run, write. */
async function naiveOnce(key, work) {
  const before = await client.get(`naive:${key}`)
  if (before !== null) return JSON.parse(before)
  const result = await work({ key, attempt: 1 })
  await client.set(`naive:${key}`, JSON.stringify(result))
  return result
}

/** A lock with a ttl, which forgets with it. */
async function lockedOnce(key, work) {
  const before = await client.get(`naive:${key}`)
  if (before !== null) return JSON.parse(before)
  if ((await client.set(`lock:${key}`, '1', 'PX', Number(options.ttlMs ?? 30_000), 'NX')) === null)
    throw new Error('locked')
  const result = await work({ key, attempt: 1 })
  await client.set(`naive:${key}`, JSON.stringify(result))
  return result
}

async function work({ key, attempt, afterUnknown, signal }) {
  signal?.addEventListener('abort', () => say({ aborted: signal.reason.code }))
  say({ running: key, attempt, afterUnknown })
  if (options.hang === 'before') await pass(1e9)
  appendFileSync(effects, `${key} ${process.pid}\n`)
  say({ effect: key })
  if (options.hang === 'after') await pass(1e9)
  await pass(Number(options.workMs ?? 0))
  return { paidBy: process.pid }
}

async function pay(key) {
  const asked = {
    key,
    fingerprint: fingerprintOf({ amount: 100 }),
    ttlMs: Number(options.ttlMs ?? 30_000),
    waitMs: Number(options.waitMs ?? 30_000),
    onUnknown: options.onUnknown ?? 'stop',
  }
  if (mode === 'naive') return await naiveOnce(key, work)
  if (mode === 'lock') return await lockedOnce(key, work)
  if (mode === 'transaction') return await transaction((tx) => onceInTransaction(tx, records, asked, work))
  return await once(records, asked, work)
}

async function tell(key) {
  try {
    say({ paid: key, ...(await pay(key)) })
  } catch (error) {
    say({ failed: key, code: error.code, message: error.message, outcome: error.outcome?.is })
  }
}

say({ ready: process.pid })
for await (const line of process.stdin) {
  if (String(line).includes('go')) break
}
const times = Number(options.times ?? 1)
for (const key of keys.split(',')) await Promise.all(Array.from({ length: times }, () => tell(key)))
await records.close()
await end?.()
say({ done: true })
process.exit(0)
