// Holdfast, as the faults drive it: `hold` and `acquire` with their defaults, over several servers the quorum store.
import { createLeases, type Lease } from 'holdfast'
import { quorumStore } from 'holdfast/quorum'
import { redisStore } from 'holdfast/redis'
import type { Library, View } from '../peers/library.js'

const viewOf = (lease: Lease): View => ({ believes: () => lease.held, remainingMs: () => lease.remainingMs })

export const holdfast: Library = {
  name: 'holdfast',
  setup:
    '`hold()` on `redisStore`, over several servers `quorumStore`; `lease.held` and `lease.signal` are what it says of a lease',
  renews: true,
  tells: true,
  sends: ['evalsha', 'eval'],
  quorum: true,
  async open(clients, { endless = false } = {}) {
    const stores = clients.map((client) => redisStore(client))
    const [single, second] = stores
    const store = single !== undefined && second === undefined ? single : quorumStore(stores)
    const leases = createLeases({ store, ...(endless ? { waitMs: Number.POSITIVE_INFINITY } : {}) })
    return {
      async acquire(key, ttlMs) {
        const lease = await leases.acquire(key, { ttlMs })
        return { ...viewOf(lease), release: () => lease.release() }
      },
      hold: (key, ttlMs, work) => leases.hold(key, { ttlMs }, (lease) => work(viewOf(lease))),
      close: () => leases.close({ drainMs: 0 }),
    }
  },
}
