// Leases over several independent stores: a lease is held when a majority of them says so. One store may hang, be cut off or be
// gone, and leases go on. This is Redlock, with fencing tokens, when the stores are Redis masters.
import { type Clock, systemClock, type Timer } from '../../lease/clock.js'
import { InvalidArgumentError } from '../../lease/errors.js'
import { type Random, systemRandom } from '../../lease/random.js'
import type { LeaseStore } from '../../store/contract.js'
import { untilEither } from '../../store/ending.js'
import { Attempts, acquire } from './acquire.js'
import { quorumCapabilities } from './capabilities.js'
import { closedError, release, revoke, withdraw } from './ends.js'
import { Healing } from './healing.js'
import { Learning } from './learning.js'
import { Node, Servers } from './node.js'
import type { Quorum } from './quorum.js'
import { inspect, list } from './records.js'
import { renew } from './renew.js'
import { Ballots, Terms } from './terms.js'
import { majorityOf } from './vote.js'
import { watch } from './watch.js'
import { Withdrawals } from './withdrawals.js'

/** How a quorum is set up. */
export interface QuorumStoreOptions {
  /**
   * How long one node may take for one answer, in ms, before it counts as no vote. A third of the caller's time-out when that
   * is less. Default 500.
   */
  nodeTimeoutMs?: number
  /**
   * A node that may have forgotten a lease within the last so many ms, since it restarted without its data, has no vote, neither
   * in grants nor in renewals. Give the longest ttl that anybody uses on this quorum. Every node must offer `keptForMs`; it
   * costs one more request to each node for each grant, and for each batch of renewals. Default 0: not asked.
   */
  waitAfterLossMs?: number
  /** Whether `close` closes the nodes' stores as well. Default true; give false when others use them. */
  closeStores?: boolean
  /** Time and timers. Default: this machine's. */
  clock?: Clock
  /** Jitter. Default: the platform's generator. */
  random?: Random
}

const NODE_TIMEOUT_MS = 500
/** `close` waits so long at most for nodes that lag behind. */
const CLOSE_MS = 1_000

/**
 * A store out of several independent ones, even or odd in number: what a majority of the configured number says counts (G1 to
 * G4, G6, G8, G11, G13; G2 as long as a majority keeps its data). The nodes must honour `tokenFloor`, and be servers of their
 * own: a server given twice, or one and its replica, is refused where the stores can tell.
 *
 * Throws InvalidArgumentError for a list or an option that cannot be right. Every call rejects with StoreError when no majority
 * answers: never "held" because of a node that is down.
 *
 * @example
 * ```ts
 * import { memoryStore } from 'holdfast/memory'
 * import { quorumStore } from 'holdfast/quorum'
 *
 * const store = quorumStore([memoryStore(), memoryStore(), memoryStore()]) // in earnest: stores on three servers
 * const leases = createLeases({ store })
 * await leases.hold('report', ({ signal }) => writeReport(signal))
 * await leases.close()
 * ```
 */
