// Leases in MySQL or MariaDB: a row a key, decided by the server's clock, which is read while the row is locked (G1). A verb is one
// call of a procedure and one transaction of its own; what a process asks for at the same time shares a call, and so a commit.
import { type Clock, systemClock } from '../../lease/clock.js'
import { ClosedError, InvalidArgumentError, StoreError } from '../../lease/errors.js'
import { KEY_BYTES_MAX } from '../../lease/keys.js'
import { type Random, systemRandom } from '../../lease/random.js'
import type {
  AcquireRequest,
  CallOptions,
  Granted,
  Held,
  LeaseStore,
  RenewOutcome,
  RenewRequest,
  StoreCapabilities,
  WatchOptions,
} from '../../store/contract.js'
import { checkPool, type MysqlPool, textOf } from './client.js'
import { CALL_MS, Lane, untilUnlocked } from './lane.js'
import { type MysqlNames, namesOf } from './names.js'
import { Plain, type Told } from './plain.js'
import { Pruning, pruneAll } from './prune.js'
import { Server } from './server.js'
import { Watches } from './watch.js'
import {
  acquireReplies,
  acquireValues,
  bytesOf,
  checkClaim,
  oneReply,
  plainReplies,
  type Reply,
  readAcquire,
  readRecords,
  readRelease,
  readRenew,
  releaseValues,
  renewValues,
  safe,
} from './wire.js'

/** What `mysqlStore` takes beside the pool. */
export interface MysqlStoreOptions extends MysqlNames {
  /** Whether missing tables and procedures are made at the first use. Default true; else see `mysqlSchema`. */
  readonly migrate?: boolean
  /** After how many ms a key that is free is forgotten (its token goes on rising). Default: 24 hours. */
  readonly retentionMs?: number
  /** How long a withdrawn claim is remembered, in ms. Default 60,000, or two ttls of the key when those are longer. */
  readonly endedRetentionMs?: number
  /** The clocks and timers of the background. Default: this machine's. */
  readonly clock?: Clock
  /** Where its jitter comes from. Default: the platform's generator. */
  readonly random?: Random
}

/** A store in MySQL or MariaDB. */
export interface MysqlStore extends LeaseStore {
  /** Makes the tables and procedures, if they are not there: the first use does so too, unless `migrate` is false. */
  install(): Promise<void>
  /** Forgets free keys last used more than `olderThanMs` ago (default: the retention). Gives how many. Tokens go on rising (G2). */
  prune(options?: { olderThanMs?: number }, call?: CallOptions): Promise<number>
  /** "May be free now, for this claim": found by a look at a steady pace (G8). */
  watch(key: string, options: WatchOptions): AsyncIterable<void>
  /** The name that the tables were given when they were made: the same for a server and its replica. */
  serverId(): Promise<string>
}

/** What the MySQL store can do and promise, as data. */
export const mysqlCapabilities: StoreCapabilities = {
  clock: 'server',
  tokens: 'microseconds',
  holdSurvives: ['client restart', 'store restart', 'power loss'],
  tokensSurvive: ['pruning', 'store restart', 'fail-over', 'data loss'],
  ttlMsMin: 1,
  ttlMsGrain: 1,
  wakeUp: 'look',
  fair: true,
  tokenFloor: true,
  keyBytesMax: KEY_BYTES_MAX,
}

const DAY_MS = 86_400_000

/** How long one of several renewals waits for a row that somebody else has locked, beside the others. */
const LOCKED_RENEWAL_MS = 250

/** So many operations share a call: of acquires and releases about two ms of the server's time, of renewals about five. */
const SHARED_MAX = 128
const SHARED_RENEWALS_MAX = 500

/** How many calls of a verb are under way: while one is committed, the next are made; their commits share a flush of the disk. */
const STATEMENTS = 3

const ROWS_PER_PAGE = 200

/**
 * A store that keeps leases in MySQL 8.0 or MariaDB 10.6, or newer, through the application's own pool (G1 to G4, G6, G11).
 *
 * Throws InvalidArgumentError for what is no pool of `mysql2/promise`, and for options that cannot be right.
 *
 * @example
 * ```ts no-run
 * import { createPool } from 'mysql2/promise'
 * const leases = createLeases({ store: mysqlStore(createPool('mysql://app@db/shop')) })
 * await leases.hold('report', ({ signal }) => writeReport(signal))
 * ```
 */
