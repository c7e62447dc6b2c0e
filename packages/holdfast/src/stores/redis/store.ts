// Leases in Redis: one string a key, one script a verb, decided by the server's clock. Redis runs one script at a time, which
// is what makes a verb one atomic step (G1); the record outlives the lease, which is what makes tokens rise (G2).
import { type Clock, systemClock } from '../../lease/clock.js'
import { ClosedError, InvalidArgumentError, StoreError } from '../../lease/errors.js'
import { checkKey, KEY_BYTES_MAX } from '../../lease/keys.js'
import { type Random, systemRandom } from '../../lease/random.js'
import type {
  AcquireRequest,
  Grant,
  LeaseStore,
  RenewOutcome,
  RenewRequest,
  StoreCapabilities,
  WatchOptions,
} from '../../store/contract.js'
import { type RedisClient, wireOf } from './client.js'
import { groups, list, namesOf } from './list.js'
import { checkOurs, each, readAcquire, readRecord, readRelease, readRenew } from './reply.js'
import { Server } from './server.js'
import { SHARED_MAX, Shared } from './share.js'
import { slotOf } from './slot.js'
import { Watches } from './watch.js'

/** What `redisStore` takes beside the client. */
export interface RedisStoreOptions {
  /** What the keys begin with in Redis: default `holdfast:`. In a Cluster one with a part in braces keeps all in one slot. */
  readonly prefix?: string
  /** After how many ms a key that is free is forgotten (its token goes on rising). Default: 24 hours. */
  readonly retentionMs?: number
  /** How long a withdrawn claim is remembered, in ms. Default 60,000, or two ttls of the key when those are longer. */
  readonly endedRetentionMs?: number
  /** So many replicas have to confirm each grant and each renewal (WAIT). Default 0. */
  readonly replicas?: number
  /** How long they may take, in ms. Default 1,000. */
  readonly replicasTimeoutMs?: number
  /** The clocks and timers of the background. Default: this machine's. */
  readonly clock?: Clock
  /** Where its jitter comes from. Default: the platform's generator. */
  readonly random?: Random
}

/** A store in Redis. */
export interface RedisStore extends LeaseStore {
  /** What the keys begin with in Redis. */
  readonly prefix: string
  /** Forgets free keys last used more than `olderThanMs` ago (default: the retention, after which they go by themselves). Gives how many. */
  prune(options?: { olderThanMs?: number }): Promise<number>
  /** The replication id of the primary (in a Cluster, of one of them): the same for a server and its replica. */
  serverId(): Promise<string>
  /** For how long the server has run, in ms: the one started last, in a Cluster. A fail-over since then is not counted. */
  keptForMs(): Promise<number>
  /** "May be free now, for this claim": pushed by the server (G8). */
  watch(key: string, options: WatchOptions): AsyncIterable<void>
}

/** What the Redis store can do and promise, as data. */
export const redisCapabilities: StoreCapabilities = {
  clock: 'server',
  tokens: 'microseconds',
  holdSurvives: ['client restart'],
  tokensSurvive: ['pruning', 'store restart', 'fail-over', 'data loss'],
  ttlMsMin: 1,
  ttlMsGrain: 1,
  wakeUp: 'push',
  fair: true,
  tokenFloor: true,
  keyBytesMax: KEY_BYTES_MAX,
}

const DAY_MS = 86_400_000