export function quorumStore(stores: readonly LeaseStore[], options: QuorumStoreOptions = {}): LeaseStore {
  checkStores(stores)
  const { clock = systemClock, random = systemRandom, closeStores = true } = options
  const nodeTimeoutMs = duration('nodeTimeoutMs', options.nodeTimeoutMs ?? NODE_TIMEOUT_MS)
  if (nodeTimeoutMs === 0) throw new InvalidArgumentError('nodeTimeoutMs', 0, 'must be above 0')
  const waitAfterLossMs = duration('waitAfterLossMs', options.waitAfterLossMs ?? 0)
  if (waitAfterLossMs > 0) checkKeptFor(stores)
  if (typeof closeStores !== 'boolean')
    throw new InvalidArgumentError('closeStores', closeStores, 'must be true or false')

  const servers = new Servers()
  const nodes = stores.map((store, place) => new Node(store, place, clock, servers))
  const quorum: Quorum = {
    nodes,
    majority: majorityOf(nodes.length),
    clock,
    random,
    nodeTimeoutMs,
    waitAfterLossMs,
    servers,
    terms: new Terms(nodes.length),
    ballots: new Ballots(),
    withdrawals: new Withdrawals(nodes, clock, random, nodeTimeoutMs),
    healing: new Healing(nodes, clock),
    learning: new Learning(),
    attempts: new Attempts(),
  }
  const watched = stores.filter((store) => store.watch !== undefined).length >= quorum.majority
  const closing = new AbortController()

  const open = async <T>(run: () => Promise<T>): Promise<T> => {
    if (closing.signal.aborted) throw closedError()
    return run()
  }

  return {
    name: 'quorum',
    contract: 1,
    capabilities: quorumCapabilities(stores.map(({ capabilities }) => capabilities)),
    acquire: (request, call) => open(() => acquire(quorum, request, call)),
    renew: (leases, call) => open(() => renew(quorum, leases, call)),
    release: (grant, call) => open(() => release(quorum, grant, call)),
    withdraw: (key, claim, call) => open(() => withdraw(quorum, key, claim, call)),
    inspect: (key, call) => open(() => inspect(quorum, key, call)),
    revoke: (key, how = {}, call) => open(() => revoke(quorum, key, how, call)),
    async *list(how = {}) {
      if (closing.signal.aborted) throw closedError()
      yield* list(quorum, how)
    },
    ...(watched
      ? {
          watch: (key, { claim, signal }) =>
            untilEither(signal, closing.signal, (either) => watch(quorum, key, { claim, signal: either })),
        }
      : {}),
    async close() {
      if (closing.signal.aborted) return
      closing.abort()
      await settled(nodes, clock, Math.min(nodeTimeoutMs, CLOSE_MS))
      quorum.withdrawals.close()
      if (closeStores) await closeAll(stores)
    },
  }
}

/**
 * A release counts when a majority has confirmed it, and a process may close right then: a node that lags behind must hear of it all
 * the same, or it would keep the lease for its term.
 */
async function settled(nodes: readonly Node[], clock: Clock, mostMs: number): Promise<void> {
  let timer: Timer | undefined
  const late = new Promise<void>((resolve) => {
    timer = clock.setTimer(mostMs, resolve)
  })
  await Promise.race([Promise.all(nodes.map((node) => node.idle())), late])
  timer?.cancel()
}

/** Each is closed, also when another cannot be. */
async function closeAll(stores: readonly LeaseStore[]): Promise<void> {
  const ends = await Promise.allSettled(stores.map((store) => store.close()))
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}

const METHODS = ['acquire', 'renew', 'release', 'withdraw', 'inspect', 'list', 'revoke', 'close'] as const

function checkStores(stores: unknown): asserts stores is readonly LeaseStore[] {
  if (!Array.isArray(stores) || stores.length === 0)
    throw new InvalidArgumentError('stores', stores, 'must be a list of stores, such as [store, store, store]')
  for (const [place, store] of (stores as unknown[]).entries()) {
    const given = store as Partial<LeaseStore> | null
    if (typeof given !== 'object' || given === null || !METHODS.every((name) => typeof given[name] === 'function'))
      throw new InvalidArgumentError(`stores[${place}]`, store, 'must be a store, such as memoryStore()')
    if (given.capabilities?.tokenFloor !== true)
      throw new InvalidArgumentError(
        `stores[${place}]`,
        given.name,
        'must be a store that honours tokenFloor: otherwise the nodes cannot agree on a token',
      )
    if (given.capabilities.clock === 'observed')
      throw new InvalidArgumentError(`stores[${place}]`, given.name, 'must be a store whose own clock decides expiry')
    const first = (stores as unknown[]).indexOf(store)
    if (first !== place)
      throw new InvalidArgumentError(
        `stores[${place}]`,
        given.name,
        `must be another store than stores[${first}]: one that is counted twice makes no majority`,
      )
  }
}

function checkKeptFor(stores: readonly LeaseStore[]): void {
  const place = stores.findIndex((store) => store.keptForMs === undefined)
  if (place >= 0)
    throw new InvalidArgumentError(
      `stores[${place}]`,
      stores[place]?.name,
      'must be able to tell for how long it has kept everything (keptForMs): leave out waitAfterLossMs, or use another store',
    )
}

function duration(option: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value !== Number.POSITIVE_INFINITY) return value
  throw new InvalidArgumentError(option, value, 'must be a finite number of ms, 0 or more')
}
