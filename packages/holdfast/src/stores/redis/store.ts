// Leases in Redis: one string a key, one script a verb, decided by the server's clock. Redis runs one script at a time, which
// is what makes a verb one atomic step (G1); the record outlives the lease, which is what makes tokens rise (G2).
import { type Clock, systemClock } from '../../lease/clock.js'
import { ClosedError, InvalidArgumentError, StoreError } from '../../lease/errors.js'
import { checkKey, KEY_BYTES_MAX } from '../../lease/keys.js'
import { type Random, systemRandom } from '../../lease/random.js'
import type {
  AcquireRequest,
  Grant,
  Granted,
  Held,
  LeaseStore,
  QueueRequest,
  ReleaseOutcome,
  RenewOutcome,
  RenewRequest,
  StoreCapabilities,
  Turn,
  WatchOptions,
} from '../../store/contract.js'
import { type RedisClient, wireOf } from './client.js'
import { groups, list, namesOf, runTogether } from './list.js'
import { checkOurs, readAcquire, readRecord, readRelease, readRenew } from './reply.js'
import { Server } from './server.js'
import { SHARED_AT_ONCE_MAX, SHARED_MAX, Shared } from './share.js'
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
  watch(key: string, options: WatchOptions): AsyncIterable<Turn | undefined>
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
  tellsTurns: true,
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
  const replicas = whole('replicas', options.replicas ?? 0)
  // A turn that is told is a grant that no replica has confirmed: with replicas to wait for, the waiter asks.
  const capabilities = replicas === 0 ? redisCapabilities : { ...redisCapabilities, tellsTurns: false }
  const server = new Server({
    wire,
    kept: { retentionMs, endedRetentionMs },
    replicas,
    replicasTimeoutMs: whole('replicasTimeoutMs', options.replicasTimeoutMs ?? 1_000, 1),
  })
  // No key has a NUL. In a Cluster, where messages may go to the shard of a key only, no channel serves all keys.
  const inbox = wire.cluster ? '' : `${prefix}\0${random.claim()}`
  const watches = new Watches({
    clock,
    random,
    inbox,
    async open(events) {
      await server.ready()
      return wire.subscriber(server.sharded, events)
    },
    look: (name, claim) => server.run('a look', (scripts) => scripts.look, [name], [claim]),
    probe: (name, message) => server.run('a probe', (scripts) => scripts.probe, [name], [message]),
  })
  let closed = false

  const closedError = () => new StoreError('the redis store is closed', { outcome: 'none', cause: new ClosedError() })
  function check(): void {
    if (closed) throw closedError()
  }

  function sendShared(
    what: string,
    verb: 'acquire' | 'renew' | 'release',
    ops: readonly { key: string }[],
    args: readonly string[],
    confirm: boolean,
    passes = false,
  ): Promise<unknown> {
    const keys = ops.map(({ key }) => prefix + key)
    return server.run(what, (scripts) => scripts[verb], keys, args, { operations: ops.length, confirm, passes })
  }

  // What shares a call is in one slot, and has in common what the script is told once.
  const slot = wire.cluster ? (key: string) => slotOf(prefix + key) : () => 0
  const acquires = new Shared<Question, Granted | Held>({
    send(questions) {
      const requests = questions.map(({ request }) => request)
      const { holder = '', ttlMs = 0, queue } = requests[0] ?? {}
      const args = [
        holder,
        String(ttlMs),
        String(ttlMs + retentionMs),
        waitingOf(queue, inbox, capabilities.tellsTurns),
      ]
      for (const { claim } of requests) args.push(claim)
      const mores = requests.map(more)
      if (mores.some((one) => one !== '')) args.push(...mores)
      const passes = requests.some(({ replaces }) => replaces !== undefined && watches.waited(replaces))
      return sendShared('an acquire', 'acquire', requests, args, true, passes)
    },
    read({ request: { key, claim, ttlMs, queue }, generation }, reply) {
      const answer = readAcquire(reply, key, ttlMs)
      if (queue !== undefined) {
        if (answer.is === 'granted') watches.unqueued(claim)
        else if (answer.because !== 'ended') watches.queued(prefix + key, claim, generation)
      }
      return answer
    },
    groupOf: ({ request: { key, ttlMs, queue, holder } }) =>
      `${slot(key)} ${ttlMs} ${queue?.pollMs} ${queue?.told} ${holder}`,
    alike: ({ request: one }, { request: other }) =>
      !wire.cluster && one.holder === other.holder && one.ttlMs === other.ttlMs && waitAlike(one.queue, other.queue),
    most: SHARED_AT_ONCE_MAX,
  })
  const renewals = new Shared<RenewRequest, RenewOutcome>({
    send(leases) {
      const { ttlMs = 0 } = leases[0] ?? {}
      const args = [String(ttlMs), String(ttlMs + retentionMs), ...leases.map(({ claim }) => claim)]
      return sendShared('a renewal', 'renew', leases, args, true)
    },
    read: ({ key, ttlMs }, reply) => readRenew(reply, key, ttlMs),
    groupOf: ({ key, ttlMs }) => `${slot(key)} ${ttlMs}`,
    most: SHARED_MAX,
  })
  const releases = new Shared<Grant, ReleaseOutcome>({
    send(grants) {
      const args = grants.map(({ claim }) => claim)
      const passes = grants.some(({ claim }) => watches.waited(claim))
      return sendShared('a release', 'release', grants, args, false, passes)
    },
    read: ({ key }, reply) => readRelease(reply, key),
    groupOf: ({ key }) => slot(key),
    alike: () => !wire.cluster,
    most: SHARED_AT_ONCE_MAX,
  })

  async function one(what: string, verb: 'withdraw' | 'revoke', key: string, ...args: string[]): Promise<unknown> {
    const reply = await server.run(what, (scripts) => scripts[verb], [prefix + key], args)
    checkOurs(reply, key)
    return reply
  }

  return {
    name: 'redis',
    contract: 1,
    capabilities,
    prefix,

    // These two are no async functions, whose frames each verb would leave to the garbage collector.
    acquire(request) {
      if (closed) return Promise.reject(closedError())
      const generation = request.queue === undefined ? 0 : watches.generationOf(prefix + request.key)
      return acquires.ask({ request, generation })
    },

    release(grant) {
      if (closed) return Promise.reject(closedError())
      return releases.ask(grant)
    },

    async renew(leases) {
      check()
      return await Promise.all(
        leases.map(async (lease): Promise<RenewOutcome> => {
          try {
            return await renewals.ask(lease)
          } catch (cause) {
            if (leases.length === 1) throw cause
            return { is: 'unknown', cause }
          }
        }),
      )
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
          const pruned = await runTogether(server, 'a pruning', 'prune', keys, [String(olderThanMs)])
          for (const some of pruned) count += Number(some)
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

/** An acquire, and the subscription under which its claim will be told if it has to wait. */
interface Question {
  readonly request: AcquireRequest
  readonly generation: number
}

const waitAlike = (one: QueueRequest | undefined, other: QueueRequest | undefined) =>
  one === other || (one?.pollMs === other?.pollMs && one?.told === other?.told)

/** How a contender waits, for the script: its poll, whether it may be told its turn with the token, and on which channel. */
const waitingOf = (queue: QueueRequest | undefined, inbox: string, tells = false) =>
  queue === undefined ? '0' : `${queue.pollMs} ${tells && queue.told === true ? 1 : 0} ${inbox}`

/**
 * What most requests do not have, as JSON. A floor alone, as a quorum sends it, goes as it is: the plain script takes it; and so
 * does the claim of a handover, after an equals sign.
 */
function more({ replaces, tokenFloor, meta }: AcquireRequest): string {
  if (replaces === undefined && (meta === undefined || meta === null)) {
    if (tokenFloor === undefined) return ''
    if (Number.isSafeInteger(tokenFloor) && tokenFloor > 0) return String(tokenFloor)
  }
  if (replaces !== undefined && tokenFloor === undefined && (meta === undefined || meta === null)) return `=${replaces}`
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
