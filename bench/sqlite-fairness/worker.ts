// One of the processes that share a file: takes and gives back leases without a break, and tells how often and how long it
// waited. Started by main.ts.
import Database from 'libsql'
import { systemRandom } from '../../packages/holdfast/src/lease/random.js'
import { type SqliteStore, sqliteStore } from '../../packages/holdfast/src/stores/sqlite/index.js'

/** What main.ts asks for. */
export interface Task {
  readonly path: string
  readonly subject: 'store' | 'busy handler'
  /** All processes want one key, or each has its own and only the file is shared. */
  readonly keys: 'one' | 'many'
  readonly name: string
  readonly startAtMs: number
  readonly seconds: number
}

const TTL_MS = 30_000
const POLL_MS = 1_000
const KEYS = 64

const task: Task = JSON.parse(process.argv[2] ?? '')
const waits: number[] = []
const keyOf = (round: number) => (task.keys === 'one' ? 'key' : `${task.name}/${round % KEYS}`)
const take = task.subject === 'store' ? throughStore() : throughBusyHandler()

await new Promise((resolve) => setTimeout(resolve, task.startAtMs - Date.now()))
const endMs = performance.now() + task.seconds * 1_000
for (let round = 0; performance.now() < endMs; round++) {
  const askedMs = performance.now()
  const giveBack = await take(keyOf(round), endMs)
  if (giveBack === undefined) break
  waits.push(performance.now() - askedMs)
  await giveBack()
}
// Not before all of it is out: a pipe takes so much at once only.
process.stdout.write(JSON.stringify({ waits }), () => process.exit())

type Take = (key: string, endMs: number) => Promise<(() => Promise<unknown>) | undefined>

/** As the client waits: in the store's queue, asking again when it is told, or when the holder's term must have ended. */
function throughStore(): Take {
  const store = sqliteStore({ path: task.path, Database, synchronous: 'full' })
  return async (key, endMs) => {
    const claim = systemRandom.claim()
    const ask = () => store.acquire({ key, claim, holder: task.name, ttlMs: TTL_MS, queue: { pollMs: POLL_MS } })
    let answer = await ask()
    while (answer.is === 'held') {
      if (performance.now() >= endMs) return undefined
      await hint(store, key, claim, Math.min(answer.remainingMs, POLL_MS / 2))
      answer = await ask()
    }
    const { token } = answer
    return () => store.release({ key, claim, holder: task.name, token })
  }
}

/** Waits for a hint, or for so long. */
async function hint(store: SqliteStore, key: string, claim: string, delayMs: number): Promise<void> {
  const end = new AbortController()
  const timer = setTimeout(() => end.abort(), delayMs)
  for await (const _ of store.watch(key, { claim, signal: end.signal })) break
  clearTimeout(timer)
}

/** What people write today: SQLite itself waits for the write lock, for up to 5 s. */
function throughBusyHandler(): Take {
  const db = new Database(task.path)
  db.exec('PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  db.exec('CREATE TABLE IF NOT EXISTS lock (key TEXT PRIMARY KEY, claim TEXT, expires_ms INTEGER) WITHOUT ROWID')
  const lock = db.prepare(
    'INSERT INTO lock VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET claim = excluded.claim, expires_ms = excluded.expires_ms WHERE expires_ms < ?',
  )
  const unlock = db.prepare('DELETE FROM lock WHERE key = ? AND claim = ?')
  return async (key, endMs) => {
    const claim = systemRandom.claim()
    while (lateRun(() => lock.run(key, claim, Date.now() + TTL_MS, Date.now())).changes === 0) {
      if (performance.now() >= endMs) return undefined
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    return async () => lateRun(() => unlock.run(key, claim))
  }
}

/** Again when even 5 s were not enough: the wait counts. */
function lateRun<Value>(run: () => Value): Value {
  while (true) {
    try {
      return run()
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'SQLITE_BUSY') throw error
    }
  }
}
