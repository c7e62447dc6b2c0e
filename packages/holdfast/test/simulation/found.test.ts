// Faults that the simulation has found, each as the shortest story that shows it. docs/track-record.md has a row for each, with
// the seed that found it and the commit before the fix.
import { createLeases } from 'holdfast'
import { memoryStore } from 'holdfast/memory'
import { faultyStore, VirtualClock } from 'holdfast/testing'
import { expect, it } from 'vitest'

it('a lease that is found to be over by the next caller leaves one contender of the process, not two', async () => {
  const clock = new VirtualClock()
  const store = faultyStore(memoryStore({ clock }), { clock })
  const leases = createLeases({ store, clock, holder: 'a' })
  await leases.acquire('report', { ttlMs: 1_000, renew: false })
  clock.block(950) // past the deadline, within the term: no timer has fired, nobody has looked
  const attempt = leases.tryAcquire('report')
  const waiting = leases.acquire('report')
  const claims = new Set(store.callsOf('acquire').map(({ request }) => request.claim))
  expect(claims.size).toBe(2) // that of the lease which is over, and one that contends

  expect(await clock.advanceUntil(attempt)).toBeNull()
  const lease = await clock.advanceUntil(waiting)
  expect(lease.held).toBe(true)
})

it('a contender does not wait for its own claim, which was granted by a lost reply and revoked since', async () => {
  const clock = new VirtualClock()
  const store = faultyStore(memoryStore({ clock }), { clock })
  const leases = createLeases({ store, clock, holder: 'a' })
  store.next('acquire', { dropAfter: true }, { dropBefore: true })
  const waiting = leases.acquire('report', { ttlMs: 30_000, waitMs: 60_000 })
  await clock.advance(10)
  await store.revoke('report')
  const revokedMs = clock.monoMs()
  const lease = await clock.advanceUntil(waiting)
  expect(lease.held).toBe(true)
  expect(clock.monoMs() - revokedMs).toBeLessThan(10_000) // two time-outs and a poll, not the term of 30 s
})
