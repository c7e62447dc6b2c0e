// Leases in etcd, through its JSON gateway: a key on an etcd lease, written in a transaction that compares what it must (G1); the
// revision of that transaction is the token (G2), and etcd's own leases decide expiry (G4).
import { type Clock, systemClock } from '../../lease/clock.js'
import { ClosedError, InvalidArgumentError, StoreError } from '../../lease/errors.js'
import { checkKey, KEY_BYTES_MAX } from '../../lease/keys.js'
import { type Random, systemRandom } from '../../lease/random.js'
import { Timeline } from '../../lease/timeline.js'
import type { LeaseRecord, LeaseStore, StoreCapabilities, WatchOptions } from '../../store/contract.js'
import { Watcher } from '../../store/watcher.js'
import { acquire } from './acquire.js'
import { endIfHeld, withdraw } from './ends.js'
import { type EtcdConnection, Gateway, type Limits } from './gateway.js'
import { gaveBack, read, recordOf, whyLost } from './key.js'
import { list, prune } from './list.js'
import { namesOf } from './names.js'
import { renew } from './renew.js'
import { revoke } from './revoke.js'
import { Sharing } from './sharing.js'
import { Terms } from './terms.js'
import { Together } from './together.js'
import { forgetClaim, leaveInDoubt, Remembered, retentionOf, type Shared } from './verbs.js'
import { follow } from './watch.js'
import { encode } from './wire.js'

/** What `etcdStore` takes. */
export interface EtcdStoreOptions extends EtcdConnection {
  /** What the keys begin with in etcd: default `holdfast/`. */
  readonly prefix?: string
  /** How long an ended claim is remembered, in ms. Default 60,000, or two ttls when those are longer. */
  readonly endedRetentionMs?: number
  /** The clocks and timers. Default: this machine's. */
  readonly clock?: Clock
  /** Where jitter comes from. Default: the platform's generator. */
  readonly random?: Random
}

/** A store in etcd. */
export interface EtcdStore extends LeaseStore {
  /** What the keys begin with in etcd. */
  readonly prefix: string
  /** Forgets free keys that were granted more than `olderThanMs` ago (default: 24 hours). Gives how many. Their tokens go on rising. */
  prune(options?: { olderThanMs?: number }): Promise<number>
  /** The id of the cluster: the same for all its members. */
  serverId(): Promise<string>
  /** "May be free now, for this claim": pushed by the server (G8). */
  watch(key: string, options: WatchOptions): AsyncIterable<void>
}

/** What the etcd store can do and promise, as data. */
export const etcdCapabilities: StoreCapabilities = {
  clock: 'server',
  tokens: 'revision',
  holdSurvives: ['client restart', 'store restart', 'fail-over', 'power loss'],
  tokensSurvive: ['pruning', 'store restart', 'fail-over'],
  ttlMsMin: 1_000,
  ttlMsGrain: 1_000,
  wakeUp: 'push',
  fair: true,
  tokenFloor: false,
  keyBytesMax: KEY_BYTES_MAX,
}

const DAY_MS = 86_400_000

/**
 * A store that keeps leases in etcd 3.4 to 3.6, over HTTP and with nothing but `fetch` (G1 to G4, G6, G11). Terms are whole
 * seconds, rounded up, and at least what the cluster takes (2 s with its default election time-out).
 *
 * Throws InvalidArgumentError for options that cannot be right.
 *
 * @example
 * ```ts no-run
 * const store = etcdStore({ endpoints: ['http://10.0.0.1:2379', 'http://10.0.0.2:2379', 'http://10.0.0.3:2379'] })
 * const leases = createLeases({ store })
 * await leases.hold('report', ({ signal }) => writeReport(signal))
 * ```
 */
