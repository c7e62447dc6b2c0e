// One statement at a time on a connection of the pool: taken for it and given back, so that it is known whether a failed one had been
// sent. A connection that hangs, or whose statement ended in a way that leaves the session in doubt, is ended: the pool opens another.
import type { Clock } from '../../lease/clock.js'
import { StoreError } from '../../lease/errors.js'
import type { Random } from '../../lease/random.js'
import {
  connectionOf,
  type MysqlConnection,
  type MysqlPool,
  type MysqlStatement,
  PLAIN_ROWS,
  textOf,
} from './client.js'
import { errnoOf, failure, isAgain, isHarmless, isMissing } from './failure.js'
import type { Names } from './names.js'
import { SESSION, statements } from './schema.js'

/** How a call is made. */
export interface RunOptions {
  /** How it is called in errors. */
  readonly what: string
  /** When the caller gives up: nothing hangs longer than that. */
  readonly timeoutMs: number
}

export type Value = string | number | null | Uint8Array
export type Row = Readonly<Record<string, unknown>>

/** Making tables and procedures takes a while, the more when many processes are at it. */
const MIGRATE_MS = 60_000

/** Tried again after this, at least and at most. */
const AGAIN_MS_MIN = 2
const AGAIN_MS_MAX = 50

/** A connection while it is taken. What it answers stands first in a list. */
export interface Session {
  query(statement: MysqlStatement): Promise<[unknown]>
  execute(statement: MysqlStatement): Promise<[unknown]>
  destroy(): void
}

export class Server {
  readonly #pool: MysqlPool
  readonly #names: Names
  readonly #migrate: boolean
  readonly #clock: Clock
  readonly #random: Random
  #migrating: Promise<void> | undefined
  #version: Promise<string> | undefined

  constructor(options: { pool: MysqlPool; names: Names; migrate: boolean; clock: Clock; random: Random }) {
    this.#pool = options.pool
    this.#names = options.names
    this.#migrate = options.migrate
    this.#clock = options.clock
    this.#random = options.random
  }

