// What the tests of the SQLite store share: cases as data, so that each runs on all three drivers, and the tools they need.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../src/lease/clock.js'
import type { AcquireRequest, Grant } from '../../src/store/contract.js'
import {
  type SqliteDatabase,
  type SqliteDatabaseClass,
  type SqliteStore,
  type SqliteStoreOptions,
  sqliteStore,
} from '../../src/stores/sqlite/index.js'

export interface Case {
  readonly name: string
  run(bench: Bench): Promise<void> | void
}

/** A folder of its own and what runs in it; all is cleared away afterwards. */
export interface Bench {
  readonly Database: SqliteDatabaseClass
  readonly folder: string
  readonly path: string
  /** Opens the store of `path`, or as the options say. */
  open(options?: Partial<SqliteStoreOptions>): SqliteStore
  /** Another program's connection to the same file. */
  raw(path?: string): SqliteDatabase
}

export async function runCase(one: Case, Database: SqliteDatabaseClass): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-sqlite-'))
  const path = join(folder, 'leases.db')
  const stores: SqliteStore[] = []
  const connections: SqliteDatabase[] = []
  try {
    await inTime(one, {
      Database,
      folder,
      path,
      open(options = {}) {
        const store = sqliteStore({ path, Database, ...options })
        stores.push(store)
        return store
      },
      raw(of = path) {
        const db = new Database(of)
        connections.push(db)
        return db
      },
    })
  } finally {
    for (const store of stores) await store.close()
    for (const db of connections) if (db.open !== false && db.isOpen !== false) db.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A case that hangs fails, also where no test runner watches over it. */
async function inTime(one: Case, bench: Bench): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${CASE_MS} ms`)), CASE_MS)
  })
  await Promise.race([one.run(bench), late])
  clearTimeout(timer)
}

const CASE_MS = 50_000

export const request = (key: string, claim: string, more: Partial<AcquireRequest> = {}): AcquireRequest => ({
  key,
  claim,
  holder: `holder of ${claim}`,
  ttlMs: 30_000,
  ...more,
})

export const grantOf = (key: string, claim: string, token = 1): Grant => ({
  key,
  claim,
  token,
  holder: `holder of ${claim}`,
})

/** This machine's clock, whose time of day can be set. */
export class SettableClock implements Clock {
  shiftMs = 0
  readonly monoMs = systemClock.monoMs
  readonly setTimer = systemClock.setTimer
  wallMs(): number {
    return systemClock.wallMs() + this.shiftMs
  }
}

/** Waits for a condition, looking every few ms. */
export async function waitUntil(condition: () => boolean | Promise<boolean>, withinMs = 20_000): Promise<void> {
  const endMs = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > endMs) throw new Error(`not within ${withinMs} ms: ${condition}`)
    await new Promise((resolve) => setTimeout(resolve, 3))
  }
}

/** The longest time for which timers could not fire while `run` went on. */
export async function longestBlockMs(run: () => Promise<unknown>): Promise<number> {
  let lastMs = performance.now()
  let longestMs = 0
  const look = () => {
    longestMs = Math.max(longestMs, performance.now() - lastMs)
    lastMs = performance.now()
  }
  const timer = setInterval(look, 5)
  await run()
  clearInterval(timer)
  look()
  return longestMs
}

/** A driver whose statements can be made to fail. `failing` gets the text of a statement about to run, and throws or not. */
export function faultyDriver(Database: SqliteDatabaseClass, failing: (sql: string) => void): SqliteDatabaseClass {
  return class extends Database {
    override prepare(sql: string) {
      const statement = super.prepare(sql)
      const wrapped = Object.create(statement)
      for (const name of ['run', 'get', 'all', 'raw', 'setReturnArrays'] as const) {
        const method = statement[name] as ((...values: unknown[]) => unknown) | undefined
        if (method === undefined) continue
        wrapped[name] = (...values: unknown[]) => {
          if (name === 'run' || name === 'get' || name === 'all') failing(sql)
          return method.apply(statement, values)
        }
      }
      return wrapped
    }
  }
}

/** An error as the drivers throw it. */
export const driverError = (message: string, code: string, errcode: number): Error =>
  Object.assign(new Error(message), { code, errcode })
