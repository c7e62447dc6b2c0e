// A process that holds leases in an SQLite file and writes two registers in an application's database, as its standard input
// says: one JSON object a line, { id, do, … }. It answers { re: id, … }, and tells of itself what a checker needs, with
// instants of the machine's monotonic clock in µs, which all processes share.
//
//   time                            says what time it is
//   acquire  key ttlMs waitMs       asks for the lease
//   check    key freeze             reads `held`; with `freeze` stops itself before the next line is read
//   write    key                    writes the plain register, and the fenced one
//   release  key
//   hold     key ttlMs windDownMs   runs work that ends `windDownMs` after it is told to
//   work     key ttlMs freezeEvery  takes the lease, writes, gives it back, over and over, until `rest`
//   rest                            ends `work`; answers with what went wrong
//   exit                            gives everything back and ends; SIGTERM closes the client first, which drains
import { createInterface } from 'node:readline'
import Database from 'libsql'
import { createLeases, StaleTokenError } from '../../../dist/index.js'
import { sqliteFence, sqliteStore } from '../../../dist/stores/sqlite/index.js'

const [path, database, name, naive] = process.argv.slice(2)
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
const nowUs = () => Number(process.hrtime.bigint()) / 1000

const db = new Database(database)
db.exec('PRAGMA busy_timeout = 200')
db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF')
db.exec(`CREATE TABLE IF NOT EXISTS register (name TEXT PRIMARY KEY, token INTEGER, holder TEXT);
  CREATE TABLE IF NOT EXISTS written (seq INTEGER PRIMARY KEY AUTOINCREMENT, register TEXT, token INTEGER, holder TEXT)`)
const fence = sqliteFence()
const leases = createLeases({
  store: sqliteStore({ path, Database }),
  holder: name,
  onEvent: (event) => {
    if (event.type === 'lost') say({ lost: event.reason, token: event.token, atUs: nowUs() })
  },
})
const held = new Map()

/** A holder of this test's negative control believes until it gives the lease back. */
const believes = (lease) => naive === 'naive' || lease.held

/** Since when and until when this process was seen believing. */
function belief(lease, key) {
  const seen = { fromUs: undefined, untilUs: undefined }
  const look = () => {
    const beforeUs = nowUs()
    if (!believes(lease)) return false
    seen.fromUs ??= nowUs()
    seen.untilUs = beforeUs
    return true
  }
  const timer = setInterval(look, 2)
  return {
    look,
    end() {
      clearInterval(timer)
      if (seen.fromUs < seen.untilUs) say({ term: key, token: lease.token, holder: name, ...seen })
    },
  }
}

function inTransaction(body) {
  db.exec('BEGIN IMMEDIATE')
  try {
    body()
    db.exec('COMMIT')
  } catch (error) {
    try {
      db.exec('ROLLBACK')
    } catch {}
    throw error
  }
}

function writeRegister(register, token) {
  db.prepare('REPLACE INTO register (name, token, holder) VALUES (?, ?, ?)').run(register, token, name)
  db.prepare('INSERT INTO written (register, token, holder) VALUES (?, ?, ?)').run(register, token, name)
}

function write({ grant }) {
  inTransaction(() => writeRegister('plain', grant.token))
  try {
    inTransaction(() => {
      fence.admit(db, grant)
      writeRegister('fenced', grant.token)
    })
    return 'admitted'
  } catch (error) {
    if (error instanceof StaleTokenError) return 'stale'
    throw error
  }
}

async function acquire(key, options) {
  const askedUs = nowUs()
  const lease = await leases.acquire(key, options)
  say({ granted: key, token: lease.token, holder: name, askedUs, answeredUs: nowUs() })
  return lease
}

function freezeMyself() {
  process.kill(process.pid, 'SIGSTOP')
}

let resting = true
const troubles = {}
const stale = { count: 0 }

async function work({ key, ttlMs, freezeEvery = 0 }) {
  for (let round = 1; !resting; round++) {
    try {
      const lease = await acquire(key, { ttlMs, waitMs: 5_000 })
      const seen = belief(lease, key)
      try {
        for (let i = 0; i < 3 && seen.look(); i++) {
          if (i === 1 && freezeEvery > 0 && round % freezeEvery === 0) freezeMyself()
          if (write(lease) === 'stale') stale.count++
          await new Promise((resolve) => setTimeout(resolve, 1))
        }
      } finally {
        seen.look()
        seen.end()
        await lease.release()
      }
    } catch (error) {
      const what = error.code ?? error.message
      troubles[what] = (troubles[what] ?? 0) + 1
      if (Object.keys(troubles).length > 20) throw error
    }
  }
}

const verbs = {
  time: () => ({ wallMs: Date.now(), monoUs: nowUs() }),
  async acquire({ key, ttlMs, waitMs = 0 }) {
    try {
      const lease = await acquire(key, { ttlMs, waitMs })
      held.set(key, { lease, seen: belief(lease, key) })
      return { is: 'granted', token: lease.token }
    } catch (error) {
      return { is: 'failed', code: error.code, message: error.message, outcome: error.outcome }
    }
  },
  check({ key, freeze = false }, answer) {
    const { lease, seen } = held.get(key)
    answer({ held: seen.look(), remainingMs: lease.remainingMs, atUs: nowUs() })
    if (freeze) freezeMyself()
  },
  write: ({ key }) => ({ fenced: write(held.get(key).lease) }),
  async release({ key }) {
    const { lease, seen } = held.get(key)
    seen.look()
    seen.end()
    held.delete(key)
    return { released: await lease.release() }
  },
  async hold({ key, ttlMs, windDownMs, waitMs = 10_000 }) {
    try {
      await leases.hold(key, { ttlMs, waitMs }, async (lease) => {
        say({ holding: key, token: lease.token, atUs: nowUs() })
        await new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
        say({ told: lease.signal.reason.reason, heldStill: lease.held })
        await new Promise((resolve) => setTimeout(resolve, windDownMs))
        say({ workEnded: key, heldStill: lease.held, atUs: nowUs() })
      })
      return { is: 'done' }
    } catch (error) {
      return { is: 'failed', code: error.code, message: error.message }
    }
  },
  work(options) {
    resting = false
    void work(options).then(() => say({ rested: true, troubles, stale: stale.count }))
    return {}
  },
  rest() {
    resting = true
    return {}
  },
  async exit() {
    await Promise.all([...held.values()].map(({ lease }) => lease.release()))
    await end()
  },
}

async function end() {
  await leases.close().catch((error) => say({ closing: error.code }))
  say({ closed: true, atUs: nowUs() })
  process.exit(0)
}
process.on('SIGTERM', end)

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, do: verb, ...details } = JSON.parse(line)
  const answer = (result) => say({ re: id, ...result })
  const result = await verbs[verb](details, answer)
  if (result !== undefined) answer(result)
})
say({ ready: true })
