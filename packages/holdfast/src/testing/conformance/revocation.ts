// `revoke`: an operator takes a lease back. The term runs out, so that nobody is overtaken while believing; by force at once.
import type { ConformanceCase } from './case.js'
import { check, equal, has } from './check.js'

export const revocation: readonly ConformanceCase[] = [
  {
    id: 'G1-revoked-term-runs-out',
    guarantee: 'G1',
    title: 'a revoked lease is not renewed (revoked), and nobody else gets in before its term is over',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const first = await w.granted(a, { ttlMs: w.ttlMs })
      const record = await w.store.revoke(w.key)
      has(record, { state: 'held', claim: a, token: first.token }, 'the record given by revoke')
      await w.refused(b, 'held')
      await w.lost(a, ['revoked'])
      await w.expire(first)
      await w.lost(a)
      const second = await w.granted(b)
      check(second.token > first.token, `the token should rise above ${first.token}, but is ${second.token}`)
      equal((await w.renew(b)).is, 'renewed', 'the renewal of the next holder')
    },
  },
  {
    id: 'G1-revoked-holder-may-not-ask-again',
    guarantee: 'G1',
    title: 'a revoked holder does not get around it by repeating its acquire (revoked)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const grant = await w.granted(a, { ttlMs: w.ttlMs })
      await w.store.revoke(w.key)
      await w.refused(a, 'revoked')
      await w.expire(grant)
      await w.granted(b)
    },
  },
  {
    id: 'G1-revoked-holder-may-release',
    guarantee: 'G1',
    title: 'a revoked holder that gives the lease back frees it before the end of the term',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      await w.store.revoke(w.key)
      await w.refused(b, 'held')
      await w.freed(a)
      await w.granted(b)
    },
  },
  {
    id: 'G1-revocation-is-shown',
    guarantee: 'G1',
    title: 'inspect shows that a lease is revoked, and that the next one is not',
    aboutFault: true,
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.store.revoke(w.key)
      has(await w.inspect(), { state: 'held', claim: a, revoked: true }, 'the record of the revoked lease')
      await w.freed(a)
      await w.granted(b)
      has(await w.inspect(), { state: 'held', claim: b, revoked: false }, 'the record of the next lease')
      await w.freed(b)
      const grant = await w.granted(c, { ttlMs: w.ttlMs })
      await w.store.revoke(w.key)
      await w.expire(grant)
      has(await w.inspect(), { state: 'free', revoked: false }, 'the record of a revoked lease that has run out')
    },
  },
  {
    id: 'G2-force-frees-at-once',
    guarantee: 'G2',
    title: 'a forced revocation frees the key at once: the next has a bigger token, the old one is lost (revoked)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const first = await w.granted(a)
      const record = await w.store.revoke(w.key, { force: true })
      has(record, { state: 'held', claim: a, token: first.token }, 'the record given by revoke')
      const second = await w.granted(b)
      check(second.token > first.token, `the token should rise above ${first.token}, but is ${second.token}`)
      await w.lost(a, ['revoked'])
      await w.refused(a, 'ended')
      await w.release(a)
      await w.untouched(b, second)
    },
  },
  {
    id: 'G13-forced-out-is-told-at-release',
    guarantee: 'G13',
    title: 'whoever was revoked by force hears of it at its release, also when nobody has come since',
    aboutFault: true,
    async run(w) {
      const [a] = w.claims()
      await w.granted(a)
      await w.store.revoke(w.key, { force: true })
      await w.releaseIsLost(a, ['revoked'])
    },
  },
  {
    id: 'G1-revoking-nobody',
    guarantee: 'G1',
    title: 'revoking a key that nobody holds gives null, and harms nobody who comes later',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      equal(await w.store.revoke(w.key), null, 'revoking a key never seen')
      await w.expire(await w.granted(a, { ttlMs: w.ttlMs }))
      equal(await w.store.revoke(w.key), null, 'revoking an expired lease')
      equal(await w.store.revoke(w.key, { force: true }), null, 'revoking an expired lease by force')
      await w.granted(b)
      equal((await w.renew(b)).is, 'renewed', 'the renewal of the next holder')
      await w.freed(b)
      equal(await w.store.revoke(w.key), null, 'revoking a released lease')
    },
  },
]