  /**
   * Calls a procedure and gives its result sets. What the server undid for the sake of others is called again until the time is
   * over; missing procedures are made, once.
   */
  async call(verb: string, values: Value[], options: RunOptions): Promise<Row[][]> {
    const marks = values.map(() => '?').join(', ')
    const statement = { ...PLAIN_ROWS, sql: `CALL ${this.#names.procedure(verb)}(${marks})`, values }
    const giveUpMonoMs = this.#clock.monoMs() + options.timeoutMs
    let migrated = !this.#migrate
    for (let attempt = 0; ; attempt++) {
      const leftMs = Math.max(1, giveUpMonoMs - this.#clock.monoMs())
      try {
        return resultSets(await this.execute(options.what, leftMs, statement))
      } catch (error) {
        if (isMissing(error) && !migrated) {
          migrated = true
          await this.migrate()
        } else if (!isAgain(error) || this.#clock.monoMs() >= giveUpMonoMs) throw error
        else await this.pause(attempt)
      }
    }
  }

  /** Waits, the longer the more often it was tried. */
  pause(attempt: number): Promise<void> {
    const mostMs = Math.min(AGAIN_MS_MAX, AGAIN_MS_MIN * 2 ** Math.min(attempt, 10))
    const delayMs = mostMs * (0.5 + 0.5 * this.#random.unit())
    return new Promise((resolve) => {
      this.#clock.setTimer(delayMs, resolve)
    })
  }

  /**
   * Runs a statement, prepared; after `timeoutMs` it is given up, and the connection ended. `check` sees the answer while the
   * connection is still taken, and says whether it may be given back. Rejects with StoreErrors.
   */
  execute(
    what: string,
    timeoutMs: number,
    statement: MysqlStatement,
    check?: (answer: unknown) => boolean,
  ): Promise<unknown> {
    return this.#taken(what, timeoutMs, (connection, end) => {
      connection.execute(statement, (error, answer) => {
        if (error) end(error, undefined, isHarmless(error))
        else end(undefined, answer, check === undefined || check(answer))
      })
    })
  }

  /** The same for a statement that gives no rows: the driver does less for a text than for a statement with options. */
  change(
    what: string,
    timeoutMs: number,
    sql: string,
    values: Value[],
    check: (answer: unknown) => boolean,
  ): Promise<unknown> {
    return this.#taken(what, timeoutMs, (connection, end) => {
      connection.execute(sql, values, (error, answer) => {
        if (error) end(error, undefined, isHarmless(error))
        else end(undefined, answer, check(answer))
      })
    })
  }

  /** Runs several statements on one connection, in the same way. */
  run<T>(what: string, timeoutMs: number, use: (session: Session) => Promise<T>): Promise<T> {
    const running = this.#taken(what, timeoutMs, (connection, end) => {
      use(sessionOn(connection)).then(
        (value) => end(undefined, value, true),
        (error) => end(error, undefined, isHarmless(error)),
      )
    })
    return running as Promise<T>
  }

  /** Runs something on one connection. `end` gives the connection back, or ends it. */
  #taken(
    what: string,
    timeoutMs: number,
    use: (connection: MysqlConnection, end: (error: unknown, answer: unknown, giveBack: boolean) => void) => void,
  ): Promise<unknown> {
    return new Promise((resolve, reject) => {
      let connection: MysqlConnection | undefined
      let over = false
      const timer = this.#clock.setTimer(timeoutMs, () => {
        over = true
        connection?.destroy()
        reject(timedOut(what, timeoutMs, connection !== undefined))
      })
      connectionOf(this.#pool, (error, given) => {
        if (over) {
          if (!error) given.release()
          return
        }
        if (error) {
          timer.cancel()
          reject(failure(error, what, false))
          return
        }
        connection = given
        const end = (failed: unknown, answer: unknown, giveBack: boolean) => {
          if (over) return
          over = true
          timer.cancel()
          if (giveBack) given.release()
          else given.destroy()
          if (failed) reject(failure(failed, what, true))
          else resolve(answer)
        }
        try {
          use(given, end)
        } catch (thrown) {
          end(thrown, undefined, false)
        }
      })
    })
  }

  /** The server's version, asked for once. */
  version(timeoutMs: number): Promise<string> {
    const statement = { ...PLAIN_ROWS, sql: 'SELECT VERSION() AS version' }
    this.#version ??= this.execute('a look at the version', timeoutMs, statement).then((rows) =>
      textOf((rows as Row[])[0]?.version),
    )
    this.#version.catch(() => {
      this.#version = undefined
    })
    return this.#version
  }

  /** Makes tables and procedures, on a connection that is ended afterwards: its session was changed. */
  migrate(): Promise<void> {
    this.#migrating ??= this.#makeAll().finally(() => {
      this.#migrating = undefined
    })
    return this.#migrating
  }

  async #makeAll(): Promise<void> {
    const what = 'the making of tables and procedures'
    checkVersion(await this.version(MIGRATE_MS))
    await this.run(what, MIGRATE_MS, async (connection) => {
      for (const sql of SESSION) await connection.query({ sql })
      for (const sql of statements(this.#names)) await this.#make(connection, sql)
      connection.destroy()
    })
  }

  async #make(connection: Session, sql: string): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        await connection.query({ sql })
        return
      } catch (error) {
        const isThere = errnoOf(error) === 1304 || (sql.startsWith('CREATE DATABASE') && errnoOf(error) === 1044)
        if (isThere) return
        if (!isAgain(error) || attempt > 20) throw error
        await this.pause(attempt)
      }
    }
  }
}

function sessionOn(connection: MysqlConnection): Session {
  const by = (method: 'query' | 'execute') => (statement: MysqlStatement) =>
    new Promise<[unknown]>((resolve, reject) => {
      connection[method](statement, (error, answer) => {
        if (error) reject(error)
        else resolve([answer])
      })
    })
  return { query: by('query'), execute: by('execute'), destroy: () => connection.destroy() }
}

function timedOut(what: string, timeoutMs: number, sent: boolean): StoreError {
  const within = `within ${Math.round(timeoutMs)} ms`
  return sent
    ? new StoreError(`MySQL did not answer ${what} ${within}; whether it was applied is unknown`, {
        outcome: 'unknown',
      })
    : new StoreError(
        `${what} was not sent: the pool had no connection ${within}: make it bigger, or hold connections for less time`,
        { outcome: 'none' },
      )
}

/** What came before the end of a call: arrays of rows. */
const resultSets = (sets: unknown): Row[][] => (Array.isArray(sets) ? sets.filter(Array.isArray) : [])

/** Refuses servers that cannot do what the procedures need: SKIP LOCKED and JSON_TABLE. */
export function checkVersion(version: string): void {
  const [, major = '0', minor = '0'] = /^(\d+)\.(\d+)/.exec(version.replace(/^5\.5\.5-/, '')) ?? []
  const number = Number(major) * 100 + Number(minor)
  if (/mariadb/i.test(version) ? number >= 1006 : number >= 800) return
  throw new StoreError(`the server is ${version}: leases need MySQL 8.0 or newer, or MariaDB 10.6 or newer`, {
    outcome: 'none',
  })
}
