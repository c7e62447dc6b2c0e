// Leases in one SQLite file that the processes of a machine share: the protocol's states as rows, each verb one short write
// transaction, decided by the very functions that the memory store runs. Exclusion (G1) and rising tokens (G2) come from
// SQLite's write lock: whoever reads a row to decide holds the lock until its decision is committed.
import { stat } from 'node:fs/promises'
import { type Clock, systemClock } from '../../lease/clock.js'
import { HoldfastError, InvalidArgumentError } from '../../lease/errors.js'
import { KEY_BYTES_MAX } from '../../lease/keys.js'
import { systemRandom } from '../../lease/random.js'
import type {
  AcquireRequest,
  CallOptions,
  Granted,
  Held,
  LeaseRecord,
  LeaseStore,
  ListOptions,
  ReleaseOutcome,
  RenewOutcome,
  RenewRequest,
  StoreCapabilities,
} from '../../store/contract.js'
import * as protocol from '../../store/protocol.js'
import { checkDatabaseClass, type SqliteDatabaseClass } from './client.js'
import { type Connection, Connections } from './connection.js'
import { microsecondClock } from './microseconds.js'
import { checkPath, openNow } from './opening.js'
import { Pruning, pruneAll } from './prune.js'
import * as sql from './sql.js'
import { Turns, type Work } from './turn.js'
import { Watches } from './watch.js'

/** What `sqliteStore` takes. */
export interface SqliteStoreOptions {
  /** The file, made if need be; its directory must exist. A file of its own: not the application's database. */
  path: string
  /** The class of better-sqlite3 or libsql (their default exports), or `DatabaseSync` of node:sqlite. */
  Database: SqliteDatabaseClass
  /**
   * `normal`: a crash of the machine may undo the last grants, whose holders it ended as well. `full`: each answer is on the
   * disk before it is given. Default `normal`.
   */
  synchronous?: 'normal' | 'full'
  /** The clocks and timers. Default: this machine's. */
  clock?: Clock
  /** After how many ms a key that is free is forgotten (its token goes on rising). Default: 24 hours. */
  retentionMs?: number
  /** How long a withdrawn claim is remembered, in ms. Default 60,000, or two ttls of the key when those are longer. */
  endedRetentionMs?: number
}

/** A store in an SQLite file. */
export interface SqliteStore extends LeaseStore {
  /** The file, as an absolute path. */
  readonly path: string
  /** Forgets free keys last used more than `olderThanMs` ago (default: the retention). Gives how many. Tokens go on rising (G2). */
  prune(options?: { olderThanMs?: number }, call?: CallOptions): Promise<number>
  /** The file itself, whatever path leads to it: a quorum refuses two nodes that are one. */
  serverId(): Promise<string>
  /** "May be free now, for this claim": found by a look at the file every few ms (G8). */
  watch(key: string, options: { readonly claim: string; readonly signal: AbortSignal }): AsyncIterable<void>
}

/** What the SQLite store can do and promise, as data. */
export const sqliteCapabilities: StoreCapabilities = {
  clock: 'machine',
  tokens: 'microseconds',
  holdSurvives: ['client restart', 'store restart'],
  tokensSurvive: ['pruning', 'store restart', 'data loss'],
  ttlMsMin: 1,
  ttlMsGrain: 1,
  wakeUp: 'look',
  fair: true,
  tokenFloor: true,
  keyBytesMax: KEY_BYTES_MAX,
}

const DAY_MS = 86_400_000

/** So many rows of one `renew` share a transaction: about two ms. */
const RENEWALS_PER_STEP = 200

/** So many rows of `list` are read at once. */
const ROWS_PER_PAGE = 200

/**
 * A store that keeps leases in an SQLite file, for the processes of one machine (G1 to G4, G6, G11). It opens a connection of
 * its own. Waiting for another process's write lock never blocks the event loop.
 *
 * Throws InvalidArgumentError for options that cannot be right, and StoreError when the file cannot be opened, is no database,
 * or was written by a newer Holdfast.
 *
 * @example
 * ```ts
 * import Database from 'libsql'
 * const leases = createLeases({ store: sqliteStore({ path: 'leases.db', Database }) })
 * await leases.hold('report', ({ signal }) => writeReport(signal))
 * ```
 */
