// Records in Postgres, through the application's own pool or in its own transaction, decided by the server's clock. One statement
// a verb, no session state: proxies that share connections out by the transaction do not matter.
import type {
  BeginRequest,
  Begun,
  End,
  Records,
  RecordsCapabilities,
  StoredEnd,
  TransactionRecords,
} from '../../idempotency/contract.js'
import * as protocol from '../../idempotency/protocol.js'
import { type Clock, systemClock } from '../../lease/clock.js'
import { ClosedError, InvalidArgumentError, StoreError } from '../../lease/errors.js'
import { KEY_BYTES_MAX } from '../../lease/keys.js'
import type { CallOptions } from '../../store/contract.js'
import { outside, type PostgresTransaction, rowsOf } from './application.js'
import { type PostgresClient, type Row, type Statement, wireOf } from './client.js'
import { namesOf } from './names.js'
import { type PostgresRecordsNames, recordsSql } from './records-sql.js'
import { Server } from './server.js'

/** What `postgresRecords` takes beside the client. */
export interface PostgresRecordsOptions extends PostgresRecordsNames {
  /** Whether a missing table is made at the first use. Default true; else see `postgresRecordsSchema`. */
  readonly migrate?: boolean
  /** Whether statements are prepared, under names, once for each connection. Default true; see `postgresStore`. */
  readonly prepare?: boolean
  /** The clocks and timers of the background. Default: this machine's. */
  readonly clock?: Clock
}

/** Records in Postgres. */
export interface PostgresRecords extends Records, TransactionRecords<PostgresTransaction> {
  /** Makes the table, if it is not there: the first use does so too, unless `migrate` is false. */
  install(): Promise<void>
}

/** What records in Postgres can do and promise, as data. They survive a fail-over as far as the standby is synchronous. */
export const postgresRecordsCapabilities: RecordsCapabilities = {
  clock: 'server',
  survives: ['client restart', 'store restart', 'power loss'],
  keyBytesMax: KEY_BYTES_MAX,
}

/** A row that changed under our eyes is looked at again so often at most. */
const AGAIN_MAX = 20

/** After so many runs the next so many pages of the table are looked through for what may be forgotten. */
const RUNS_PER_PRUNE = 500
const PAGES_PER_PRUNE = 256

/**
 * Records of `once` and `onceInTransaction` in Postgres, through the application's own pool (of pg or postgres.js). To run in the
 * application's transaction the records must be in its database.
 *
 * Throws InvalidArgumentError for what is no pool, and for names that cannot be right.
 *
 * @example
 * ```ts no-run
 * import { Pool } from 'pg'
 * const pool = new Pool()
 * const records = postgresRecords(pool)
 * const options = { key: 'order-1', fingerprint: fingerprintOf({ amount: 100 }) }
 * const receipt = await once(records, options, () => charge(100))
 * ```
 */
