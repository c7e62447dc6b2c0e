// The first grant of a Lease, which has to wait for the second of its creation to be over, with terms so short that a call has a
// quarter of a second: in virtual time, since no machine promises that it answers so soon.
import { expect, it } from 'vitest'
import { createLeases } from '../../src/index.js'
import { kubernetesStore } from '../../src/stores/kubernetes/index.js'
import { seededRandom, VirtualClock } from '../../src/testing/index.js'
import { LeaseObjects } from '../../src/testing/lease-objects.js'

const ROUND_TRIP_MS = 5

/** A client of an API server that is a few ms away. */
function world() {
  const clock = new VirtualClock()
  const objects = new LeaseObjects(() => clock.wallMs())
  const later = async <T>(answer: () => T): Promise<T> => {
    await new Promise<void>((resolve) => clock.setTimer(ROUND_TRIP_MS, resolve))
    return answer()
  }
  const api: Parameters<typeof kubernetesStore>[0] = {
    readNamespacedLease: ({ name }) => later(() => objects.read(name)),
    createNamespacedLease: ({ body }) => later(() => objects.create(body)),
    replaceNamespacedLease: ({ name, body }) => later(() => objects.replace(name, body)),
    listNamespacedLease: async () => ({ items: [] }),
  }
  let clients = 0
  const open = (ttlMs: number) => {
    const random = seededRandom(++clients)
    const store = kubernetesStore(api, { namespace: 'default', clock, random })
    return createLeases({ store, clock, random, ttlMs })
  }
  return { clock, open }
}

it.each([1_000, 2_000])('comes at the first try, for its whole term, with a ttl of %i ms', async (ttlMs) => {
  const { clock, open } = world()
  const leases = open(ttlMs)
  const startMs = clock.monoMs()
  const lease = await clock.advanceUntil(leases.tryAcquire('k'))
  expect(clock.monoMs() - startMs).toBeGreaterThanOrEqual(1_000)
  expect(lease?.remainingMs).toBeGreaterThan(0.9 * ttlMs - 5 * ROUND_TRIP_MS)
  await clock.advanceUntil(Promise.resolve(lease?.release()))
  await clock.advanceUntil(leases.close())
})

it('goes to one of those who want it at once', async () => {
  const { clock, open } = world()
  const clients = [1, 2, 3].map(() => open(1_000))
  const leases = await clock.advanceUntil(Promise.all(clients.map((client) => client.tryAcquire('k'))))
  expect(leases.filter((lease) => lease !== null)).toHaveLength(1)
  await clock.advanceUntil(Promise.all(leases.map((lease) => lease?.release())))
  await clock.advanceUntil(Promise.all(clients.map((client) => client.close())))
})
