// Who falls out of the fair queue, and who does not: a waiter that died or gave up costs the living a bounded time, and one
// that goes on asking keeps its place.
import type { ConformanceCase } from './case.js'
import { check, equal } from './check.js'
import { onePoll, patient, polling, queueCase } from './queue.js'

export const ghosts: readonly ConformanceCase[] = [
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
      await w.passMs(w.ttlMs / 2)
      await w.acquire(c, patient(w)) // asking does not lengthen the reservation of another
      await w.passMs(w.ttlMs / 2 + w.store.capabilities.ttlMsGrain)
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
    id: 'G1-late-waiter-keeps-the-place',
    title: 'a waiter that asks later than its poll, but before two of them have passed, keeps its place',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', polling(w))
      await w.refused(c, 'held', patient(w))
      await w.passMs(1.1 * w.ttlMs)
      equal(await w.waiters(), [w.holder(b), w.holder(c)], 'who waits before it asks again')
      await w.refused(b, 'held', patient(w))
      equal(await w.waiters(), [w.holder(b), w.holder(c)], 'who waits')
    },
  }),
  queueCase({
    id: 'G1-turn-that-was-taken-is-over',
    title: 'the time kept for one who came is not counted against the next in line',
    async run(w) {
      const [a, b, c, d] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', polling(w))
      await w.refused(c, 'held', patient(w))
      await w.freed(a)
      await w.granted(b, polling(w))
      await onePoll(w)
      await w.freed(b)
      await w.refused(d, 'reserved')
      await w.granted(c, patient(w))
    },
  }),
  queueCase({
    id: 'G1-queue-survives-pruning',
    title: 'pruning forgets no key that is free but waited for',
    needs: ['prune'],
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', patient(w))
      await w.freed(a)
      await w.prune()
      await w.refused(c, 'reserved')
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
      const [a, b, c, d] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', polling(w))
      await w.refused(c, 'held', patient(w))
      await w.freed(a)
      await w.withdraw(b)
      const held = await w.refused(d, 'reserved')
      equal(held.holder, w.holder(c), 'whose turn it is')
      check(held.remainingMs > w.ttlMs, `the next should have its whole time, but remainingMs is ${held.remainingMs}`)
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
]
