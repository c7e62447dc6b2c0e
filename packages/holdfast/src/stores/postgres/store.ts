// Leases in Postgres: a row a key, decided by the server's clock, with the row's lock held and read after it (G1). What a process asks
// for at the same time shares a statement, and so a commit. No state of a session is used, so that any pool or proxy will do.
import { type Clock, systemClock } from '../../lease/clock.js'
import { ClosedError, InvalidArgumentError, StoreError } from '../../lease/errors.js'
import { KEY_BYTES_MAX } from '../../lease/keys.js'
import { type Random, systemRandom } from '../../lease/random.js'
import type {
  AcquireRequest,
  CallOptions,
  Grant,
  LeaseStore,
  RenewOutcome,
  RenewRequest,
  StoreCapabilities,
  WatchOptions,
} from '../../store/contract.js'
import { type PostgresClient, wireOf } from './client.js'
import { alone, Lane } from './lane.js'
import { list } from './list.js'
import { namesOf, type PostgresNames } from './names.js'
import { Pruning, pruneAll } from './prune.js'
import { readAcquire, readRecord, readRelease, readRenew } from './reply.js'
import { Server } from './server.js'
import { Watches } from './watch.js'

/** What `postgresStore` takes beside the client. */
export interface PostgresStoreOptions extends PostgresNames {
  /** Whether missing tables and functions are made at the first use. Default true; else see `postgresSchema`. */
  readonly migrate?: boolean
  /**
   * Whether statements are prepared, under names, once for each connection. Default true; given up by itself behind a proxy that
   * cannot carry it.
   */
  readonly prepare?: boolean
  /**
   * The pool whose server is listened to for wake-ups: default, the store's own. `false`: waiters ask at a steady pace, as they must
   * behind a proxy that shares connections out by the transaction.
   */
  readonly listen?: false | PostgresClient
  /** After how many ms a key that is free is forgotten (its token goes on rising). Default: 24 hours. */
  readonly retentionMs?: number
  /** How long a withdrawn claim is remembered, in ms. Default 60,000, or two ttls of the key when those are longer. */
  readonly endedRetentionMs?: number
  /** The clocks and timers of the background. Default: this machine's. */
  readonly clock?: Clock
  /** Where its jitter comes from. Default: the platform's generator. */
  readonly random?: Random
}

/** A store in Postgres. */
export interface PostgresStore extends LeaseStore {
  /** Makes the tables and functions, if they are not there: the first use does so too, unless `migrate` is false. */
  install(): Promise<void>
  /** Forgets free keys last used more than `olderThanMs` ago (default: the retention). Gives how many. Tokens go on rising (G2). */
  prune(options?: { olderThanMs?: number }): Promise<number>
  /** The system identifier of the server and the database: the same for a server and its replica. */
  serverId(): Promise<string>
}

/** What the Postgres store can do and promise, as data. */
export const postgresCapabilities: StoreCapabilities = {
  clock: 'server',
  tokens: 'microseconds',
  holdSurvives: ['client restart', 'store restart', 'power loss'],
  tokensSurvive: ['pruning', 'store restart', 'fail-over', 'data loss'],
  ttlMsMin: 1,
  ttlMsGrain: 1,
  wakeUp: 'push',
  fair: true,
  tokenFloor: true,
  keyBytesMax: KEY_BYTES_MAX,
}

const DAY_MS = 86_400_000

/** How long a renewal of a row that somebody else has locked waits for it, beside the others. */
const LOCKED_RENEWAL_MS = 250

/**
 * A store that keeps leases in Postgres 12 or newer, through the application's own pool (G1 to G4, G6, G11). It opens one more
 * connection, for wake-ups, while anybody waits.
 *
 * Throws InvalidArgumentError for what is no Pool of pg nor the sql of postgres.js, and for options that cannot be right.
 *
 * @example
 * ```ts no-run
 * import pg from 'pg'
 * const leases = createLeases({ store: postgresStore(new pg.Pool()) })
 * await leases.hold('report', ({ signal }) => writeReport(signal))
 * ```
 */
