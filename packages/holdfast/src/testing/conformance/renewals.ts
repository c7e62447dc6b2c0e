// Renewing many leases in one call: one outcome for each, in order, whatever becomes of the others.
import type { ConformanceCase } from './case.js'
import { check, equal } from './check.js'

export const renewals: readonly ConformanceCase[] = [
  {
    id: 'G4-renewals-are-answered-one-by-one',
    guarantee: 'G4',
    title: 'of many renewals in one call each gets its own outcome, in order (C18)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const key = (name: string) => `${w.key}${name}`
      const expired = await w.granted(a, { key: key('expired'), ttlMs: w.ttlMs })
      await w.expire(expired, { key: key('expired') })
      await w.granted(a, { key: key('first') })
      await w.granted(b, { key: key('other') })
      await w.granted(a, { key: key('revoked') })
      await w.store.revoke(key('revoked'))
      await w.granted(a, { key: key('released') })
      await w.freed(a, { key: key('released') })
      await w.granted(a, { key: key('last') })

      const asked = ['last', 'other', 'expired', 'unknown', 'first', 'revoked', 'released', 'first']
      const outcomes = await w.store.renew(asked.map((name) => ({ key: key(name), claim: a, ttlMs: w.longMs })))
      const reasons = outcomes.map((outcome) => (outcome.is === 'lost' ? outcome.reason : outcome.is))
      const expected = ['renewed', 'taken', 'expired', 'expired', 'renewed', 'revoked', 'released', 'renewed']
      equal(reasons, expected, `the outcomes of renewing ${asked.join(', ')}`)
    },
  },
  {
    id: 'G4-renewals-of-one-key-by-two-claims',
    guarantee: 'G4',
    title: 'two claims that renew one key in one call get two outcomes (C20)',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const grant = await w.granted(b)
      const outcomes = await w.store.renew([a, b, a].map((claim) => ({ key: w.key, claim, ttlMs: w.longMs })))
      equal(
        outcomes.map((outcome) => outcome.is),
        ['lost', 'renewed', 'lost'],
        'the outcomes of a, b and a',
      )
      await w.untouched(b, grant)
    },
  },
  {
    id: 'G4-renewal-of-many',
    guarantee: 'G4',
    title: 'a hundred leases are renewed in one call',
    aboutFault: false,
    async run(w) {
      const [a] = w.claims()
      const keys = Array.from({ length: 100 }, (_, i) => `${w.key}${i}`)
      await w.forAll(keys, (key) => w.granted(a, { key }))
      const outcomes = await w.store.renew(keys.map((key) => ({ key, claim: a, ttlMs: w.longMs })))
      check(outcomes.length === 100 && outcomes.every(({ is }) => is === 'renewed'), 'all hundred should be renewed')
    },
  },
  {
    id: 'G4-renewal-of-none',
    guarantee: 'G4',
    title: 'renewing nothing gives no outcome, and is no error',
    aboutFault: false,
    async run(w) {
      equal(await w.store.renew([]), [], 'the outcomes')
    },
  },
  {
    id: 'G4-renewal-grants-what-was-asked',
    guarantee: 'G4',
    title: 'a renewal says for how long it was granted: at least what was asked (C03)',
    aboutFault: false,
    async run(w) {
      const [a] = w.claims()
      await w.granted(a, { ttlMs: w.ttlMs })
      const outcome = await w.renew(a)
      check(outcome.is === 'renewed' && outcome.ttlMs >= w.longMs, `the renewed ttl should be at least ${w.longMs}`)
    },
  },
]
