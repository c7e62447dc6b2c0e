// The reply to an acquire comes after the ttl has passed: what it grants is over.
import { type Fault, KEY, PATIENCE_MS } from '../fault.js'
import { ms, nameOf, pass, watch } from '../watching.js'

const TTL_MS = 2_000
const LATE = 1.2

export const slowAcquire: Fault = {
  name: 'slow-acquire',
  title: 'The reply to an acquire comes too late',
  what: 'The lock is free. All replies are held back for 1.2 ttls, then let through. ttl 2 s.',
  expected: 'no lock that is over is handed out',
  servers: 1,
  async run(library, world) {
    const proxy = await world.proxy()
    const locks = await world.open(library, { ports: [proxy.port], ttlMs: TTL_MS })
    const other = await world.open(library)
    proxy.hang('toClient')
    const acquiring = watch(locks.acquire(KEY, TTL_MS), PATIENCE_MS)
    await pass(LATE * TTL_MS)
    proxy.heal()
    const end = await acquiring
    if (end.is === 'open') return { did: `had not ended after ${ms(end.tookMs)}`, verdict: 'no' }
    if (end.is === 'error') {
      const next = await watch(other.acquire(KEY, TTL_MS), 1_000)
      const free = next.is === 'value'
      const then = free ? 'the key was free' : 'the key stayed taken'
      return {
        did: `refused after ${ms(end.tookMs)} (${nameOf(end.error)}); ${then}`,
        verdict: free ? 'yes' : 'in part',
      }
    }
    const believes = end.value.believes()
    const remainingMs = end.value.remainingMs?.()
    const next = await watch(other.acquire(KEY, TTL_MS), 300)
    const says = remainingMs === undefined ? '' : `, said to be good for ${ms(remainingMs)}`
    const granted = `granted after ${ms(end.tookMs)}${says}`
    if (next.is !== 'value') return { did: `${granted}, and it was`, verdict: 'yes' }
    if (believes === false) return { did: `${granted}: over when it was handed out`, verdict: 'in part' }
    return { did: `${granted}; it was over, and another got it at once: two believe`, verdict: 'no' }
  },
}
