// G8: a watch gives hints, "may be free now, for this claim". Losing one costs time, never correctness; but those that come
// must come, and a crowd is not woken for one key.
import type { ConformanceCase } from './case.js'
import { equal } from './check.js'

export const watching: readonly ConformanceCase[] = [
  {
    id: 'G8-hint-when-released',
    guarantee: 'G8',
    title: 'a watcher gets a hint when the key is released (C12)',
    aboutFault: false,
    needs: ['watch'],
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      const watching = w.watch(b)
      await w.subscribed(watching)
      const before = watching.hints
      await w.freed(a)
      await w.until(() => watching.hints > before, 'a hint after the release')
    },
  },
  {
    id: 'G8-hint-when-free-already',
    guarantee: 'G8',
    title:
      'whoever starts to watch a free key gets a hint: the release may have come between the try and the watch (C12)',
    aboutFault: true,
    needs: ['watch'],
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held')
      await w.freed(a)
      const watching = w.watch(b)
      await w.until(() => watching.hints > 0, 'a hint for a key that is free already')
    },
  },
  {
    id: 'G8-hint-when-withdrawn',
    guarantee: 'G8',
    title: 'a watcher gets a hint when the holder is withdrawn or revoked by force (C12)',
    aboutFault: true,
    needs: ['watch'],
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      const watching = w.watch(c)
      await w.subscribed(watching)
      let before = watching.hints
      await w.withdraw(a)
      await w.until(() => watching.hints > before, 'a hint after the withdrawal')
      await w.granted(b)
      await w.passMs(w.ttlMs / 2)
      before = watching.hints
      await w.store.revoke(w.key, { force: true })
      await w.until(() => watching.hints > before, 'a hint after the forced revocation')
    },
  },
  {
    id: 'G8-watch-ends-on-abort',
    guarantee: 'G8',
    title: 'a watch ends when its signal aborts, without an error, also when no hint ever comes (C30)',
    aboutFault: true,
    needs: ['watch'],
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      const watching = w.watch(b)
      await w.passMs(w.ttlMs / 2)
      watching.stop()
      await w.until(() => watching.ended, 'the end of the watch')
      equal(watching.error, undefined, 'the error of the watch')
      const late = w.watch(b)
      late.stop()
      await w.until(() => late.ended, 'the end of a watch that was aborted at once')
    },
  },
  {
    id: 'G8-hint-when-the-holder-has-died',
    guarantee: 'G8',
    title: 'the head of the queue gets a hint when another asks and finds the lease expired (C12)',
    aboutFault: true,
    needs: ['watch', 'fair'],
    async run(w) {
      const [a, b, c] = w.claims()
      const patient = { queue: { pollMs: w.longMs } }
      const grant = await w.granted(a, { ttlMs: w.ttlMs })
      await w.refused(b, 'held', patient)
      const watching = w.watch(b)
      await w.expire(grant)
      const before = watching.hints
      await w.refused(c, 'reserved')
      await w.until(() => watching.hints > before, 'a hint for the head of the queue')
    },
  },
  {
    id: 'G8-hint-behind-a-dead-head',
    guarantee: 'G8',
    title: 'whoever starts to watch when the head of the queue has missed its turn gets a hint (C11, C12)',
    aboutFault: true,
    needs: ['watch', 'fair'],
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', { queue: { pollMs: w.ttlMs } })
      await w.refused(c, 'held', { queue: { pollMs: w.longMs } })
      await w.freed(a)
      await w.passMs(w.ttlMs + w.store.capabilities.ttlMsGrain)
      const watching = w.watch(c)
      await w.until(() => watching.hints > 0, 'a hint for the next in line')
    },
  },
  {
    id: 'G8-hint-for-whose-turn-it-is',
    guarantee: 'G8',
    title: 'of two in the queue the head gets the hint, and the other none (C33)',
    aboutFault: true,
    needs: ['watch', 'fair'],
    async run(w) {
      const [a, b, c] = w.claims()
      const patient = { queue: { pollMs: w.longMs } }
      await w.granted(a)
      await w.refused(b, 'held', patient)
      await w.refused(c, 'held', patient)
      const head = w.watch(b)
      const other = w.watch(c)
      await w.subscribed(head, other)
      const before = { head: head.hints, other: other.hints }
      await w.freed(a)
      await w.until(() => head.hints > before.head, 'a hint for the head of the queue')
      await w.passMs(w.ttlMs / 2)
      equal(other.hints, before.other, 'the number of hints for the one whose turn it is not')
      await w.granted(b, patient)
      await w.freed(b)
      await w.until(() => other.hints > before.other, 'a hint for the next')
    },
  },
]
