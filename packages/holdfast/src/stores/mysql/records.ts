// Records in MySQL or MariaDB, through the application's own pool or in its own transaction, decided by the server's clock.
import type {
  BeginRequest,
  Begun,
  End,
  Records,
  RecordsCapabilities,
  TransactionRecords,
} from '../../idempotency/contract.js'
import * as protocol from '../../idempotency/protocol.js'
import { type Clock, systemClock } from '../../lease/clock.js'
import { ClosedError, InvalidArgumentError, StoreError } from '../../lease/errors.js'
import { KEY_BYTES_MAX } from '../../lease/keys.js'
import { type Random, systemRandom } from '../../lease/random.js'
import type { CallOptions } from '../../store/contract.js'
import { checkPool, type MysqlPool, type MysqlStatement, PLAIN_ROWS } from './client.js'
import { errnoOf, isAgain, isMissing } from './failure.js'
import { namesOf } from './names.js'
import { decodeRecord, isSame, type MysqlRecordsNames, ROWS_PER_PRUNE, recordsSql, saveValues } from './records-sql.js'
import { checkVersion, type Row, Server, type Value } from './server.js'
import { bytesOf } from './wire.js'

/** What `mysqlRecords` takes beside the pool. */
export interface MysqlRecordsOptions extends MysqlRecordsNames {
  /** Whether a missing table is made at the first use. Default true; else see `mysqlRecordsSchema`. */
  readonly migrate?: boolean
  /** The clocks and timers of the background. Default: this machine's. */
  readonly clock?: Clock
  /** Where its jitter comes from. Default: the platform's generator. */
  readonly random?: Random
}

/** The application's connection of `mysql2/promise`, on which a transaction has begun: only what is called. */
export interface MysqlTransaction {
  query(statement: MysqlStatement): Promise<[unknown, ...unknown[]]>
}

/** Records in MySQL or MariaDB. */
export interface MysqlRecords extends Records, TransactionRecords<MysqlTransaction> {
  /** Makes the table, if it is not there: the first use does so too, unless `migrate` is false. Not within a transaction. */
  install(): Promise<void>
}

/** What records in MySQL can do and promise, as data. */
export const mysqlRecordsCapabilities: RecordsCapabilities = {
  clock: 'server',
  survives: ['client restart', 'store restart', 'power loss'],
  keyBytesMax: KEY_BYTES_MAX,
}

const TIMEOUT_MS = 10_000
const SCHEMA_TIMEOUT_MS = 60_000
const AGAIN_MAX = 20

/** Bits of the server's status: a transaction is open; so the connection does not commit by itself. */
const IN_TRANSACTION = 1

/**
 * Records of `once` and `onceInTransaction` in MySQL 8 or MariaDB 10.6 or newer, through a pool of `mysql2/promise`. To run in the
 * application's transaction the records must be on its server.
 *
 * Throws InvalidArgumentError for what is no such pool, and for names that cannot be right.
 *
 * @example
 * ```ts no-run
 * import { createPool } from 'mysql2/promise'
 * const records = mysqlRecords(createPool('mysql://localhost/shop'))
 * const options = { key: 'order-1', fingerprint: fingerprintOf({ amount: 100 }) }
 * const receipt = await once(records, options, () => charge(100))
 * ```
 */
