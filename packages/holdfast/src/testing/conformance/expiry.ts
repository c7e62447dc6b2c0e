// G4: expiry is final. A claim past its expiry neither renews nor releases, and leaves every other claim alone.
import type { ConformanceCase } from './case.js'
import { check, equal } from './check.js'

export const expiry: readonly ConformanceCase[] = [
  {
    id: 'G4-no-renewal-after-expiry',
    guarantee: 'G4',
    title: 'a renewal past the expiry is lost (expired), even when nobody took the key, and the key is free (C26)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.expire(await w.granted(a, { ttlMs: w.ttlMs }))
      await w.lost(a, ['expired'])
      await w.granted(b)
    },
  },
  {
    id: 'G4-no-renewal-after-takeover',
    guarantee: 'G4',
    title: 'a renewal after another took the key is lost (taken), and leaves the other alone (C26)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.expire(await w.granted(a, { ttlMs: w.ttlMs }))
      const taken = await w.granted(b)
      await w.lost(a, ['taken'])
      await w.untouched(b, taken)
    },
  },
  {
    id: 'G4-late-renewal-lends-no-time',
    guarantee: 'G4',
    title: 'a renewal by one who lost the key does not lengthen the term of the other (C26)',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      await w.expire(await w.granted(a, { ttlMs: w.ttlMs }))
      const taken = await w.granted(b, { ttlMs: w.ttlMs })
      await w.lost(a)
      await w.expire(taken)
      await w.granted(c)
    },
  },
  {
    id: 'G4-no-release-after-expiry',
    guarantee: 'G4',
    title: 'a release past the expiry is lost (expired), and harmless (C29)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.expire(await w.granted(a, { ttlMs: w.ttlMs }))
      await w.releaseIsLost(a, ['expired'])
      await w.granted(b)
    },
  },
  {
    id: 'G4-no-release-after-takeover',
    guarantee: 'G4',
    title: 'a release after another took the key is lost (taken), and leaves the other alone (C26, C29)',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      await w.expire(await w.granted(a, { ttlMs: w.ttlMs }))
      const taken = await w.granted(b)
      await w.releaseIsLost(a, ['taken'])
      await w.untouched(b, taken)
      await w.refused(c, 'held')
    },
  },
  {
    id: 'G4-no-return-after-others',
    guarantee: 'G4',
    title: 'a claim that expired stays lost after another has come and gone (C15)',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      await w.expire(await w.granted(a, { ttlMs: w.ttlMs }))
      await w.granted(b)
      await w.freed(b)
      await w.lost(a, ['expired', 'taken'])
      await w.releaseIsLost(a, ['expired', 'taken'])
      await w.granted(c)
    },
  },
  {
    id: 'G4-new-grant-after-expiry-is-a-new-term',
    guarantee: 'G4',
    title: 'an acquire by a claim that expired is a new grant: between them another could have been told "free"',
    aboutFault: true,
    async run(w) {
      const [a] = w.claims()
      const first = await w.granted(a, { ttlMs: w.ttlMs })
      await w.expire(first)
      const second = await w.granted(a)
      check(second.token > first.token, `the token should rise above ${first.token}, but is ${second.token}`)
      equal((await w.inspect())?.changes, 2, 'the number of changes of hands')
    },
  },
  {
    id: 'G4-strangers-change-nothing',
    guarantee: 'G4',
    title: 'renewals and releases by a claim that never held are lost, on a held key and on one never seen (C26)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.lost(b)
      await w.releaseIsLost(b)
      const grant = await w.granted(a)
      await w.lost(b, ['taken'])
      await w.releaseIsLost(b, ['taken'])
      await w.untouched(a, grant)
    },
  },
  {
    id: 'G4-renewed-lease-has-no-age',
    guarantee: 'G4',
    title: 'a lease that is renewed is held for as long as it is renewed: age is not expiry (C52)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const grant = await w.granted(a, { ttlMs: w.ttlMs })
      equal((await w.renew(a)).is, 'renewed', 'the renewal')
      for (let term = 0; term < 3; term++) {
        await w.expire(grant)
        await w.prune()
        await w.refused(b, 'held')
      }
      await w.untouched(a, grant)
    },
  },
  {
    id: 'G4-renewal-lasts-its-ttl-and-no-longer',
    guarantee: 'G4',
    title: 'a renewed lease whose holder then dies is free one ttl later',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const grant = await w.granted(a, { ttlMs: w.ttlMs })
      for (let round = 0; round < 4; round++) equal((await w.renew(a, { ttlMs: w.ttlMs })).is, 'renewed', 'the renewal')
      await w.expire(grant)
      await w.granted(b)
    },
  },
  {
    id: 'G4-renewal-never-shortens',
    guarantee: 'G4',
    title: 'a renewal with a shorter ttl, or one that arrives late, leaves the longer term (C20)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const grant = await w.granted(a)
      equal((await w.renew(a, { ttlMs: w.ttlMs })).is, 'renewed', 'the renewal')
      await w.expire({ ...grant, ttlMs: w.ttlMs })
      await w.refused(b, 'held')
      await w.untouched(a, grant)
    },
  },
  {
    id: 'G4-released-twice',
    guarantee: 'G4',
    title: 'releasing twice answers released twice, and a renewal after it is lost (released) (C15, C29)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      await w.freed(a)
      await w.freed(a)
      await w.lost(a, ['released'])
      const next = await w.granted(b)
      await w.lost(a, ['released'])
      await w.release(a)
      await w.untouched(b, next)
    },
  },
]
