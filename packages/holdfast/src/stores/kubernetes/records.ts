// Records in Lease objects: each write is a PUT with the uid and the resourceVersion that were read, since one to a Lease that is
// gone would make it anew; a new Lease comes into being free, and is granted when the second of its creation is over.
import type { Clock } from '../../lease/clock.js'
import type { CallOptions } from '../../store/contract.js'
import { NotYet, type ObservedRecord, type VersionedRecords } from '../../store/observed/records.js'
import type { KubernetesLease, KubernetesLeases } from './client.js'
import { type Asked, failure, isConflict, isNotFound, retryAfterMs } from './failure.js'
import { keyOf, type LeaseRead, leaseOf, readLease } from './lease.js'
import { toLeaseName } from './names.js'
import type { WatchHub } from './watch.js'

/** Every request is given up after this long at the latest. */
const REQUEST_MS_MAX = 30_000
/** Two creations in one second would count their grants from the same number. */
const SECOND_MS = 1_000
const PAGE = 500
const YOUNG_MAX = 10_000

const FREE: ObservedRecord = {
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

export function kubernetesRecords(
  api: KubernetesLeases,
  namespace: string,
  clock: Clock,
  hub: WatchHub | undefined,
): VersionedRecords<LeaseRead> {
  /** When Leases that nobody has had yet were first seen, by uid. */
  const young = new Map<string, number>()
  const pause = (ms: number) => new Promise<void>((resolve) => clock.setTimer(ms, resolve))

  /** One request, bounded; asked again when the server was too busy to begin, as long as there is time. */
  async function ask<T>(call: CallOptions | undefined, send: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const untilMs = clock.monoMs() + Math.min(call?.timeoutMs ?? REQUEST_MS_MAX, REQUEST_MS_MAX)
    for (;;) {
      try {
        return await bounded(send, untilMs - clock.monoMs())
      } catch (error) {
        const afterMs = retryAfterMs(error)
        if (afterMs === undefined || clock.monoMs() + afterMs >= untilMs) throw error
        await pause(afterMs)
      }
    }
  }

  function bounded<T>(send: (signal: AbortSignal) => Promise<T>, leftMs: number): Promise<T> {
    const ending = new AbortController()
    return new Promise<T>((resolve, reject) => {
      const timer = clock.setTimer(Math.max(0, leftMs), () => {
        reject(new Error(`no answer within ${Math.round(leftMs)} ms`))
        ending.abort()
      })
      send(ending.signal)
        .then(resolve, reject)
        .finally(() => timer.cancel())
    })
  }

  async function read(key: string, call?: CallOptions): Promise<LeaseRead | null> {
    const name = toLeaseName(key)
    const asked: Asked = { verb: 'get', namespace, name }
    try {
      return readLease(key, await ask(call, (signal) => api.readNamespacedLease({ name, namespace, signal })))
    } catch (error) {
      if (isNotFound(error)) return null
      throw failure(error, asked)
    }
  }

  async function create(key: string, body: KubernetesLease, call?: CallOptions): Promise<LeaseRead | undefined> {
    const asked: Asked = { verb: 'create', namespace, name: toLeaseName(key) }
    try {
      return readLease(key, await ask(call, (signal) => api.createNamespacedLease({ namespace, body, signal })))
    } catch (error) {
      if (isConflict(error)) return undefined // it exists by now
      throw failure(error, asked)
    }
  }

  async function replace(key: string, body: KubernetesLease, call?: CallOptions): Promise<LeaseRead | undefined> {
    const name = toLeaseName(key)
    const asked: Asked = { verb: 'update', namespace, name }
    try {
      return readLease(key, await ask(call, (signal) => api.replaceNamespacedLease({ name, namespace, body, signal })))
    } catch (error) {
      if (isConflict(error)) return undefined // another has written, or it is another object
      throw failure(error, asked)
    }
  }

  /**
   * How long it is until the second in which the Lease was created is over for certain: 0 when it is. Waits for that where it
   * takes less than half of the time that the call has; a repeat finds what is left.
   */
  async function outlast({ lease }: LeaseRead, untilMs: number): Promise<number> {
    const uid = lease.metadata?.uid ?? ''
    const nowMs = clock.monoMs()
    const sinceMs = young.get(uid) ?? nowMs
    if (!young.has(uid)) {
      if (young.size >= YOUNG_MAX) young.clear()
      young.set(uid, sinceMs)
    }
    const endMs = sinceMs + SECOND_MS
    if (endMs - nowMs > (untilMs - nowMs) / 2) return endMs - nowMs
    // A timer may fire a moment early.
    for (let leftMs = endMs - nowMs; leftMs > 0; leftMs = endMs - clock.monoMs()) await pause(Math.ceil(leftMs))
    return 0
  }

  return {
    read,

    async write(key, record, over, kind, call) {
      const untilMs = clock.monoMs() + (call?.timeoutMs ?? Number.POSITIVE_INFINITY)
      let base = over
      if (base === null) {
        const isGrant = kind === 'grant'
        const first = leaseOf(key, namespace, isGrant ? FREE : record, null, 'other', clock.wallMs())
        const created = await create(key, first, call)
        if (created === undefined || !isGrant) return created
        base = created
      }
      const leftMs = kind === 'grant' && base.transitions === 0 ? await outlast(base, untilMs) : 0
      if (leftMs > 0) return new NotYet(base, leftMs)
      const written = await replace(key, leaseOf(key, namespace, record, base, kind, clock.wallMs()), call)
      if (written !== undefined) young.delete(written.lease.metadata?.uid ?? '')
      return written
    },

    async *list(prefix) {
      const asked: Asked = { verb: 'list', namespace }
      let next: string | undefined
      do {
        const from = next
        let page: Awaited<ReturnType<KubernetesLeases['listNamespacedLease']>>
        try {
          page = await ask(undefined, (signal) =>
            api.listNamespacedLease({
              namespace,
              limit: PAGE,
              signal,
              ...(from === undefined ? {} : { _continue: from }),
            }),
          )
        } catch (error) {
          throw failure(error, asked)
        }
        for (const lease of page.items) {
          const key = keyOf(lease)
          if (key?.startsWith(prefix)) yield { key, read: readLease(key, lease) }
        }
        next = page.metadata?._continue
      } while (next !== undefined && next !== '')
    },

    ...(hub === undefined
      ? {}
      : {
          async *watch(key: string, signal: AbortSignal) {
            for await (const lease of hub.changes(toLeaseName(key), signal))
              yield lease === undefined || lease === null ? lease : readLease(key, lease)
          },
        }),

    async close() {
      hub?.close()
    },
  }
}
