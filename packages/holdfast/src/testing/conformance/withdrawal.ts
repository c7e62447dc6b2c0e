// G6: a claim that was withdrawn is refused from then on, even if its acquire arrives later. So a caller who gave up on an
// answer leaves no lease behind that nobody wants.
import type { ConformanceCase } from './case.js'
import { check, equal } from './check.js'

export const withdrawal: readonly ConformanceCase[] = [
  {
    id: 'G6-withdrawn-before-it-arrives',
    guarantee: 'G6',
    title: 'a claim withdrawn before its acquire arrives is refused (ended), and the key stays free (C08)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.withdraw(a)
      await w.refused(a, 'ended')
      await w.granted(b)
    },
  },
  {
    id: 'G6-withdrawn-holder-frees',
    guarantee: 'G6',
    title: 'withdrawing the holder frees the key at once, and its acquire is refused from then on (C08)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      await w.withdraw(a)
      await w.refused(a, 'ended')
      await w.lost(a, ['released'])
      await w.granted(b)
      await w.refused(a, 'ended')
    },
  },
  {
    id: 'G6-withdrawal-leaves-others-alone',
    guarantee: 'G6',
    title: 'withdrawing an old claim, or one never seen, leaves the holder alone (C26)',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      await w.expire(await w.granted(a, { ttlMs: w.ttlMs }))
      const grant = await w.granted(b)
      await w.withdraw(a)
      await w.withdraw(c)
      await w.untouched(b, grant)
      equal((await w.renew(b)).is, 'renewed', 'the renewal of the holder')
    },
  },
  {
    id: 'G6-withdrawn-while-another-holds',
    guarantee: 'G6',
    title: 'a claim withdrawn while another holds is refused after that one has gone (C08)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(b)
      await w.withdraw(a)
      await w.refused(a, 'ended')
      await w.freed(b)
      await w.refused(a, 'ended')
    },
  },
  {
    id: 'G6-memory-outlives-other-holders',
    guarantee: 'G6',
    title: 'a withdrawn claim is refused after other holders have come and gone (C08)',
    aboutFault: true,
    async run(w) {
      const [a, b, c, d] = w.claims()
      await w.granted(a)
      await w.withdraw(a)
      await w.granted(b)
      await w.freed(b)
      await w.granted(c)
      await w.withdraw(c)
      await w.granted(d)
      await w.freed(d)
      await w.refused(a, 'ended')
      await w.refused(c, 'ended')
    },
  },
  {
    id: 'G6-many-are-remembered',
    guarantee: 'G6',
    title: 'many withdrawn claims are remembered at once (C08)',
    aboutFault: true,
    async run(w) {
      const claims = Array.from({ length: 20 }, (_, i) => `gone ${i}`)
      for (const claim of claims) await w.withdraw(claim)
      for (const claim of claims) await w.refused(claim, 'ended')
      await w.granted(w.claims()[0])
      for (const claim of claims) await w.refused(claim, 'ended')
    },
  },
  {
    id: 'G6-withdrawn-twice',
    guarantee: 'G6',
    title: 'withdrawing twice, and at the same moment as the acquire, leaves the key free for others (C15)',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      await Promise.all([w.acquire(a), w.withdraw(a), w.withdraw(a), w.acquire(a)])
      await w.withdraw(a)
      await w.refused(a, 'ended')
      const grant = await w.granted(b)
      await w.withdraw(a)
      await w.untouched(b, grant)
      await w.refused(c, 'held')
    },
  },
  {
    id: 'G6-released-claim-does-not-return',
    guarantee: 'G6',
    title: 'a copy of the acquire that arrives after the release is refused (ended) (C15)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      await w.freed(a)
      await w.refused(a, 'ended')
      await w.granted(b)
      await w.refused(a, 'ended')
    },
  },
  {
    id: 'G6-withdrawn-claim-does-not-renew',
    guarantee: 'G6',
    title: 'a renewal that arrives after the withdrawal is lost, and takes nothing back (C15)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      await w.withdraw(a)
      await w.lost(a, ['released'])
      const record = await w.inspect()
      check(record === null || record.state === 'free', 'the key should be free after the withdrawal')
      await w.granted(b)
    },
  },
  {
    id: 'G6-memory-survives-pruning',
    guarantee: 'G6',
    title: 'pruning forgets no claim that was just withdrawn (C08)',
    aboutFault: true,
    needs: ['prune'],
    async run(w) {
      const [a] = w.claims()
      await w.granted(a)
      await w.withdraw(a)
      await w.prune()
      await w.refused(a, 'ended')
    },
  },
  {
    id: 'G6-memory-lasts',
    guarantee: 'G6',
    title: 'a withdrawn claim is remembered for almost two terms, and for a minute when those are shorter (C08)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const ttlMs = 4 * w.ttlMs
      await w.granted(a, { ttlMs })
      await w.withdraw(a)
      await w.passMs(1.75 * ttlMs)
      await w.granted(b)
      await w.freed(b)
      await w.refused(a, 'ended')
    },
  },
  {
    id: 'G6-memory-is-shared',
    guarantee: 'G6',
    title: 'a claim withdrawn through one handle is refused through another (C08)',
    aboutFault: true,
    needs: ['open'],
    async run(w) {
      const [a, b] = w.claims()
      const other = await w.open()
      await w.withdraw(a, { on: other })
      await w.refused(a, 'ended')
      await w.granted(b, {}, other)
      await w.refused(a, 'ended', {}, other)
    },
  },
]
