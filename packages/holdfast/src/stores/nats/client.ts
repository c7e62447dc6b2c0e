// The bucket of @nats-io/kv, as far as it is called.

/** One entry of a bucket, as it was read or watched. */
export interface NatsEntry {
  readonly key: string
  readonly value: Uint8Array
  /** The sequence of the stream at which it was written. */
  readonly revision: number
  /** PUT, DEL or PURGE. */
  readonly operation: string
}

/** Several entries, or keys, as they come. */
export interface NatsIterator<T> extends AsyncIterable<T> {
  stop(): void
}

/** What `status` says of a bucket. */
export interface NatsStatus {
  readonly bucket: string
  readonly streamInfo: {
    readonly config: {
      readonly max_age?: number
      readonly max_msg_size?: number
      readonly num_replicas?: number
      readonly storage?: string
      readonly mirror?: unknown
      readonly discard?: string
      readonly max_bytes?: number
      readonly max_msgs?: number
    }
  }
}

/** A bucket of @nats-io/kv: what `Kvm.create` and `Kvm.open` give. */
export interface NatsKv {
  get(key: string): Promise<NatsEntry | null>
  put(key: string, data: Uint8Array, options?: { previousSeq: number }): Promise<number>
  delete(key: string, options?: { previousSeq: number }): Promise<void>
  keys(): Promise<NatsIterator<string>>
  watch(options: { key: string }): Promise<NatsIterator<NatsEntry>>
  status(): Promise<NatsStatus>
}