/**
 * A store that keeps leases in Redis 6.2 or newer, through the application's own client: standalone, Sentinel or Cluster
 * (G1 to G4, G6, G11). It opens one more connection, for wake-ups, while anybody waits.
 *
 * Throws InvalidArgumentError for what is no client of ioredis or node-redis, and for options that cannot be right.
 *
 * @example
 * ```ts no-run
 * import { Redis } from 'ioredis'
 * const leases = createLeases({ store: redisStore(new Redis()) })
 * await leases.hold('report', ({ signal }) => writeReport(signal))
 * ```
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): RedisStore {
  const wire = wireOf(client)
  const { clock = systemClock, random = systemRandom, prefix = 'holdfast:' } = options
  checkKey('prefix', prefix, 128)
  const retentionMs = whole('retentionMs', options.retentionMs ?? DAY_MS)
  const endedRetentionMs = whole('endedRetentionMs', options.endedRetentionMs ?? 60_000)
  const server = new Server({
    wire,
    common: [String(retentionMs), String(endedRetentionMs)],
    replicas: whole('replicas', options.replicas ?? 0),
    replicasTimeoutMs: whole('replicasTimeoutMs', options.replicasTimeoutMs ?? 1_000, 1),
  })
  const watches = new Watches({
    clock,
    random,
    async open(events) {
      await server.ready()
      return wire.subscriber(server.sharded, events)
    },
    look: (name, claim) => server.run('a look', (scripts) => scripts.look, [name], [claim]),
    probe: (name, message) => server.run('a probe', (scripts) => scripts.probe, [name], [message]),
  })
  let closed = false

  function check(): void {
    if (closed) throw new StoreError('the redis store is closed', { outcome: 'none', cause: new ClosedError() })
  }

  async function sendShared(
    what: string,
    verb: 'acquire' | 'renew' | 'release',
    ops: readonly { key: string }[],
    args: readonly string[],
    confirm: boolean,
  ): Promise<unknown[]> {
    const keys = ops.map(({ key }) => prefix + key)
    const reply = await server.run(what, (scripts) => scripts[verb], keys, args, { operations: ops.length, confirm })
    return [...each(reply, ops.length)]
  }

  // What shares a call is in one slot, and has in common what the script is told once.
  const slot = wire.cluster ? (key: string) => slotOf(prefix + key) : () => 0
  const acquires = new Shared(
    (requests: readonly AcquireRequest[]) => {
      const { holder = '', ttlMs = 0, queue } = requests[0] ?? {}
      const common = [holder, String(ttlMs), String(ttlMs + retentionMs), String(queue?.pollMs ?? 0)]
      const args = [...common, ...requests.flatMap((request) => [request.claim, more(request)])]
      return sendShared('an acquire', 'acquire', requests, args, true)
    },
    ({ key, ttlMs, queue, holder }) => `${slot(key)} ${ttlMs} ${queue?.pollMs} ${holder}`,
  )
  const renewals = new Shared(
    (leases: readonly RenewRequest[]) => {
      const { ttlMs = 0 } = leases[0] ?? {}
      const args = [String(ttlMs), String(ttlMs + retentionMs), ...leases.map(({ claim }) => claim)]
      return sendShared('a renewal', 'renew', leases, args, true)
    },
    ({ key, ttlMs }) => `${slot(key)} ${ttlMs}`,
  )
  const releases = new Shared(
    (grants: readonly Grant[]) => {
      const args = grants.map(({ claim }) => claim)
      return sendShared('a release', 'release', grants, args, false)
    },
    ({ key }) => slot(key),
  )

  async function one(what: string, verb: 'withdraw' | 'revoke', key: string, ...args: string[]): Promise<unknown> {
    const reply = await server.run(what, (scripts) => scripts[verb], [prefix + key], args)
    checkOurs(reply, key)
    return reply
  }

  return {
    name: 'redis',
    contract: 1,
    capabilities: redisCapabilities,
    prefix,

    async acquire(request) {
      check()
      const generation = request.queue === undefined ? 0 : watches.generationOf(prefix + request.key)
      const answer = readAcquire(await acquires.ask(request), request.key, request.ttlMs)
      if (request.queue !== undefined) {
        if (answer.is === 'granted') watches.unqueued(request.claim)
        else if (answer.because !== 'ended') watches.queued(request.claim, generation)
      }
      return answer
    },

    async renew(leases) {
      check()
      return await Promise.all(
        leases.map(async (lease): Promise<RenewOutcome> => {
          try {
            return readRenew(await renewals.ask(lease), lease.key, lease.ttlMs)
          } catch (cause) {
            if (leases.length === 1) throw cause
            return { is: 'unknown', cause }
          }
        }),
      )
    },

    async release(grant) {
      check()
      return readRelease(await releases.ask(grant), grant.key)
    },

    async withdraw(key, claim) {
      check()
      watches.unqueued(claim)
      await one('a withdrawal', 'withdraw', key, claim)
    },

    async inspect(key) {
      check()
      const reply = await server.run('a look', (scripts) => scripts.inspect, [prefix + key], [])
      return readRecord((reply as unknown[])[0], key)
    },

    async *list(listOptions = {}) {
      check()
      yield* list(server, prefix, listOptions)
    },

    async revoke(key, { force = false } = {}) {
      check()
      return readRecord(await one('a revocation', 'revoke', key, force ? '1' : '0'), key)
    },

    watch: (key, { claim, signal }) => watches.watch(prefix + key, claim, signal),

    async serverId() {
      check()
      const ids = await server.info('replication', 'master_replid') // a replica has that of its primary
      return `redis ${ids.sort()[0]}`
    },

    async keptForMs() {
      check()
      const seconds = await server.info('server', 'uptime_in_seconds')
      return Math.min(...seconds.map(Number)) * 1_000
    },

    async prune({ olderThanMs = retentionMs } = {}) {
      check()
      whole('olderThanMs', olderThanMs)
      const names = await namesOf(server, prefix)
      let count = 0
      for (let first = 0; first < names.length; first += SHARED_MAX) {
        const page = names.slice(first, first + SHARED_MAX)
        for (const places of groups(server, page)) {
          const keys = places.map((place) => page[place] ?? '')
          count += Number(await server.run('a pruning', (scripts) => scripts.prune, keys, [String(olderThanMs)]))
        }
      }
      return count
    },

    async close() {
      closed = true
      watches.close()
    },
  }
}

/** What most requests do not have, as JSON; the script need not read what is empty. */
function more({ replaces, tokenFloor, meta }: AcquireRequest): string {
  if (replaces === undefined && tokenFloor === undefined && (meta === undefined || meta === null)) return ''
  return JSON.stringify({
    replaces,
    floor: tokenFloor,
    meta: meta === undefined || meta === null ? undefined : JSON.stringify(meta),
  })
}

function whole(option: string, value: unknown, least = 0): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least) return value
  throw new InvalidArgumentError(option, value, `must be a whole number, ${least} or more`)
}