export function mysqlStore(pool: MysqlPool, options: MysqlStoreOptions = {}): MysqlStore {
  checkPool(pool)
  const { clock = systemClock, random = systemRandom, migrate = true } = options
  const names = namesOf(options)
  const retentionMs = whole('retentionMs', options.retentionMs ?? DAY_MS)
  const endedRetentionMs = whole('endedRetentionMs', options.endedRetentionMs ?? 60_000)
  const server = new Server({ pool, names, migrate, clock, random })
  const plain = new Plain(server, names, clock)
  const pruning = new Pruning(server, retentionMs)
  const watches = new Watches(clock, async (watched) => {
    const [ops] = releaseValues(watched)
    const [rows = []] = await server.call('look', [ops], { what: 'a look', timeoutMs: 2_000 })
    const free = new Set(rows.map((row) => Number(row.place)))
    return watched.map((_, i) => free.has(i + 1))
  })
  let closed = false

  const closedError = () => new StoreError('the mysql store is closed', { outcome: 'none', cause: new ClosedError() })
  function check(): void {
    if (closed) throw closedError()
  }

  const acquires = new Lane<AcquireRequest>({
    server,
    clock,
    what: 'an acquire',
    statements: STATEMENTS,
    operations: SHARED_MAX,
    async send(requests, timeoutMs) {
      const [rows] = await server.call('acquire', acquireValues(requests), { what: 'an acquire', timeoutMs })
      return acquireReplies(rows?.[0], requests.length)
    },
  })
  const renewals = new Lane<RenewRequest>({
    server,
    clock,
    what: 'a renewal',
    statements: STATEMENTS,
    operations: SHARED_RENEWALS_MAX,
    async send(leases, timeoutMs) {
      const [rows] = await server.call('renew', renewValues(leases), { what: 'a renewal', timeoutMs })
      return plainReplies(rows?.[0], leases.length)
    },
  })
  const releases = new Lane<{ readonly key: string; readonly claim: string }>({
    server,
    clock,
    what: 'a release',
    statements: STATEMENTS,
    operations: SHARED_MAX,
    async send(claims, timeoutMs) {
      const [rows] = await server.call('release', releaseValues(claims), { what: 'a release', timeoutMs })
      return plainReplies(rows?.[0], claims.length, '')
    },
  })

  async function renewOne(lease: RenewRequest, call: CallOptions | undefined, alone: boolean): Promise<RenewOutcome> {
    try {
      return readRenew(await renewals.ask(lease, call, alone ? undefined : LOCKED_RENEWAL_MS), lease.ttlMs)
    } catch (cause) {
      if (alone) throw cause
      return { is: 'unknown', cause }
    }
  }

  /** The procedure, after a plain statement that has not done it, or nobody knows. `wake`: whose turn comes thereby. */
  async function afterPlain(
    told: Told,
    askedMonoMs: number,
    wake: string | undefined,
    then: (call: CallOptions | undefined) => Promise<Reply>,
    call: CallOptions | undefined,
  ): Promise<Reply> {
    const timeoutMs = call?.timeoutMs === undefined ? undefined : call.timeoutMs - (clock.monoMs() - askedMonoMs)
    try {
      const reply = await then(timeoutMs === undefined ? call : { ...call, timeoutMs })
      return told === 'perhaps' && reply.is === 1 ? { ...reply, wake: reply.wake ?? wake } : reply
    } catch (error) {
      if (told === 'no' || !(error instanceof StoreError) || error.outcome === 'unknown') throw error
      throw new StoreError(`${error.message}; whether it was applied is unknown`, {
        outcome: 'unknown',
        lasting: error.lasting,
        cause: error,
      })
    }
  }

  /** A verb on one key, asked again until nobody else has its row. */
  async function one(
    what: string,
    call: CallOptions | undefined,
    send: (leftMs: number) => Promise<Reply>,
  ): Promise<Reply> {
    const timeoutMs = call?.timeoutMs ?? CALL_MS
    const endMonoMs = clock.monoMs() + timeoutMs
    const reply = await send(timeoutMs)
    return reply.is === -7 ? untilUnlocked(server, clock, what, endMonoMs, send) : reply
  }

  return {
    name: 'mysql',
    contract: 1,
    capabilities: mysqlCapabilities,

    // These two are no async functions, whose frames each verb would leave to the garbage collector.
    acquire(request, call): Promise<Granted | Held> {
      try {
        check()
        checkClaim(request.claim)
      } catch (error) {
        return Promise.reject(error)
      }
      const { key, ttlMs } = request
      const together = (own: CallOptions | undefined) => acquires.ask(request, own)
      const read = (reply: Reply) => {
        if (reply.wake !== undefined) watches.wake(key, reply.wake)
        pruning.wrote()
        return readAcquire(reply, key, ttlMs)
      }
      if (!plain.takes(request)) return together(call).then(read)
      const askedMonoMs = clock.monoMs()
      return plain.acquire(request, call).then((told) => {
        if (typeof told !== 'number') return afterPlain(told, askedMonoMs, undefined, together, call).then(read)
        pruning.wrote()
        return { is: 'granted', token: safe(told, key), ttlMs }
      })
    },

    async renew(leases, call) {
      check()
      return Promise.all(leases.map((lease) => renewOne(lease, call, leases.length === 1)))
    },

    release({ key, claim }, call) {
      if (closed) return Promise.reject(closedError())
      const claimed = { key, claim }
      const together = (own: CallOptions | undefined) => releases.ask(claimed, own)
      const read = (reply: Reply) => {
        if (reply.wake !== undefined) watches.wake(key, reply.wake)
        if (reply.is === 1 && reply.wake === '') plain.freed(key)
        return readRelease(reply)
      }
      if (!plain.knows(key)) return together(call).then(read)
      const askedMonoMs = clock.monoMs()
      return plain.release(claimed, call).then((told) => {
        // Nobody waits for a key that is plain.
        if (typeof told !== 'number') return afterPlain(told, askedMonoMs, '', together, call).then(read)
        watches.wake(key, '')
        return { is: 'released' }
      })
    },

    async withdraw(key, claim, call) {
      check()
      checkClaim(claim)
      const reply = await one('a withdrawal', call, async (timeoutMs) => {
        const values = [bytesOf(key), bytesOf(claim), endedRetentionMs]
        const [rows] = await server.call('withdraw', values, { what: 'a withdrawal', timeoutMs })
        return oneReply(rows?.[0])
      })
      if (reply.wake !== undefined) watches.wake(key, reply.wake)
    },

    async inspect(key, call) {
      check()
      const timeoutMs = call?.timeoutMs ?? CALL_MS
      const [rows = []] = await server.call('inspect', [bytesOf(key)], { what: 'a look', timeoutMs })
      return readRecords(rows)[0]?.record ?? null
    },

    async *list({ prefix = '', free = false } = {}) {
      check()
      let after = ''
      while (true) {
        const values = [bytesOf(after), bytesOf(prefix), free ? 1 : 0, ROWS_PER_PAGE]
        const [rows = []] = await server.call('list', values, { what: 'a listing', timeoutMs: CALL_MS })
        const page = readRecords(rows)
        for (const { key, record } of page) {
          if (!key.startsWith(prefix)) return
          if (record !== null && (free || record.state === 'held' || record.waiters.length > 0)) yield record
          after = key
        }
        if (page.length < ROWS_PER_PAGE) return
      }
    },

    async revoke(key, { force = false } = {}, call) {
      check()
      let before = readRecords([])[0]
      const reply = await one('a revocation', call, async (timeoutMs) => {
        const values = [bytesOf(key), force ? 1 : 0, endedRetentionMs]
        const sets = await server.call('revoke', values, { what: 'a revocation', timeoutMs })
        before = readRecords(sets[0] ?? [])[0]
        return oneReply(sets[1]?.[0])
      })
      if (reply.wake !== undefined) watches.wake(key, reply.wake)
      return reply.is === 1 ? (before?.record ?? null) : null
    },

    watch: (key, { claim, signal }) => watches.watch(key, claim, signal),

    async serverId() {
      check()
      const [rows] = await server.call('name', [], { what: 'a look', timeoutMs: CALL_MS })
      return `mysql ${textOf(rows?.[0]?.name)}`
    },

    async install() {
      check()
      await server.migrate()
    },

    async prune({ olderThanMs = retentionMs } = {}, call) {
      check()
      return pruneAll(server, whole('olderThanMs', olderThanMs), call)
    },

    async close() {
      closed = true
      watches.close()
    },
  }
}

function whole(option: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw new InvalidArgumentError(option, value, 'must be a whole number of ms, 0 or more')
}
