// Leases as Lease objects of Kubernetes, which electors of client-go can share and kubectl shows; whoever wants one that another holds
// watches for its signs of life, by the own clock (store/observed).
import { type Clock, systemClock } from '../../lease/clock.js'
import { InvalidArgumentError } from '../../lease/errors.js'
import { KEY_BYTES_MAX } from '../../lease/keys.js'
import type { Random } from '../../lease/random.js'
import type { LeaseStore, StoreCapabilities } from '../../store/contract.js'
import { observedStore } from '../../store/observed/store.js'
import type { KubernetesLeases, KubernetesWatch } from './client.js'
import { checkNamespace } from './names.js'
import { kubernetesRecords } from './records.js'
import { WatchHub } from './watch.js'

/** What `kubernetesStore` takes beside the API. */
export interface KubernetesStoreOptions {
  /** The namespace of the Leases. */
  readonly namespace: string
  /**
   * What wakes waiters at once: `new Watch(kubeConfig)`. Default: that of the API where it has one, as in a pod; else, and with
   * false, none: waiters ask again from time to time, and the right to watch is not needed.
   */
  readonly watch?: KubernetesWatch | false
  /** The clock by which this process observes others. Default: this machine's. */
  readonly clock?: Clock
  /** Where jitter comes from. Default: the platform's generator. */
  readonly random?: Random
}

/** What the Kubernetes store can do and promise, as data; without a watch `wakeUp` is `poll`. */
export const kubernetesCapabilities: StoreCapabilities = {
  clock: 'observed',
  tokens: 'transitions',
  holdSurvives: ['client restart', 'store restart', 'fail-over', 'power loss'],
  tokensSurvive: ['store restart', 'fail-over'],
  ttlMsMin: 1_000,
  ttlMsGrain: 1_000,
  wakeUp: 'push',
  fair: false,
  tokenFloor: false,
  keyBytesMax: KEY_BYTES_MAX,
}

const METHODS = [
  'readNamespacedLease',
  'createNamespacedLease',
  'replaceNamespacedLease',
  'listNamespacedLease',
] as const

/**
 * A store that keeps leases as Leases of coordination.k8s.io/v1, by the `CoordinationV1Api` of `@kubernetes/client-node` 1.4 (G1 to G4,
 * G6, G8, G11, G13). The server compares no times: expiry is observed by those who wait, so a process that lives shorter than a ttl
 * cannot take over from a dead holder. Ttls are whole seconds, rounded up. The first grant of a new key takes a second.
 *
 * Throws InvalidArgumentError for what is no such API, and for a namespace that cannot be one.
 *
 * @example
 * ```ts no-run
 * import { CoordinationV1Api, KubeConfig, Watch } from '@kubernetes/client-node'
 * import { kubernetesStore } from 'holdfast/kubernetes'
 *
 * const config = new KubeConfig()
 * config.loadFromDefault()
 * const api = config.makeApiClient(CoordinationV1Api)
 * const store = kubernetesStore(api, { namespace: 'jobs', watch: new Watch(config) })
 * const leases = createLeases({ store })
 * await leases.hold('report', ({ signal }) => writeReport(signal))
 * ```
 */
export function kubernetesStore(api: KubernetesLeases, options: KubernetesStoreOptions): LeaseStore {
  const given = api as (Partial<KubernetesLeases> & Partial<KubernetesWatch>) | null | undefined
  if (typeof given !== 'object' || given === null || !METHODS.every((name) => typeof given[name] === 'function'))
    throw new InvalidArgumentError(
      'api',
      api,
      'must be a CoordinationV1Api of @kubernetes/client-node: config.makeApiClient(CoordinationV1Api)',
    )
  const { namespace, clock = systemClock, random } = options ?? {}
  checkNamespace(namespace)
  const ownWatch = typeof given.watch === 'function' ? (given as KubernetesWatch) : false
  const watch = options.watch ?? ownWatch
  if (watch !== false && typeof watch?.watch !== 'function')
    throw new InvalidArgumentError('watch', watch, 'must be a Watch of @kubernetes/client-node: new Watch(config)')
  const hub = watch === false ? undefined : new WatchHub(watch, namespace, clock)
  const { isForgettable: _, ...store } = observedStore({
    name: 'kubernetes',
    capabilities: { ...kubernetesCapabilities, wakeUp: hub === undefined ? 'poll' : 'push' },
    records: kubernetesRecords(api, namespace, clock, hub),
    clock,
    ...(random === undefined ? {} : { random }),
  })
  return store
}