export function sqliteStore(options: SqliteStoreOptions): SqliteStore {
  const { Database, clock = systemClock, synchronous = 'normal' } = options
  const retentionMs = duration('retentionMs', options.retentionMs ?? DAY_MS)
  const path = checkPath(options.path)
  checkDatabaseClass(Database)
  if (synchronous !== 'normal' && synchronous !== 'full') {
    throw new InvalidArgumentError('synchronous', synchronous, "must be 'normal' or 'full'")
  }
  const microseconds = microsecondClock()
  const rules: protocol.Rules = {
    nextToken: (previous, floor, nowMs) => protocol.microsecondToken(previous, floor, microseconds(nowMs)),
    endedRetentionMs: duration('endedRetentionMs', options.endedRetentionMs ?? protocol.ENDED_RETENTION_MS),
  }

  const connections = new Connections({ path, Database, synchronous, clock })
  const turns = new Turns({ connections, path, clock, random: systemRandom })
  const watches = new Watches(clock, {
    version: () => connections.look((connection) => connection.dataVersion()),
    key: (key) => connections.look((connection) => connection.look(key)),
  })
  const pruning = new Pruning(turns, retentionMs)
  openNow(connections, path)

  /** One step on one key, which may share a transaction with others. */
  async function step<Answer>(
    key: string,
    run: Transition<Answer>,
    call?: CallOptions,
    plain?: Plain<Answer>,
  ): Promise<Answer> {
    const work: Work<Outcome<Answer>> = { run: (connection) => connection.step(key, run) }
    if (plain !== undefined) work.plain = plain
    const { answer, wake } = await turns.write(work, call)
    if (wake !== undefined) watches.wake(key, wake)
    pruning.wrote()
    return answer
  }

  function plainAcquire(connection: Connection, request: AcquireRequest): Outcome<Granted | Held> | undefined {
    const time = connection.plainTime()
    const answer = connection.plain.acquire(request, microseconds(time.nowMs), time)
    return answer && { answer }
  }

  return {
    name: 'sqlite',
    contract: 1,
    capabilities: sqliteCapabilities,
    path,

    acquire: (request, call) =>
      step<Granted | Held>(
        request.key,
        (state, nowMs) => protocol.acquire(state, request, nowMs, rules),
        call,
        isPlain(request) ? (connection) => plainAcquire(connection, request) : undefined,
      ),

    async renew(leases, call) {
      const parts: Promise<RenewOutcome[]>[] = []
      for (let first = 0; first < leases.length; first += RENEWALS_PER_STEP) {
        const part = leases.slice(first, first + RENEWALS_PER_STEP)
        parts.push(turns.write({ run: (connection) => part.map((lease) => renewOne(connection, lease)) }, call))
      }
      if (parts.length === 1) return (await parts[0]) ?? []
      const settled = await Promise.allSettled(parts)
      return settled.flatMap((part, index) => {
        if (part.status === 'fulfilled') return part.value
        const count = Math.min(RENEWALS_PER_STEP, leases.length - index * RENEWALS_PER_STEP)
        return Array.from({ length: count }, (): RenewOutcome => ({ is: 'unknown', cause: part.reason }))
      })
    },

    release: ({ key, claim }, call) =>
      step(
        key,
        (state, nowMs) => protocol.release(state, claim, nowMs, rules),
        call,
        (connection) => plainRelease(connection, key, claim),
      ),

    withdraw: (key, claim, call) =>
      step<void>(key, (state, nowMs) => protocol.withdraw(state, claim, nowMs, rules), call),

    inspect: (key, call) =>
      turns.read((connection) => {
        const { state, nowMs } = connection.look(key)
        return protocol.record(key, state, nowMs)
      }, call),

    async *list(listOptions) {
      let after = ''
      while (true) {
        const page = await turns.read((connection) => readPage(connection, after, listOptions))
        for (const record of page.records) yield record
        if (page.last === undefined) return
        after = page.last
      }
    },

    revoke: (key, { force = false } = {}, call) =>
      step<LeaseRecord | null>(
        key,
        (state, nowMs) => {
          const before = protocol.record(key, state, nowMs)
          const next = protocol.revoke(state, force, nowMs, rules)
          return { ...next, answer: next.answer ? before : null }
        },
        call,
      ),

    watch: (key, { claim, signal }) => watches.watch(key, claim, signal),

    async serverId() {
      const { dev, ino } = await stat(path, { bigint: true })
      return `sqlite ${dev}:${ino}`
    },

    async prune({ olderThanMs = retentionMs } = {}, call) {
      return pruneAll(turns, duration('olderThanMs', olderThanMs), call)
    },

    async close() {
      watches.close()
      turns.close()
      connections.giveUp()
    },
  }
}

type Transition<Answer> = (state: protocol.KeyState, nowMs: number) => protocol.Step<Answer>

/** What a step comes to, as far as others need to know. */
type Outcome<Answer> = { answer: Answer; wake?: string }

type Plain<Answer> = (connection: Connection) => Outcome<Answer> | undefined

const isPlain = ({ replaces, tokenFloor, meta }: AcquireRequest) =>
  replaces === undefined && tokenFloor === undefined && (meta === undefined || meta === null)

function plainRelease(connection: Connection, key: string, claim: string): Outcome<ReleaseOutcome> | undefined {
  const answer = connection.plain.release(key, claim, connection.plainTime())
  return answer && { answer, wake: '' }
}

/** A row that cannot be read spoils its own answer only. */
function renewOne(connection: Connection, { key, claim, ttlMs }: RenewRequest): RenewOutcome {
  try {
    const renewed = connection.plain.renew(key, claim, ttlMs, connection.plainTime())
    return renewed ?? connection.step(key, (state, nowMs) => protocol.renew(state, claim, ttlMs, nowMs)).answer
  } catch (cause) {
    if (cause instanceof HoldfastError) return { is: 'unknown', cause }
    throw cause
  }
}

/** The next few keys after `after`; `last` is where to go on. */
function readPage(connection: Connection, after: string, { prefix = '', free = false }: ListOptions = {}) {
  const rows = connection.read(sql.PAGE, after, prefix, free ? 1 : 0, ROWS_PER_PAGE)
  const nowMs = connection.nowMs()
  const records: LeaseRecord[] = []
  for (const row of rows) {
    const key = row[sql.KEY_CELL] as string
    if (!key.startsWith(prefix)) return { records, last: undefined }
    const { state, atMs } = sql.decode(row)
    const record = protocol.record(key, state, Math.max(nowMs, atMs))
    if (record !== null && (free || record.state === 'held' || record.waiters.length > 0)) records.push(record)
  }
  const last = rows.length < ROWS_PER_PAGE ? undefined : (rows.at(-1)?.[sql.KEY_CELL] as string)
  return { records, last }
}

function duration(option: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0) return value
  throw new InvalidArgumentError(option, value, 'must be a number of ms, 0 or more')
}
