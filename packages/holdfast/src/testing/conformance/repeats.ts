// G3: an acquire repeated by the claim that holds succeeds, with the same token, and never shortens the term. So a retry
// after a lost reply is safe, and so is a network that delivers twice.
import type { ConformanceCase } from './case.js'
import { check, equal } from './check.js'

export const repeats: readonly ConformanceCase[] = [
  {
    id: 'G3-repeat-keeps-the-token',
    guarantee: 'G3',
    title: 'a repeated acquire is granted again, with the same token, as the same change of hands (C08)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const first = await w.granted(a)
      const again = await w.granted(a)
      equal(again.token, first.token, 'the token of the repeat')
      equal((await w.inspect())?.changes, 1, 'the number of changes of hands')
      await w.refused(b, 'held')
    },
  },
  {
    id: 'G3-delivered-twice',
    guarantee: 'G3',
    title: 'two copies of one acquire that arrive together get one token (C08)',
    aboutFault: true,
    async run(w) {
      const [a] = w.claims()
      const [one, two] = await Promise.all([w.granted(a), w.granted(a)])
      equal(two.token, one.token, 'the token of the second copy')
      await w.untouched(a, one)
    },
  },
  {
    id: 'G3-repeat-extends',
    guarantee: 'G3',
    title: 'a repeated acquire lasts from now on for its ttl (C10)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const first = await w.granted(a, { ttlMs: w.ttlMs })
      const again = await w.granted(a)
      check(again.ttlMs >= w.longMs, `the granted ttl should be at least ${w.longMs}, but is ${again.ttlMs}`)
      await w.expire(first)
      await w.refused(b, 'held')
      await w.untouched(a, first)
    },
  },
  {
    id: 'G3-repeat-is-no-sum',
    guarantee: 'G3',
    title: 'a repeated acquire does not add its ttl to what was left: a dead holder costs one ttl',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      for (let copy = 0; copy < 5; copy++) await w.granted(a, { ttlMs: w.ttlMs })
      const grant = await w.granted(a, { ttlMs: w.ttlMs })
      await w.expire(grant)
      await w.granted(b)
    },
  },
  {
    id: 'G3-repeat-never-shortens',
    guarantee: 'G3',
    title: 'a repeated acquire with a shorter ttl leaves the longer term (C20)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const first = await w.granted(a)
      const short = await w.granted(a, { ttlMs: w.ttlMs })
      equal(short.token, first.token, 'the token of the repeat')
      await w.expire({ ...short, ttlMs: w.ttlMs })
      await w.refused(b, 'held')
      await w.untouched(a, first)
    },
  },
  {
    id: 'G3-repeat-of-a-loser-is-no-grant',
    guarantee: 'G3',
    title: 'a repeated acquire of a claim that was refused is refused again',
    aboutFault: false,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held')
      await w.refused(b, 'held')
    },
  },
]
