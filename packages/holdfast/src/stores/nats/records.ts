// Records in a bucket: a JSON object for each key, written only over the sequence that was read. A grant's token is the sequence
// of its own write, which it cannot know beforehand; so it says 0, and later writes carry it along.
import { StoreError } from '../../lease/errors.js'
import type { ObservedRecord, Versioned, VersionedRecords } from '../../store/observed/records.js'
import type { BucketCheck } from './bucket.js'
import type { NatsEntry, NatsKv } from './client.js'
import { failure, isConflict, isNotFound } from './failure.js'
import { fromBucketKey, toBucketKey } from './names.js'

/** What marks a value as ours, and its layout. */
const FORMAT = 1

interface Stored extends ObservedRecord {
  readonly holdfast: typeof FORMAT
}

/** A key of which nothing is there but the mark of its deletion, which the next write has to be over. */
export const DELETED: ObservedRecord = {
  claim: '',
  holder: '',
  ttlMs: 0,
  token: 0,
  changes: 0,
  grantedAtMs: 0,
  beats: 0,
  revoked: false,
  meta: null,
  lastEnded: '',
  ended: [],
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export function natsRecords(kv: NatsKv, bucket: BucketCheck): VersionedRecords {
  async function read(key: string): Promise<Versioned | null> {
    try {
      await bucket.ready()
      const entry = await kv.get(toBucketKey(key))
      return entry === null ? null : readEntry(entry, key)
    } catch (error) {
      if (isNotFound(error)) return null
      throw failure(error, 'a look')
    }
  }

  return {
    read,

    async write(key, record, over, kind) {
      const stored: Stored = { ...record, token: kind === 'grant' ? 0 : record.token, holdfast: FORMAT }
      let revision: number
      try {
        await bucket.ready()
        bucket.checkTtl(record.ttlMs)
        const data = encoder.encode(JSON.stringify(stored))
        revision = await kv.put(toBucketKey(key), data, { previousSeq: over === null ? 0 : Number(over.version) })
      } catch (error) {
        if (isConflict(error)) return undefined
        throw failure(error, `a write (${kind})`)
      }
      return versioned(stored, revision)
    },

    async *list(prefix) {
      const names: string[] = []
      try {
        await bucket.ready()
        for await (const name of await kv.keys()) names.push(name)
      } catch (error) {
        throw failure(error, 'a list of keys')
      }
      for (const name of new Set(names)) {
        const key = fromBucketKey(name)
        if (key?.startsWith(prefix) !== true) continue
        const found = await read(key)
        if (found !== null) yield { key, read: found }
      }
    },

    async *watch(key, signal) {
      let entries: Awaited<ReturnType<NatsKv['watch']>>
      try {
        await bucket.ready()
        entries = await kv.watch({ key: toBucketKey(key) })
      } catch (error) {
        throw failure(error, 'a watch')
      }
      const stop = () => entries.stop()
      signal.addEventListener('abort', stop)
      try {
        if (signal.aborted) return
        yield undefined // in place: what stands there has to be read
        for await (const entry of entries) yield readEntry(entry, key)
      } finally {
        signal.removeEventListener('abort', stop)
        entries.stop()
      }
    },

    async close() {}, // The connection is the application's.
  }
}

function readEntry(entry: NatsEntry, key: string): Versioned {
  if (entry.operation !== 'PUT') return { record: DELETED, version: String(entry.revision), beat: '' }
  let stored: Partial<Stored> | null
  try {
    stored = JSON.parse(decoder.decode(entry.value))
  } catch {
    stored = null
  }
  if (stored?.holdfast !== FORMAT)
    throw new StoreError(
      `"${key}" has a value in the bucket that Holdfast did not write, and leaves alone: give the store a bucket of its own, or remove it`,
      { outcome: 'none', lasting: true },
    )
  return versioned(stored as Stored, entry.revision)
}

function versioned({ holdfast: _, ...record }: Stored, revision: number): Versioned {
  const token = record.token === 0 && record.claim !== '' ? revision : record.token
  if (!Number.isSafeInteger(token)) throw new StoreError(`the token ${token} is beyond 2^53 - 1`, { outcome: 'none' })
  return { record: { ...record, token }, version: String(revision), beat: `${record.claim} ${record.beats}` }
}