export function mysqlRecords(pool: MysqlPool, options: MysqlRecordsOptions = {}): MysqlRecords {
  checkPool(pool)
  const { clock = systemClock, random = systemRandom, migrate = true } = options
  const sql = recordsSql(options)
  const server = new Server({ pool, names: namesOf(), migrate: false, clock, random })
  let closed = false
  let migrating: Promise<void> | undefined
  let runs = 0

  function install(): Promise<void> {
    migrating ??= makeTable().finally(() => {
      migrating = undefined
    })
    return migrating
  }

  async function makeTable(): Promise<void> {
    checkVersion(await server.version(SCHEMA_TIMEOUT_MS))
    for (const text of sql.schema) {
      await server
        .run('the making of the table of records', SCHEMA_TIMEOUT_MS, (connection) => connection.query({ sql: text }))
        .catch((error) => {
          if (!(text.startsWith('CREATE DATABASE') && errnoOf(error) === 1044)) throw error // it may be there all the same
        })
    }
  }

  /** Runs one statement; what the server undid for the sake of others is run again. */
  async function run(what: string, text: string, values: Value[], call?: CallOptions): Promise<unknown> {
    if (closed) {
      throw new StoreError('these records are closed', {
        outcome: 'none',
        cause: new ClosedError('these records are closed'),
      })
    }
    const untilMonoMs = clock.monoMs() + (call?.timeoutMs ?? TIMEOUT_MS)
    let made = !migrate
    for (let attempt = 0; ; attempt++) {
      try {
        const timeoutMs = Math.max(1, untilMonoMs - clock.monoMs())
        return await server.run(what, timeoutMs, async (connection) => {
          const [answer] = await connection.execute({ ...PLAIN_ROWS, sql: text, values })
          const { serverStatus = 0 } = answer as Header
          if ((serverStatus & IN_TRANSACTION) !== 0) await connection.query({ sql: 'COMMIT' }) // autocommit is off
          return answer
        })
      } catch (error) {
        if (isMissing(error) && !made) {
          made = true
          await install()
        } else if (!isAgain(error) || clock.monoMs() >= untilMonoMs) throw error
        else await server.pause(attempt)
      }
    }
  }

  /** Reads, decides, and writes if the row is still as it was read. `load`: whether others are kept from it until the end. */
  async function step<Answer>(
    run: Run,
    load: string,
    key: string,
    decide: (record: protocol.RecordState | undefined, nowMs: number) => protocol.RecordStep<Answer> | 'gone',
  ): Promise<Answer | 'gone'> {
    for (let attempt = 1; attempt <= AGAIN_MAX; attempt++) {
      const [row] = (await run('a look at a record', load, [bytesOf(key)])) as Row[]
      const loaded = decodeRecord(row)
      const step = decide(loaded?.record, loaded?.nowMs ?? 0)
      if (step === 'gone') return 'gone'
      const { record, answer } = step
      if (loaded === undefined || record === undefined || isSame(loaded.record, record)) return answer
      const saved = (await run('a record', sql.save, saveValues(key, loaded.record, record))) as Header
      if (saved.affectedRows > 0) return answer
    }
    throw new StoreError('others changed the record of this key again and again: try again', { outcome: 'none' })
  }

  const begin = (request: BeginRequest) => (record: protocol.RecordState | undefined, nowMs: number) =>
    record === undefined
      ? 'gone'
      : protocol.begin(record, request, nowMs, (previous) => Math.max(previous + 1, Math.floor(nowMs * 1000)))

  async function finish(run: Run, load: string, key: string, claim: string, end: End, retentionMs: number) {
    if ('text' in end) {
      const values = [END_STATE[end.is], bytesOf(end.text), retentionMs * 1000, bytesOf(key), bytesOf(claim)]
      if (((await run('a record', sql.done, values)) as Header).affectedRows > 0) return 'recorded'
    }
    const answer = await step(run, load, key, (record, nowMs) =>
      protocol.finish(record, claim, end, retentionMs, nowMs),
    )
    return answer === 'recorded' ? answer : 'lost'
  }

  const through =
    (call?: CallOptions): Run =>
    (what, text, values) =>
      run(what, text, values, call)

  return {
    name: 'mysql',
    contract: 1,
    capabilities: mysqlRecordsCapabilities,
    install,

    async begin(request, call) {
      if (++runs % ROWS_PER_PRUNE === 0) run('a pruning', sql.prune, []).catch(() => {}) // the next one will do
      for (let attempt = 1; attempt <= AGAIN_MAX; attempt++) {
        const inserted = (await run('a claim', sql.insert, insertValues(request), call)) as Header
        if (inserted.affectedRows > 0) {
          return { is: 'run', token: Number(inserted.insertId), attempt: 1, afterUnknown: false }
        }
        const begun = await step(through(call), sql.load, request.key, begin(request))
        if (begun !== 'gone') return rounded(begun)
      }
      throw new StoreError('others changed the record of this key again and again: try again', { outcome: 'none' })
    },

    async extend({ key, claim }, ttlMs, retentionMs, call) {
      const answer = await step(through(call), sql.load, key, (record, nowMs) =>
        protocol.extend(record, claim, ttlMs, retentionMs, nowMs),
      )
      return answer === 'extended' ? answer : 'lost'
    },

    finish: ({ key, claim }, end, retentionMs, call) => finish(through(call), sql.load, key, claim, end, retentionMs),

    async withdraw({ key, claim }, call) {
      const row = [bytesOf(key), 0, NOTHING, bytesOf(claim), NOTHING, 0, 0, protocol.ENDED_RETENTION_MS * 1000]
      const inserted = (await run('a withdrawal', sql.insert, row, call)) as Header
      if (inserted.affectedRows > 0) return
      await step(through(call), sql.load, key, (record, nowMs) => ({
        record: protocol.withdraw(record, claim, nowMs),
        answer: undefined,
      }))
    },

    async inspect(key, call) {
      const [row] = (await run('a look', sql.load, [bytesOf(key)], call)) as Row[]
      const loaded = decodeRecord(row)
      return protocol.view(key, loaded?.record, loaded?.nowMs ?? 0)
    },

    async prune(call) {
      let forgotten = 0
      while (true) {
        const { affectedRows } = (await run('a pruning', sql.prune, [], call)) as Header
        if (affectedRows === 0) return forgotten
        forgotten += affectedRows
      }
    },

    async close() {
      closed = true
    },

    inTransaction: {
      async begin(tx, request) {
        const inside = await within(tx)
        await inside('a claim', sql.insertInside, insertValues(request))
        const mine = { ...request }
        const begun = await step<Begun>(inside, sql.loadInside, request.key, (record, nowMs) => {
          if (record?.claim !== mine.claim) return begin(mine)(record, nowMs)
          const { token, attempt, afterUnknown } = record
          return { record, answer: { is: 'run', token, attempt, afterUnknown } }
        })
        return begun === 'gone' ? { is: 'ended' } : rounded(begun)
      },
      finish: async (tx, { key, claim }, end, retentionMs) =>
        finish(await within(tx), sql.loadInside, key, claim, end, retentionMs),
    },
  }
}

