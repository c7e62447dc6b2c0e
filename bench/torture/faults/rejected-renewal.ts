// The server refuses one renewal with an error, as it does for a moment around a fail-over, and is well again. Most of the ttl, or a
// part of it, is left to ask again.
import { type Fault, KEY, type Line, none } from '../fault.js'
import { believing, door, ms, nowMs, pass, watch } from '../watching.js'

const TTL_MS = 4_000

export const rejectedRenewal: Fault = {
  name: 'rejected-renewal',
  title: 'One renewal is refused with an error',
  what: 'Work runs under the lock, ttl 4 s. The server refuses writes (NOREPLICAS, by `min-replicas-to-write`) until it has refused one renewal, and takes them again at once. The work goes on for two more ttls.',
  expected: 'the lock is kept, and the process lives',
  servers: 1,
  async run(library, world) {
    if (!library.renews) return none('does not renew')
    const locks = await world.open(library)
    const other = await world.open(library)
    const admin = world.client()
    const refusals = async () =>
      Number(/errorstat_NOREPLICAS:count=(\d+)/.exec(await admin.info('errorstats'))?.[1] ?? 0)
    const end = door()
    const line = door()
    let did: Line = none('was never granted')
    const holding = locks.hold(KEY, TTL_MS, async (view) => {
      const grantedMs = nowMs()
      await admin.config('SET', 'min-replicas-to-write', '1')
      while ((await refusals()) === 0 && nowMs() - grantedMs < 1.5 * TTL_MS) await pass(5)
      await admin.config('SET', 'min-replicas-to-write', '0')
      const refusedMs = nowMs() - grantedMs
      const { lastMs, still } = await believing(view, nowMs() + 2 * TTL_MS)
      const next = await watch(other.acquire(KEY, TTL_MS), 300)
      const saw = `refused once after ${ms(refusedMs)}`
      if (!still) {
        const leftMs = TTL_MS - (lastMs - grantedMs)
        did = { did: `${saw}; gave the lock up with ${ms(leftMs)} left`, verdict: 'no' }
      } else if (next.is === 'value') {
        did = { did: `${saw}; lost the lock without noticing`, verdict: 'no' }
      } else {
        did = { did: `${saw}; kept the lock for two more ttls`, verdict: 'yes' }
      }
      line.open()
      await end.opened
    })
    await Promise.race([line.opened, watch(holding, 30_000)])
    end.open()
    await watch(holding, 5_000)
    return did
  },
}
