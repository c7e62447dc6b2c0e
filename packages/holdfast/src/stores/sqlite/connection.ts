// One connection to the file: opened, brought into shape, noticed when its file was replaced, and given up after any trouble,
// since a connection whose statement failed half-way may refuse to commit ever after.
import { statSync } from 'node:fs'
import type { Clock } from '../../lease/clock.js'
import type { KeyState, Step } from '../../store/protocol.js'
import {
  checkSynchronous,
  closeQuietly,
  prepareReader,
  type Reader,
  rollbackQuietly,
  type SqliteDatabase,
  type SqliteDatabaseClass,
  type SqliteStatement,
  type SqliteValue,
} from './client.js'
import { isOutOfRange } from './failure.js'
import { Plain, type PlainTime } from './plain.js'
import { prepareFile } from './schema.js'
import * as sql from './sql.js'

/** What is asked of a connection. */
export interface FileOptions {
  readonly path: string
  readonly Database: SqliteDatabaseClass
  readonly synchronous: 'normal' | 'full'
  readonly clock: Clock
}

/** How often the path is looked at, in case the file was deleted or replaced: leases in a deleted file exclude nobody. */
const REPLACED_CHECK_MS = 250

/** The connection of a store: opened when first asked for, and again after it was given up. */
export class Connections {
  readonly #options: FileOptions
  #current: Connection | undefined
  #checkedMonoMs = 0

  constructor(options: FileOptions) {
    this.#options = options
  }

  /** The connection. Throws what the driver throws when it cannot be opened, BUSY among them. */
  get(): Connection {
    const nowMonoMs = this.#options.clock.monoMs()
    if (this.#current !== undefined && nowMonoMs - this.#checkedMonoMs >= REPLACED_CHECK_MS) {
      this.#checkedMonoMs = nowMonoMs
      if (this.#current.isReplaced()) this.giveUp()
    }
    if (this.#current === undefined) {
      this.#current = new Connection(this.#options)
      this.#checkedMonoMs = nowMonoMs
    }
    return this.#current
  }

  /** Looks at something by the connection, which is given up when that fails. */
  look<Value>(at: (connection: Connection) => Value): Value {
    try {
      return at(this.get())
    } catch (error) {
      this.giveUp()
      throw error
    }
  }

  /** Closes the connection; the next `get` opens another. */
  giveUp(): void {
    this.#current?.close()
    this.#current = undefined
  }
}

/** An open connection with its statements. */
export class Connection {
  readonly #path: string
  readonly #clock: Clock
  readonly #db: SqliteDatabase
  readonly #inode: string
  readonly #commit: SqliteStatement
  readonly #load: Reader
  readonly #save: SqliteStatement
  readonly #dataVersion: Reader
  /** The plain cases in one statement each, within a transaction or without. */
  readonly plain: Plain
  /** Statements by their text, which is one of a few. */
  readonly #readers = new Map<string, Reader>()
  readonly #writers = new Map<string, SqliteStatement>()
  readonly #tables = new Set<string>()
  #inTransaction = false
  #offsetMs: number // as last read: others may have raised it since

