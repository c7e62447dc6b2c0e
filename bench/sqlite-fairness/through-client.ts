// One of the processes that share a file, as an application is: takes leases through the client and gives them back, without
// a break, and tells how long each was waited for. Takes the same task, and answers the same, as worker.ts.
import { createLeases, LeaseHeldError } from 'holdfast'
import { sqliteStore } from 'holdfast/sqlite'
import Database from 'libsql'
import type { Task } from './worker.js'

const TTL_MS = 30_000
const KEYS = 64

const task: Omit<Task, 'subject'> = JSON.parse(process.argv[2] ?? '')
const store = sqliteStore({ path: task.path, Database, synchronous: 'full' })
const leases = createLeases({ store, holder: task.name, ttlMs: TTL_MS })
const keyOf = (round: number) => (task.keys === 'one' ? 'key' : `${task.name}/${round % KEYS}`)
const waits: number[] = []

await new Promise((resolve) => setTimeout(resolve, task.startAtMs - Date.now()))
const endMs = performance.now() + task.seconds * 1_000
for (let round = 0; performance.now() < endMs; round++) {
  const askedMs = performance.now()
  try {
    const lease = await leases.acquire(keyOf(round), { waitMs: endMs - askedMs })
    waits.push(performance.now() - askedMs)
    await lease.release()
  } catch (error) {
    if (!(error instanceof LeaseHeldError)) throw error
  }
}
await leases.close()
console.log(JSON.stringify({ waits }))
