// Statements on the server, with what a store can mend by itself: tables that are not there yet are made, by one of those who come
// at once; a deadlock, or a transaction that lost to another, is tried again; and where the session's defaults are not READ COMMITTED
// and READ WRITE, statements get a transaction of their own that is.
import { type Clock, systemClock } from '../../lease/clock.js'
import { StoreError } from '../../lease/errors.js'
import type { Row, Statement, Wire } from './client.js'
import { codeOf, NOT_OURS } from './failure.js'
import type { Names } from './names.js'
import { schemaText } from './schema.js'

/** Limits of a statement when its caller names none, and of the one that makes the schema. */
const TIMEOUT_MS = 10_000
const SCHEMA_TIMEOUT_MS = 60_000

/** So often is tried again what lost to others. */
const AGAIN_MAX = 5

const MISSING = new Set(['42883', '42P01', '3F000'])
/** A proxy has given a transaction another connection, where the statement has not been parsed. */
const NOT_PREPARED = new Set(['26000', '42P05'])
/** A function found a table without its columns. */
const OTHER_COLUMNS = new Set(['42P01', '42703'])
const LOST_TO_OTHERS = new Set(['40001', '40P01'])

export interface ServerOptions {
  readonly wire: Wire
  readonly names: Names
  /** Whether missing tables and functions are made. */
  readonly migrate: boolean
  /** Whether statements that are sent again and again are prepared, as long as it works. */
  readonly prepare: boolean
  /** What makes them. Default: the SQL of the store. */
  readonly schema?: string
  readonly clock?: Clock
}

export class Server {
  readonly wire: Wire
  readonly names: Names
  readonly #migrate: boolean
  readonly #schema: string
  readonly #clock: Clock
  #isolated = false
  #prepares: boolean
  #migrating: Promise<void> | undefined

  constructor({ wire, names, migrate, prepare, schema = schemaText(names), clock = systemClock }: ServerOptions) {
    this.wire = wire
    this.names = names
    this.#migrate = migrate
    this.#schema = schema
    this.#prepares = prepare
    this.#clock = clock
  }

  /** Calls one of the functions. Gives its row. */
  async call(
    what: string,
    verb: string,
    values: Statement['values'],
    timeoutMs: number = TIMEOUT_MS,
  ): Promise<Row | undefined> {
    const places = values.map((_, i) => `$${i + 1}`).join(', ')
    const text = `select * from ${this.names.fn(verb)}(${places})`
    const [row] = await this.run(what, { text, values }, timeoutMs, true)
    if (row?.plain !== null || this.#isolated) return row
    this.#isolated = true // nothing was done
    return this.call(what, verb, values, timeoutMs)
  }

  /** Runs one statement. Gives its rows. */
  async run(what: string, statement: Statement, timeoutMs = TIMEOUT_MS, often = false): Promise<readonly Row[]> {
    const untilMonoMs = this.#clock.monoMs() + timeoutMs
    for (let attempt = 1; ; attempt++) {
      const leftMs = Math.max(1, untilMonoMs - this.#clock.monoMs())
      const isolated = this.#isolated
      const prepared = often && this.#prepares
      try {
        return await this.wire.run(statement, { what, timeoutMs: leftMs, isolated, prepared })
      } catch (error) {
        const code = codeOf(error) ?? ''
        const none = error instanceof StoreError && error.outcome === 'none'
        const mended =
          none &&
          attempt <= AGAIN_MAX &&
          this.#clock.monoMs() < untilMonoMs &&
          ((code === '25006' && !isolated && this.#isolate()) ||
            (NOT_PREPARED.has(code) && prepared && this.#prepareNoMore()) ||
            LOST_TO_OTHERS.has(code) ||
            (MISSING.has(code) && this.#migrate && attempt === 1 && (await this.#makeSchema())))
        if (!mended) throw error
      }
    }
  }

  #isolate(): boolean {
    this.#isolated = true
    return true
  }

  #prepareNoMore(): boolean {
    this.#prepares = false
    return true
  }

  /** Makes the tables and functions, unless they are there. */
  async install(): Promise<void> {
    await this.#makeSchema()
  }

  /** Makes the tables, once for all who found them missing at the same time. */
  async #makeSchema(): Promise<true> {
    this.#migrating ??= this.#sendSchema().finally(() => {
      this.#migrating = undefined
    })
    await this.#migrating
    return true
  }

  async #sendSchema(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.wire.script(this.#schema, { what: 'the making of the tables', timeoutMs: SCHEMA_TIMEOUT_MS })
      } catch (error) {
        const code = codeOf(error) ?? ''
        if (OTHER_COLUMNS.has(code)) throw new StoreError(NOT_OURS, { outcome: 'none', lasting: true, cause: error })
        if (!LOST_TO_OTHERS.has(code) || attempt > AGAIN_MAX) throw error
      }
    }
  }
}
