// `replaces`: a process passes the lease from one of its claims to the next in one atomic step, without a gap.
import type { ConformanceCase } from './case.js'
import { check, equal } from './check.js'

export const handover: readonly ConformanceCase[] = [
  {
    id: 'G2-handover-has-a-new-token',
    guarantee: 'G2',
    title: 'a handover ends the old claim and grants the new one in one step, with a bigger token',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      const first = await w.granted(a)
      const second = await w.granted(b, { replaces: a })
      equal(second.replaced, true, 'replaced')
      check(second.token > first.token, `the token should rise above ${first.token}, but is ${second.token}`)
      await w.untouched(b, second)
      equal((await w.inspect())?.holder, w.holder(b), 'the holder')
      await w.lost(a, ['released'])
      await w.refused(c, 'held')
    },
  },
  {
    id: 'G6-replaced-claim-does-not-return',
    guarantee: 'G6',
    title: 'the claim that was replaced is refused, and its release and withdrawal leave the new one alone (C15)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      const second = await w.granted(b, { replaces: a })
      await w.refused(a, 'ended')
      await w.release(a)
      await w.withdraw(a)
      await w.untouched(b, second)
    },
  },
  {
    id: 'G3-handover-repeated',
    guarantee: 'G3',
    title: 'a handover whose reply was lost is asked again, and gets the same token (C08)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      const second = await w.granted(b, { replaces: a })
      const again = await w.granted(b, { replaces: a })
      equal(again.token, second.token, 'the token of the repeat')
      equal(again.replaced, true, 'replaced, as it was answered the first time')
      await w.untouched(b, second)
    },
  },
  {
    id: 'G4-handover-of-an-expired-claim',
    guarantee: 'G4',
    title: 'a handover from a claim that has expired is an ordinary acquire, and says so',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const first = await w.granted(a, { ttlMs: w.ttlMs })
      await w.expire(first)
      const second = await w.granted(b, { replaces: a })
      equal(second.replaced, false, 'replaced')
      check(second.token > first.token, `the token should rise above ${first.token}, but is ${second.token}`)
    },
  },
  {
    id: 'G4-handover-when-another-holds',
    guarantee: 'G4',
    title: 'a handover from a claim that lost the key to another is refused, and leaves the other alone (C26)',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      await w.expire(await w.granted(a, { ttlMs: w.ttlMs }))
      const taken = await w.granted(c)
      const held = await w.refused(b, 'held', { replaces: a })
      equal(held.replaced, false, 'replaced')
      await w.untouched(c, taken)
    },
  },
  {
    id: 'G6-handover-to-a-withdrawn-claim',
    guarantee: 'G6',
    title: 'a handover that was given up, both its claims withdrawn, takes nothing when it arrives (C15)',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.withdraw(b)
      await w.withdraw(a)
      await w.refused(b, 'ended', { replaces: a })
      const grant = await w.granted(c)
      await w.refused(b, 'ended', { replaces: a })
      await w.untouched(c, grant)
    },
  },
]