export function etcdStore(options: EtcdStoreOptions): EtcdStore {
  if (typeof options !== 'object' || options === null) {
    throw new InvalidArgumentError('options', options, 'must be an object with `endpoints`')
  }
  const { clock = systemClock, random = systemRandom, prefix = 'holdfast/' } = options
  checkKey('prefix', prefix, 128)
  const gateway = new Gateway(options, clock)
  const timeline = new Timeline(clock)
  const terms = new Terms(gateway, timeline)
  const shared: Shared = {
    gateway,
    together: new Together(gateway, clock, prefix),
    terms,
    sharing: new Sharing(gateway, terms, timeline),
    prefix,
    clock,
    timeline,
    endedRetentionMs: whole('endedRetentionMs', options.endedRetentionMs ?? 60_000),
    held: new Remembered(),
    places: new Remembered(),
    refused: new Remembered(),
    longestTtlMs: 0,
  }
  const watchers = new Set<Watcher>()

  function check(): void {
    if (gateway.closed) throw new StoreError('the etcd store is closed', { outcome: 'none', cause: new ClosedError() })
  }

  async function inspect(key: string, limits: Limits): Promise<LeaseRecord | null> {
    const at = await read(gateway, namesOf(prefix, key), '', limits)
    const lease = at.held?.kv.lease
    return recordOf(key, at, lease === undefined ? 0 : await terms.left(lease, limits), clock.wallMs())
  }

  return {
    name: 'etcd',
    contract: 1,
    capabilities: etcdCapabilities,
    prefix,

    async acquire(request, call) {
      check()
      shared.longestTtlMs = Math.max(shared.longestTtlMs, request.ttlMs)
      return await acquire(shared, request, gateway.limits(call))
    },

    async renew(leases, call) {
      check()
      const outcomes = await renew(shared, leases, gateway.limits(call))
      const [only] = outcomes
      if (outcomes.length === 1 && only?.is === 'unknown') throw only.cause
      return outcomes
    },

    async release({ key, claim }, call) {
      check()
      const ending = endIfHeld(shared, namesOf(prefix, key), claim, retentionOf(shared), gateway.limits(call), false)
      const at = await ending.catch((error) => {
        leaveInDoubt(shared, key, claim)
        throw error
      })
      const mine = forgetClaim(shared, key, claim)
      if (at === undefined) {
        if (mine !== undefined) terms.giveBack(mine.term, mine.ttlMs)
        return { is: 'released' }
      }
      return gaveBack(at, claim) ? { is: 'released' } : { is: 'lost', reason: whyLost(at, claim) }
    },

    async withdraw(key, claim, call) {
      check()
      shared.places.delete(key, claim)
      const ending = withdraw(shared, namesOf(prefix, key), claim, retentionOf(shared), gateway.limits(call))
      await ending.catch((error) => {
        leaveInDoubt(shared, key, claim)
        throw error
      })
      forgetClaim(shared, key, claim)
    },

    async inspect(key, call) {
      check()
      return await inspect(key, gateway.limits(call))
    },

    async *list(listOptions = {}) {
      check()
      yield* list(shared, listOptions)
    },

    async revoke(key, { force = false } = {}, call) {
      check()
      return await revoke(shared, key, force, gateway.limits(call))
    },

    watch(key, { claim, signal }) {
      const ending = new AbortController()
      const watcher: Watcher = new Watcher(claim, signal, () => {
        watchers.delete(watcher)
        ending.abort()
      })
      if (gateway.closed) watcher.end()
      if (signal.aborted || gateway.closed) return watcher
      watchers.add(watcher)
      const names = namesOf(prefix, key)
      follow({ gateway, clock, random, names, claim, signal: ending.signal, hint: () => watcher.hint() }).then(
        watcher.end,
        (error) => watcher.fail(error),
      )
      return watcher
    },

    async serverId() {
      check()
      const limits = gateway.limits(undefined)
      const { header } = await gateway.ask<{ header?: { cluster_id?: string } }>(
        'the id of the cluster',
        '/v3/kv/range',
        { key: encode(prefix), keys_only: true, limit: '1' },
        limits,
      )
      return `etcd ${header?.cluster_id}`
    },

    async prune({ olderThanMs = DAY_MS } = {}) {
      check()
      return await prune(shared, whole('olderThanMs', olderThanMs))
    },

    async close() {
      gateway.close()
      for (const watcher of watchers) watcher.end()
    },
  }
}

function whole(option: string, value: unknown, least = 0): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least) return value
  throw new InvalidArgumentError(option, value, `must be a whole number, ${least} or more`)
}