  constructor({ path, Database, synchronous, clock }: FileOptions) {
    this.#path = path
    this.#clock = clock
    this.#db = new Database(path)
    try {
      this.#db.exec('PRAGMA busy_timeout = 0') // first of all: SQLite's own waiting blocks the event loop
      checkSynchronous(this.#db, Database)
      prepareFile(this.#db, path, synchronous)
      this.#commit = this.#db.prepare('COMMIT')
      this.#load = prepareReader(this.#db, sql.LOAD)
      this.#save = this.#db.prepare(sql.SAVE)
      this.#dataVersion = prepareReader(this.#db, sql.DATA_VERSION)
      this.plain = new Plain(this.#db)
      this.#offsetMs = this.#readOffsetMs()
      this.#inode = inodeOf(path)
    } catch (error) {
      closeQuietly(this.#db)
      throw error
    }
  }

  /**
   * Takes the write lock, or throws BUSY at once. Not by a prepared statement: libsql leaves one that was refused unfinished,
   * and what that connection writes next, outside of a transaction, is answered but never committed. After BUSY from any other
   * statement the connection has to be given up.
   */
  begin(): void {
    this.#db.exec('BEGIN IMMEDIATE')
    this.#inTransaction = true
  }

  commit(): void {
    this.#commit.run()
    this.#inTransaction = false
  }

  /**
   * One atomic step on one key, within a transaction. The clock is read here, while the write lock is held, so steps on a key
   * come in the order of their times (G1, G4). Where the machine's clock was set back, the key's time would go back: the
   * offset of the file makes up for it, for all processes, and the time goes on from where it was. So a lease never
   * lives again after its expiry (G4), no two are granted side by side (G1), tokens rise since the rule never goes below the
   * last one (G2), and what is held still expires: at most one ttl later than it would have.
   */
  step<Answer>(key: string, run: (state: KeyState, nowMs: number) => Step<Answer>): Step<Answer> {
    const { state, atMs, offsetMs } = this.#read(key)
    let nowMs = this.#wallMs() + offsetMs
    this.#offsetMs = offsetMs
    if (nowMs < atMs) {
      this.write(sql.RAISE_OFFSET, offsetMs + atMs - nowMs)
      nowMs = atMs
    }
    const next = run(state, nowMs)
    if (next.state !== state) this.#save.run(...sql.encode(key, next.state, nowMs))
    return next
  }

  /** A key as it is now, without the write lock. */
  look(key: string): { state: KeyState; nowMs: number } {
    const { state, atMs, offsetMs } = this.#read(key)
    return { state, nowMs: Math.max(this.#wallMs() + offsetMs, atMs) }
  }

  #read(key: string): sql.Loaded {
    let cells: readonly unknown[] | undefined
    try {
      cells = this.#load.first(key)
    } catch (error) {
      if (isOutOfRange(error)) throw sql.beyondExact(error)
      throw error
    }
    if (cells === undefined) throw new Error('the table holdfast_file is empty')
    return sql.decode(cells)
  }

  #wallMs(): number {
    return Math.floor(this.#clock.wallMs())
  }

  /** The file's time now. */
  nowMs(): number {
    return this.#wallMs() + this.#readOffsetMs()
  }

  #readOffsetMs(): number {
    return this.read(sql.OFFSET)[0]?.[0] as number
  }

  /** The file's time as far as it can be told without a look at the file: for `plain`, which checks. */
  plainTime(): PlainTime {
    return { nowMs: this.#wallMs() + this.#offsetMs, offsetMs: this.#offsetMs }
  }

  /** Changes whenever another connection has committed. */
  dataVersion(): unknown {
    return this.#dataVersion.first()?.[0]
  }

  read(text: string, ...values: SqliteValue[]): (readonly unknown[])[] {
    let reader = this.#readers.get(text)
    if (reader === undefined) {
      reader = prepareReader(this.#db, text)
      this.#readers.set(text, reader)
    }
    return reader.all(...values)
  }

  /** Gives how many rows were changed. */
  write(text: string, ...values: SqliteValue[]): number {
    let statement = this.#writers.get(text)
    if (statement === undefined) {
      statement = this.#db.prepare(text)
      this.#writers.set(text, statement)
    }
    return Number(statement.run(...values).changes)
  }

  /** Makes a table, unless it is there. Asked once for each connection. */
  ensureTable(text: string): void {
    if (this.#tables.has(text)) return
    this.#db.exec(text)
    this.#tables.add(text)
  }

  /** Whether the path leads to another file by now, or to none. */
  isReplaced(): boolean {
    return inodeOf(this.#path) !== this.#inode
  }

  /** Undoes an open transaction and closes. (libsql lets go of the write lock only then: not when it is closed.) */
  close(): void {
    if (this.#inTransaction) rollbackQuietly(this.#db)
    closeQuietly(this.#db)
  }
}

function inodeOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false })
  return stat === undefined ? 'none' : `${stat.dev}:${stat.ino}`
}