export function postgresStore(client: PostgresClient, options: PostgresStoreOptions = {}): PostgresStore {
  const { clock = systemClock, random = systemRandom, migrate = true, prepare = true } = options
  const wire = wireOf(client, clock)
  const names = namesOf(options)
  const retentionMs = whole('retentionMs', options.retentionMs ?? DAY_MS)
  const endedRetentionMs = whole('endedRetentionMs', options.endedRetentionMs ?? 60_000)
  const server = new Server({ wire, names, migrate, prepare, clock })
  const listens = options.listen !== false
  const listenWire = listens && options.listen !== undefined ? wireOf(options.listen, clock, 'listen') : wire
  const watches = new Watches({
    clock,
    random,
    open: (events) => listenWire.listen(names.channel, events),
    look: (key, claim) => server.call('a look', 'look', [key, claim, '250']),
    probe: (message) =>
      server.run('a probe', { text: 'select pg_notify($1, $2)', values: [names.channel, message] }, 2_000),
  })
  const pruning = new Pruning(server, retentionMs)
  let closed = false

  function check(): void {
    if (closed) throw new StoreError('the postgres store is closed', { outcome: 'none', cause: new ClosedError() })
  }

  const acquires = new Lane<AcquireRequest>({
    server,
    clock,
    verb: 'acquire',
    what: 'an acquire',
    encode: encodeAcquires,
  })
  const renewals = new Lane<RenewRequest>({ server, clock, verb: 'renew', what: 'a renewal', encode: encodeRenewals })
  const releases = new Lane<Grant>({ server, clock, verb: 'release', what: 'a release', encode: encodeReleases })

  async function renewOne(lease: RenewRequest, call: CallOptions | undefined, alone: boolean): Promise<RenewOutcome> {
    try {
      const lockedMs = alone ? undefined : LOCKED_RENEWAL_MS
      return readRenew(await renewals.ask(lease, call, lockedMs), lease.ttlMs)
    } catch (cause) {
      if (alone) throw cause
      return { is: 'unknown', cause }
    }
  }

  const store: PostgresStore = {
    name: 'postgres',
    contract: 1,
    capabilities: listens ? postgresCapabilities : { ...postgresCapabilities, wakeUp: 'poll' },

    async acquire(request, call) {
      check()
      const { generation } = watches
      const answer = readAcquire(await acquires.ask(request, call), request.key, request.ttlMs)
      if (request.queue !== undefined) {
        if (answer.is === 'granted') watches.unqueued(request.claim)
        else if (answer.because !== 'ended') watches.queued(request.claim, generation)
      }
      pruning.wrote()
      return answer
    },

    async renew(leases, call) {
      check()
      return Promise.all(leases.map((lease) => renewOne(lease, call, leases.length === 1)))
    },

    async release(grant, call) {
      check()
      return readRelease(await releases.ask(grant, call))
    },

    async withdraw(key, claim, call) {
      check()
      watches.unqueued(claim)
      await alone({ clock, what: 'a withdrawal' }, call, (wait, leftMs) =>
        server.call('a withdrawal', 'withdraw', [key, claim, endedRetentionMs, wait], leftMs),
      )
    },

    async inspect(key, call) {
      check()
      const text = `select ${names.fn('record')}(l, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as record
        from ${names.leases} l where key = $1`
      const [row] = await server.run('a look', { text, values: [key] }, call?.timeoutMs)
      return readRecord(row?.record)
    },

    async *list(listOptions) {
      check()
      yield* list(server, listOptions)
    },

    async revoke(key, { force = false } = {}, call) {
      check()
      const row = await alone({ clock, what: 'a revocation' }, call, (wait, leftMs) =>
        server.call('a revocation', 'revoke', [key, force, endedRetentionMs, wait], leftMs),
      )
      return readRecord(row?.plain)
    },

    watch: (key: string, { claim, signal }: WatchOptions) => watches.watch(key, claim, signal),

    async serverId() {
      check()
      const text = `select (select system_identifier from pg_control_system())::text || ' ' || current_database() as id`
      const [row] = await server.run('a look', { text, values: [] })
      return `postgres ${row?.id}`
    },

    async install() {
      check()
      await server.install()
    },

    async prune({ olderThanMs = retentionMs } = {}) {
      check()
      return pruneAll(server, whole('olderThanMs', olderThanMs))
    },

    async close() {
      closed = true
      watches.close()
    },
  }
  if (!listens) delete store.watch
  return store
}

const encodeAcquires = (requests: readonly AcquireRequest[]) => {
  const others = requests.map(othersOf)
  return {
    k: requests.map(({ key }) => key),
    c: requests.map(({ claim }) => claim),
    h: requests.map(({ holder }) => holder),
    t: requests.map(({ ttlMs }) => ttlMs),
    p: requests.map(({ queue }) => queue?.pollMs ?? 0),
    ...(others.some((other) => other !== null) ? { o: others } : {}),
  }
}

/** What most requests do not have. */
function othersOf({ replaces, tokenFloor, meta }: AcquireRequest): object | null {
  if (replaces === undefined && tokenFloor === undefined && (meta === undefined || meta === null)) return null
  return {
    replaces,
    floor: tokenFloor,
    meta: meta === undefined || meta === null ? undefined : JSON.stringify(meta),
  }
}

const encodeRenewals = (leases: readonly RenewRequest[]) => ({
  k: leases.map(({ key }) => key),
  c: leases.map(({ claim }) => claim),
  t: leases.map(({ ttlMs }) => ttlMs),
})

const encodeReleases = (grants: readonly Grant[]) => ({
  k: grants.map(({ key }) => key),
  c: grants.map(({ claim }) => claim),
})

function whole(option: string, value: unknown): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw new InvalidArgumentError(option, value, 'must be a whole number of ms, 0 or more')
}