const NOTHING = bytesOf('')

/** A run of a key that has no row. */
function insertValues({ key, fingerprint, claim, holder, ttlMs, retentionMs }: BeginRequest): Value[] {
  const texts = [fingerprint, claim, holder].map(bytesOf)
  return [bytesOf(key), 1, ...texts, 1, ttlMs * 1000, (ttlMs + retentionMs) * 1000]
}

type Run = (what: string, text: string, values: Value[]) => Promise<unknown>

interface Header {
  readonly affectedRows: number
  readonly insertId: number | string
  readonly serverStatus?: number
}

const END_STATE = { returned: 2, threw: 3 } as const

const rounded = (begun: Begun): Begun =>
  begun.is === 'running' ? { ...begun, remainingMs: Math.ceil(begun.remainingMs) } : begun

const EXPECTED =
  'must be a connection of mysql2/promise on which a transaction has begun, so that the record and your writes are one step'

/** Statements in the application's transaction. What the driver throws is the application's: it knows when to run it again. */
async function within(tx: MysqlTransaction): Promise<Run> {
  const methods = typeof tx === 'object' && tx !== null ? (tx as unknown as Record<string, unknown>) : {}
  const isPool = typeof methods.getConnection === 'function'
  if (typeof methods.query !== 'function' || isPool || typeof methods.promise === 'function') {
    throw new InvalidArgumentError('tx', tx, EXPECTED)
  }
  const [header] = await tx.query({ sql: 'DO 0' })
  const { serverStatus = IN_TRANSACTION } = header as Header
  if ((serverStatus & IN_TRANSACTION) === 0) throw new InvalidArgumentError('tx', tx, EXPECTED)
  return async (_what, text, values) => {
    try {
      return (await tx.query({ ...PLAIN_ROWS, sql: text, values }))[0]
    } catch (error) {
      if (errnoOf(error) !== 1146) throw error
      throw new StoreError(
        'the table of records is missing: await records.install() once at the start, outside of a transaction',
        { outcome: 'none', lasting: true, cause: error },
      )
    }
  }
}
