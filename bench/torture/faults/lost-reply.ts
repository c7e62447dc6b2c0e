// The server takes the lock, and the reply is lost with its connection. ioredis connects again and, by its own default, sends again
// what it had no answer to: so the same attempt reaches the server twice.
import { waitUntil } from '../../../packages/holdfast/test/redis/servers.js'
import { type Fault, KEY, PATIENCE_MS } from '../fault.js'
import { ms, nameOf, watch } from '../watching.js'

const TTL_MS = 30_000

export const lostReply: Fault = {
  name: 'lost-reply',
  title: 'The reply to an acquire is lost',
  what: 'The lock is free. The proxy swallows the reply to the acquire and resets the connection; ioredis connects again. ttl 30 s.',
  expected: 'the caller gets the lock, or is refused and the key is free again',
  servers: 1,
  async run(library, world) {
    const proxy = await world.proxy()
    const locks = await world.open(library, { ports: [proxy.port], ttlMs: TTL_MS })
    const other = await world.open(library)
    proxy.swallowReplies()
    const acquiring = watch(locks.acquire(KEY, TTL_MS), PATIENCE_MS)
    await waitUntil('the reply of the acquire', () => proxy.counts.bytesSwallowed > 0)
    proxy.heal()
    const end = await acquiring
    if (end.is === 'value') {
      await end.value.release()
      return { did: `granted after ${ms(end.tookMs)}`, verdict: 'yes' }
    }
    const refused =
      end.is === 'error'
        ? `refused after ${ms(end.tookMs)} (${nameOf(end.error)})`
        : `still waiting after ${ms(end.tookMs)}`
    const next = await watch(other.acquire(KEY, TTL_MS), 1_000)
    if (next.is === 'value') return { did: `${refused}, though nobody else wanted it; then free`, verdict: 'in part' }
    return {
      did: `${refused}, though nobody else wanted it; the key stays taken by nobody, until its ttl ends ${ms(TTL_MS - end.tookMs)} later`,
      verdict: 'no',
    }
  },
}
