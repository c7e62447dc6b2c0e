// A bucket that would break a promise is refused at the first use, with what to change.
import { StoreError } from '../../lease/errors.js'
import type { NatsStatus } from './client.js'

const MS_PER_NS = 1e-6
const DAY_MS = 86_400_000
/** What a record may take: 4 KiB of meta, names, and withdrawn claims. */
const RECORD_BYTES = 16_384

/** What is wrong with a bucket; undefined when it keeps what is promised. */
export function unfitness({ bucket, streamInfo: { config } }: NatsStatus): string | undefined {
  const { max_age = 0, max_msg_size = -1, num_replicas = 1, storage, mirror, discard } = config
  const isLimited = (config.max_bytes ?? -1) > 0 || (config.max_msgs ?? -1) > 0
  const maxAgeMs = max_age * MS_PER_NS
  if (mirror !== undefined && mirror !== null)
    return `bucket "${bucket}" is a mirror, which takes no writes: give the store the bucket that it mirrors`
  if (maxAgeMs > 0 && maxAgeMs < DAY_MS)
    return `bucket "${bucket}" forgets entries after ${Math.round(maxAgeMs)} ms (max_age), held leases too: set its ttl to 0, or to a day at least`
  if (num_replicas > 1)
    return `bucket "${bucket}" has ${num_replicas} replicas, of which the server checks the expected revision before it agrees with the others: of several who write over one revision at a moment, all may be told yes, and two would hold. Give the store a bucket with one replica, and file storage`
  if (storage === 'memory')
    return `bucket "${bucket}" keeps its one copy in memory: a restart would forget who holds, and begin the tokens anew; use file storage`
  if (discard === 'old' && isLimited)
    return `bucket "${bucket}" throws its oldest entries away when it is full (discard), held leases too: set discard to new, or no limit`
  if (max_msg_size > 0 && max_msg_size < RECORD_BYTES)
    return `bucket "${bucket}" takes values of ${max_msg_size} bytes at most (maxValueSize), and a record may take ${RECORD_BYTES}: raise it`
  return undefined
}

/** Looks at the bucket once, before the first command. */
export class BucketCheck {
  readonly #status: () => Promise<NatsStatus>
  #fit = false
  #maxAgeMs = 0
  #running: Promise<void> | undefined

  constructor(status: () => Promise<NatsStatus>) {
    this.#status = status
  }

  /** Undefined once the bucket is known to be fit. */
  ready(): Promise<void> | undefined {
    if (this.#fit) return undefined
    this.#running ??= this.#look().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  /** Refuses a term that the bucket may forget before it is over, or before those withdrawn in it are. */
  checkTtl(ttlMs: number): void {
    if (this.#maxAgeMs === 0 || 2 * ttlMs <= this.#maxAgeMs) return
    throw new StoreError(
      `the bucket forgets entries after ${Math.round(this.#maxAgeMs)} ms (max_age), which must be at least twice the ttl (${ttlMs} ms): set its ttl to 0, or take a shorter lease`,
      { outcome: 'none', lasting: true },
    )
  }

  async #look(): Promise<void> {
    const status = await this.#status()
    const why = unfitness(status)
    if (why !== undefined) throw new StoreError(why, { outcome: 'none', lasting: true })
    this.#maxAgeMs = (status.streamInfo.config.max_age ?? 0) * MS_PER_NS
    this.#fit = true
  }
}