export function postgresRecords(client: PostgresClient, options: PostgresRecordsOptions = {}): PostgresRecords {
  const { clock = systemClock, migrate = true, prepare = true } = options
  const sql = recordsSql(options)
  const schema = `${sql.schema.join(';\n')};`
  const server = new Server({ wire: wireOf(client, clock), names: namesOf(), migrate, prepare, schema, clock })
  let closed = false
  let runs = 0
  let page = 0

  /** Runs one statement; what lost to others, and was undone, is run again. */
  async function run(what: string, statement: Statement, call?: CallOptions): Promise<readonly Row[]> {
    if (closed) {
      throw new StoreError('these records are closed', {
        outcome: 'none',
        cause: new ClosedError('these records are closed'),
      })
    }
    return await server.run(what, statement, call?.timeoutMs, true)
  }

  async function finish(run: Run, key: string, claim: string, end: End, retentionMs: number) {
    const ended = 'text' in end
    const values = ended
      ? [key, claim, retentionMs, STATE_OF[end.is], end.text]
      : [key, claim, retentionMs, end.is === 'forgotten']
    if ((await run('a record', { text: ended ? sql.done : sql.leave, values })).length > 0) return 'recorded'
    const [row] = await run('a look at a record', { text: sql.look, values: [key] })
    const { record, nowMs } = recordOf(row)
    return protocol.finish(record, claim, end, retentionMs, nowMs).answer
  }

  async function begin(run: Run, text: string, request: BeginRequest): Promise<{ begun: Begun; row: Row | undefined }> {
    const { key, claim, fingerprint, holder, ttlMs, retentionMs, takeOver } = request
    const values = [key, claim, fingerprint, holder, ttlMs, retentionMs, takeOver]
    for (let asked = 1; ; asked++) {
      const [row] = await run('a claim', { text, values })
      const begun = row?.inside === false ? ENDED : readBegun(row, request)
      if (begun !== undefined) return { begun, row }
      if (asked > AGAIN_MAX) {
        throw new StoreError('others changed the record of this key again and again: try again', { outcome: 'none' })
      }
    }
  }

  /** The table must be there before: an error would end the application's transaction. */
  async function mark(run: Run, claim: string): Promise<void> {
    const [row] = await run('a look for the table of records', { text: sql.mark, values: [claim] })
    if (row?.there === true) return
    if (!migrate) {
      throw new StoreError('the table of records is missing: run the SQL of postgresRecordsSchema()', {
        outcome: 'none',
        lasting: true,
      })
    }
    for (const text of sql.schema) await run('the making of the table of records', { text, values: [] })
  }

  async function prunePages(pages: number, call?: CallOptions): Promise<number> {
    const values = [`(${page},0)`, `(${page + pages},0)`]
    const [row] = await run('a pruning', { text: sql.prune, values }, call)
    page = page + pages >= Number(row?.pages) ? 0 : page + pages
    return Number(row?.gone)
  }

  return {
    name: 'postgres',
    contract: 1,
    capabilities: postgresRecordsCapabilities,
    install: () => server.install(),

    async begin(request, call) {
      if (++runs % RUNS_PER_PRUNE === 0) prunePages(PAGES_PER_PRUNE).catch(() => {}) // the next one will do
      return (await begin((what, statement) => run(what, statement, call), sql.begin, request)).begun
    },

    async extend({ key, claim }, ttlMs, retentionMs, call) {
      const values = [key, claim, ttlMs, retentionMs]
      return (await run('a renewal', { text: sql.extend, values }, call)).length > 0 ? 'extended' : 'lost'
    },

    finish: ({ key, claim }, end, retentionMs, call) =>
      finish((what, statement) => run(what, statement, call), key, claim, end, retentionMs),

    async withdraw({ key, claim }, call) {
      await run('a withdrawal', { text: sql.withdraw, values: [key, claim] }, call)
    },

    async inspect(key, call) {
      const [row] = await run('a look', { text: sql.look, values: [key] }, call)
      const { record, nowMs } = recordOf(row)
      return protocol.view(key, record, nowMs)
    },

    async prune(call) {
      page = 0
      let forgotten = 0
      do forgotten += await prunePages(PAGES_PER_PRUNE * 16, call)
      while (page > 0)
      return forgotten
    },

    async close() {
      closed = true
    },

    inTransaction: {
      async begin(tx, request) {
        const inside = within(tx)
        await mark(inside, request.claim)
        const { begun, row } = await begin(inside, sql.beginInside, request)
        if (row?.inside === false) throw outside('tx', tx)
        return begun
      },
      finish: (tx, { key, claim }, end, retentionMs) => finish(within(tx), key, claim, end, retentionMs),
    },
  }
}

type Run = (what: string, statement: Statement) => Promise<readonly Row[]>

/** Statements in the application's transaction. What the driver throws is the application's: it knows when to run it again. */
const within =
  (tx: PostgresTransaction): Run =>
  async (_what, { text, values }) =>
    (await rowsOf(tx, text, values as (string | number | boolean)[])) as readonly Row[]

const ENDED: Begun = { is: 'ended' }
const STATES = ['free', 'running', 'done', 'done'] as const
const STATE_OF = { returned: 2, threw: 3 } as const

/** What a row says, in ms; no record when there is none. */
function recordOf(row: Row | undefined): { record: protocol.RecordState | undefined; nowMs: number } {
  if (row === undefined || row.state === null) return { record: undefined, nowMs: 0 }
  const state = Number(row.state)
  const end: StoredEnd | null =
    state < 2 ? null : { is: state === 3 ? 'threw' : 'returned', text: String(row.end_text) }
  const record: protocol.RecordState = {
    state: STATES[state] ?? 'free',
    fingerprint: String(row.fingerprint),
    claim: String(row.claim),
    holder: String(row.holder),
    token: exact(row.token),
    attempt: Number(row.attempt),
    afterUnknown: row.after_unknown === true,
    termMs: Number(row.term_us) / 1000,
    keepMs: Number(row.keep_us) / 1000,
    end,
  }
  return { record, nowMs: Number(row.us) / 1000 }
}

/** The answer: of the statement when this claim runs, else of the protocol. Undefined: the row changed meanwhile. */
function readBegun(row: Row | undefined, request: BeginRequest): Begun | undefined {
  const { record, nowMs } = recordOf(row)
  if (record === undefined) return undefined
  const { token, attempt, afterUnknown } = record
  if (row?.ran === true) return { is: 'run', token, attempt, afterUnknown }
  const { answer } = protocol.begin(record, request, nowMs, (previous) => previous + 1)
  if (answer.is === 'run') return undefined
  if (answer.is === 'running') return { ...answer, remainingMs: Math.ceil(answer.remainingMs) }
  return answer
}

function exact(token: unknown): number {
  const number = Number(token)
  if (Number.isSafeInteger(number)) return number
  throw new InvalidArgumentError('token', token, 'of a record must be at most 2^53 - 1')
}
