// The fair queue: first in, first out among the claims that go on asking. A turn is kept for the head of the queue, but the
// dead cost no more than one reservation, and all together no more than two polls.
import type { ConformanceCase } from './case.js'
import { check, equal } from './check.js'
import type { Asked, ConformanceWorld } from './world.js'

/** In the queue, for as long as a case takes. */
export const patient = (w: ConformanceWorld): Asked => ({ queue: { pollMs: w.longMs } })

/** In the queue, and out of it when not heard of for two terms. */
export const polling = (w: ConformanceWorld): Asked => ({ queue: { pollMs: w.ttlMs } })

export const onePoll = (w: ConformanceWorld) => w.passMs(w.ttlMs + w.store.capabilities.ttlMsGrain)

type QueueCase = Pick<ConformanceCase, 'id' | 'title' | 'run'> & Partial<ConformanceCase>

/** All are about faults of queues, and about G1: who gets in, and when. */
export const queueCase = (one: QueueCase): ConformanceCase => ({
  guarantee: 'G1',
  aboutFault: true,
  ...one,
  needs: ['fair', ...(one.needs ?? [])],
})

export const queue: readonly ConformanceCase[] = [
  queueCase({
    id: 'G1-queue-is-first-in-first-out',
    title: 'three who queue are served in the order in which they came, whoever asks first when it is free',
    async run(w) {
      const [a, b, c, d] = w.claims()
      await w.granted(a)
      for (const claim of [b, c, d]) await w.refused(claim, 'held', patient(w))
      await w.freed(a)
      await w.refused(d, 'reserved', patient(w))
      await w.refused(c, 'reserved', patient(w))
      await w.granted(b, patient(w))
      await w.refused(d, 'held', patient(w))
      await w.freed(b)
      await w.refused(d, 'reserved', patient(w))
      await w.granted(c, patient(w))
      await w.freed(c)
      await w.granted(d, patient(w))
      equal(await w.waiters(), [], 'who waits in the end')
    },
  }),
  queueCase({
    id: 'G1-queue-is-joined-in-the-refused-step',
    title: 'whoever is refused stands in the queue from then on, in order, and only who asked for it',
    async run(w) {
      const [a, b, c, d] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', patient(w))
      await w.refused(c, 'held')
      await w.refused(d, 'held', patient(w))
      equal(await w.waiters(), [w.holder(b), w.holder(d)], 'who waits')
    },
  }),
  queueCase({
    id: 'G1-queue-has-a-claim-once',
    title: 'a claim that asks again and again stands in the queue once, and keeps its place (C11)',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', patient(w))
      await w.refused(c, 'held', patient(w))
      for (let ask = 0; ask < 3; ask++) await w.refused(b, 'held', patient(w))
      equal(await w.waiters(), [w.holder(b), w.holder(c)], 'who waits')
      await w.freed(a)
      await w.granted(b, patient(w))
      equal(await w.waiters(), [w.holder(c)], 'who waits after the first was served')
      await w.freed(b)
      await w.granted(c, patient(w))
    },
  }),
  queueCase({
    id: 'G1-queue-is-not-passed-by',
    title:
      'while the key is kept for the head of the queue, others are refused (reserved), also those who do not queue',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', patient(w))
      await w.freed(a)
      const held = await w.refused(c, 'reserved')
      equal(held.holder, w.holder(b), 'whose turn it is')
      check(held.remainingMs > 0, `the reservation should have time left, but remainingMs is ${held.remainingMs}`)
      await w.granted(b)
    },
  }),
  queueCase({
    id: 'G1-queue-survives-the-holder',
    title: 'when the holder dies, its expiry passes the turn to the head of the queue',
    async run(w) {
      const [a, b, c] = w.claims()
      const grant = await w.granted(a, { ttlMs: w.ttlMs })
      await w.refused(b, 'held', patient(w))
      await w.expire(grant)
      await w.refused(c, 'reserved', patient(w))
      await w.granted(b, patient(w))
      equal(await w.waiters(), [w.holder(c)], 'who waits')
    },
  }),
  queueCase({
    id: 'G2-handover-yields-to-the-queue',
    guarantee: 'G2',
    title: 'a handover gives way to whoever waits in the queue: refused (reserved), and the old claim has ended',
    async run(w) {
      const [a, b, c] = w.claims()
      const first = await w.granted(a)
      await w.refused(c, 'held', patient(w))
      const held = await w.refused(b, 'reserved', { replaces: a, ...patient(w) })
      equal(held.replaced, true, 'replaced')
      await w.lost(a, ['released'])
      await w.refused(a, 'ended')
      const second = await w.granted(c, patient(w))
      check(second.token > first.token, `the token should rise above ${first.token}, but is ${second.token}`)
      equal(await w.waiters(), [w.holder(b)], 'who waits')
      await w.freed(c)
      await w.granted(b, patient(w))
    },
  }),
  queueCase({
    id: 'G2-force-passes-the-turn',
    guarantee: 'G2',
    title: 'a forced revocation gives the turn to the head of the queue',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', patient(w))
      await w.store.revoke(w.key, { force: true })
      await w.refused(c, 'reserved')
      await w.granted(b, patient(w))
    },
  }),
  queueCase({
    id: 'G3-turn-is-taken-once',
    guarantee: 'G3',
    title: 'the head whose reply was lost asks again, and has the same token (C08)',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', patient(w))
      await w.refused(c, 'held', patient(w))
      await w.freed(a)
      const first = await w.granted(b, patient(w))
      const again = await w.granted(b, patient(w))
      equal(again.token, first.token, 'the token of the repeat')
      equal(await w.waiters(), [w.holder(c)], 'who waits')
      await w.refused(c, 'held', patient(w))
    },
  }),
  queueCase({
    id: 'G1-queue-is-shared',
    title: 'two handles share one queue',
    needs: ['open'],
    async run(w) {
      const [a, b, c] = w.claims()
      const other = await w.open()
      await w.granted(a)
      await w.refused(b, 'held', patient(w), other)
      await w.refused(c, 'held', patient(w))
      await w.freed(a)
      await w.refused(c, 'reserved', patient(w))
      await w.granted(b, patient(w), other)
      await w.freed(b, { on: other })
      await w.refused(b, 'ended', patient(w), other)
      await w.granted(c, patient(w))
    },
  }),
]
