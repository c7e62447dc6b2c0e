// Leases in a JetStream key-value bucket: one entry a key, written over the revision that was read; whoever wants a lease that
// another holds watches for its signs of life, by the own clock (store/observed).
import type { Clock } from '../../lease/clock.js'
import { InvalidArgumentError } from '../../lease/errors.js'
import { KEY_BYTES_MAX } from '../../lease/keys.js'
import type { Random } from '../../lease/random.js'
import type { LeaseStore, StoreCapabilities } from '../../store/contract.js'
import { observedStore } from '../../store/observed/store.js'
import { BucketCheck } from './bucket.js'
import type { NatsKv } from './client.js'
import { failure, isConflict } from './failure.js'
import { toBucketKey } from './names.js'
import { DELETED, natsRecords } from './records.js'

/** What `natsStore` takes beside the bucket. */
export interface NatsStoreOptions {
  /** The clock by which this process observes others. Default: this machine's. */
  readonly clock?: Clock
  /** Where jitter comes from. Default: the platform's generator. */
  readonly random?: Random
}

/** A store in a bucket of NATS. */
export interface NatsStore extends LeaseStore {
  /**
   * Forgets keys that nobody holds, and of which this process has seen for a while that nothing else is to be remembered. Gives how
   * many. Their tokens go on rising, since they are sequences of the whole stream.
   */
  prune(): Promise<number>
}

/** What the NATS store can do and promise, as data. */
export const natsCapabilities: StoreCapabilities = {
  clock: 'observed',
  tokens: 'sequence',
  holdSurvives: ['client restart', 'store restart'],
  tokensSurvive: ['pruning', 'store restart'],
  ttlMsMin: 1,
  ttlMsGrain: 1,
  wakeUp: 'push',
  fair: false,
  tokenFloor: false,
  keyBytesMax: KEY_BYTES_MAX,
}

const METHODS = ['get', 'put', 'delete', 'keys', 'watch', 'status'] as const

/**
 * A store that keeps leases in a key-value bucket of NATS JetStream (`@nats-io/kv` 3), one bucket for leases alone (G1 to G4, G6,
 * G8, G11, G13). The server compares no times: expiry is observed by those who wait, so a process that lives shorter than a ttl
 * cannot take over from a dead holder.
 *
 * Throws InvalidArgumentError for what is no bucket. A bucket that would break a promise (replicas, max_age below a day, storage in memory, a
 * mirror) is refused by the first call, with StoreError.
 *
 * @example
 * ```ts no-run
 * import { Kvm } from '@nats-io/kv'
 * import { connect } from '@nats-io/transport-node'
 * import { natsStore } from 'holdfast/nats'
 *
 * const connection = await connect({ servers: 'localhost:4222' })
 * const bucket = await new Kvm(connection).create('leases', { replicas: 1 })
 * const leases = createLeases({ store: natsStore(bucket) })
 * await leases.hold('report', ({ signal }) => writeReport(signal))
 * ```
 */
export function natsStore(kv: NatsKv, options: NatsStoreOptions = {}): NatsStore {
  const given = kv as Partial<NatsKv> | null | undefined
  if (typeof given !== 'object' || given === null || !METHODS.every((name) => typeof given[name] === 'function'))
    throw new InvalidArgumentError(
      'kv',
      kv,
      "must be a bucket of @nats-io/kv: await new Kvm(connection).create('leases')",
    )
  const { clock, random } = options
  const bucket = new BucketCheck(() => kv.status())
  const records = natsRecords(kv, bucket)
  const store = observedStore({
    name: 'nats',
    capabilities: natsCapabilities,
    records,
    ...(clock === undefined ? {} : { clock }),
    ...(random === undefined ? {} : { random }),
  })

  const { isForgettable, ...verbs } = store
  return {
    ...verbs,

    async prune() {
      let count = 0
      for await (const { key, read } of records.list('')) {
        if (read.record === DELETED || !isForgettable(key, read)) continue
        try {
          await kv.delete(toBucketKey(key), { previousSeq: Number(read.version) })
          count++
        } catch (error) {
          if (!isConflict(error)) throw failure(error, 'a pruning')
        }
      }
      return count
    },
  }
}
