// A process of the tests: does one of the jobs below on a shared file, and prints what came of it as JSON lines.
import { closeSync, existsSync, openSync, unlinkSync } from 'node:fs'
import { StoreError } from '../../src/lease/errors.js'
import { systemRandom } from '../../src/lease/random.js'
import { type SqliteStore, sqliteStore } from '../../src/stores/sqlite/index.js'
import { type DriverName, loadDriver } from './drivers.js'

/** What the test asks for. */
export interface Task {
  readonly driver: DriverName
  readonly path: string
  readonly job: 'open' | 'contend' | 'write' | 'end' | 'unwritable'
  readonly name: string
  readonly rounds: number
}

const task: Task = JSON.parse(process.argv[2] ?? '')
const say = (value: unknown) => process.stdout.write(`${JSON.stringify(value)}\n`)
const request = (key: string) => ({ key, claim: systemRandom.claim(), holder: task.name, ttlMs: 30_000 })

/** Asks until it is granted, in the queue of the store. */
async function acquire(store: SqliteStore, key: string) {
  const asked = { ...request(key), queue: { pollMs: 1_000 } }
  while (true) {
    const answer = await store.acquire(asked)
    if (answer.is === 'granted') return { key, claim: asked.claim, holder: task.name, token: answer.token }
    const end = AbortSignal.timeout(Math.min(answer.remainingMs, 400))
    for await (const _ of store.watch(key, { claim: asked.claim, signal: end })) break
  }
}

const jobs = {
  /** All at once on a file that is not there yet. */
  async open() {
    const store = sqliteStore({ path: task.path, Database })
    say((await store.acquire(request(task.name))).is)
    await store.close()
  },

  /** Holds the one key again and again; a marker file shows two holders. */
  async contend() {
    const store = sqliteStore({ path: task.path, Database })
    const marker = `${task.path}.marker`
    let overlaps = 0
    const tokens: number[] = []
    for (let round = 0; round < task.rounds; round++) {
      const grant = await acquire(store, 'shared')
      try {
        closeSync(openSync(marker, 'wx'))
      } catch {
        overlaps++
      }
      const [renewed] = await store.renew([{ key: 'shared', claim: grant.claim, ttlMs: 30_000 }])
      if (renewed?.is !== 'renewed') overlaps++
      tokens.push(grant.token)
      if (existsSync(marker)) unlinkSync(marker)
      await store.release(grant)
    }
    await store.close()
    say({ overlaps, tokens })
  },

  /** Writes until it is killed, and says each grant once it has it. */
  async write() {
    const store = sqliteStore({ path: task.path, Database })
    for (let round = 0; ; round++) {
      const grant = { ...request(`${task.name}/${round % 50}`), token: 1 }
      await store.acquire(grant)
      if (round % 2 === 0) await store.release(grant)
      if (round % 20 === 0) say(round)
    }
  },

  /** Uses everything once and does not close: the process must end by itself (G9). */
  async end() {
    const store = sqliteStore({ path: task.path, Database })
    const grant = { ...request('k'), token: 1 }
    await store.acquire(grant)
    const end = new AbortController()
    const watch = store.watch('k', { claim: 'other', signal: end.signal })
    const watched = (async () => {
      for await (const _ of watch) break
    })()
    await store.release(grant)
    await watched
    end.abort()
    say('done')
  },

  /** As a user who may not write the file. */
  async unwritable() {
    if (process.getuid?.() === 0) process.setuid?.(65_534)
    try {
      const store = sqliteStore({ path: task.path, Database })
      await store.acquire(request('k'))
      say('written')
    } catch (error) {
      say(error instanceof StoreError ? { outcome: error.outcome, message: error.message } : String(error))
    }
  },
}

const Database = await loadDriver(task.driver)
await jobs[task.job]()
