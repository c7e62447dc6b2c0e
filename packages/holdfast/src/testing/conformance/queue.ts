// The fair queue: first in, first out among the claims that go on asking. A turn is kept for the head of the queue, but the
// dead cost no more than one reservation, and all together no more than two polls.
import type { ConformanceCase } from './case.js'
import { check, equal } from './check.js'
import type { Asked, ConformanceWorld } from './world.js'

/** In the queue, for as long as a case takes. */
const patient = (w: ConformanceWorld): Asked => ({ queue: { pollMs: w.longMs } })

/** In the queue, and out of it when not heard of for two terms. */
const polling = (w: ConformanceWorld): Asked => ({ queue: { pollMs: w.ttlMs } })

const onePoll = (w: ConformanceWorld) => w.passMs(w.ttlMs + w.store.capabilities.ttlMsGrain)

type QueueCase = Pick<ConformanceCase, 'id' | 'title' | 'run'> & Partial<ConformanceCase>

/** All are about faults of queues, and about G1: who gets in, and when. */
const queueCase = (one: QueueCase): ConformanceCase => ({
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
    id: 'G1-dead-head-costs-one-reservation',
    title: 'a head that does not come is passed over when its reservation is over (C11)',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', polling(w))
      await w.refused(c, 'held', patient(w))
      await w.freed(a)
      const held = await w.refused(c, 'reserved', patient(w))
      check(
        held.remainingMs <= w.ttlMs,
        `the reservation should be over within one poll, but remainingMs is ${held.remainingMs}`,
      )
      await onePoll(w)
      await w.granted(c, patient(w))
      equal(await w.waiters(), [], 'who waits')
    },
  }),
  queueCase({
    id: 'G1-ghosts-cost-two-polls-together',
    title: 'ten waiters that died together delay a live one by two polls, not by ten reservations (C11)',
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      for (let ghost = 0; ghost < 10; ghost++) await w.refused(`ghost ${ghost}`, 'held', polling(w))
      await w.refused(b, 'held', patient(w))
      await w.freed(a)
      await w.refused(b, 'reserved', patient(w))
      await onePoll(w)
      await w.acquire(b, patient(w))
      await onePoll(w)
      await w.granted(b, patient(w))
    },
  }),
  queueCase({
    id: 'G1-ghosts-fall-out-while-it-is-held',
    title: 'waiters that stopped asking while the key was held delay nobody when it is released (C11)',
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      for (let ghost = 0; ghost < 10; ghost++) await w.refused(`ghost ${ghost}`, 'held', polling(w))
      await w.refused(b, 'held', patient(w))
      await onePoll(w)
      await onePoll(w)
      equal(await w.waiters(), [w.holder(b)], 'who waits')
      await w.freed(a)
      await w.granted(b, patient(w))
    },
  }),
  queueCase({
    id: 'G1-asking-keeps-the-place',
    title: 'a waiter that goes on asking within its poll keeps its place',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', { queue: { pollMs: 2 * w.ttlMs } })
      await w.refused(c, 'held', patient(w))
      for (let poll = 0; poll < 5; poll++) {
        await onePoll(w)
        await w.refused(b, 'held', { queue: { pollMs: 2 * w.ttlMs } })
      }
      await w.freed(a)
      await w.refused(c, 'reserved', patient(w))
      await w.granted(b, patient(w))
    },
  }),
  queueCase({
    id: 'G6-withdrawal-leaves-the-queue',
    guarantee: 'G6',
    title: 'a waiter that was withdrawn has left the queue, and costs the next no time (C11)',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', patient(w))
      await w.refused(c, 'held', patient(w))
      await w.withdraw(b)
      equal(await w.waiters(), [w.holder(c)], 'who waits')
      await w.refused(b, 'ended', patient(w))
      equal(await w.waiters(), [w.holder(c)], 'who waits after the withdrawn one asked again')
      await w.freed(a)
      await w.granted(c, patient(w))
    },
  }),
  queueCase({
    id: 'G6-withdrawn-head-passes-its-turn',
    guarantee: 'G6',
    title: 'a head withdrawn while the key is kept for it passes the turn at once (C11)',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', patient(w))
      await w.refused(c, 'held', patient(w))
      await w.freed(a)
      await w.refused(c, 'reserved', patient(w))
      await w.withdraw(b)
      await w.granted(c, patient(w))
    },
  }),
  queueCase({
    id: 'G6-withdrawn-holder-passes-the-turn',
    guarantee: 'G6',
    title: 'withdrawing the holder gives the turn to the head of the queue',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', patient(w))
      await w.withdraw(a)
      await w.refused(c, 'reserved')
      await w.granted(b, patient(w))
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
