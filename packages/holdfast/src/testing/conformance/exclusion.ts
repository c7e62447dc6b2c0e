// G1: by the store's clock at most one claim holds a key.
import type { Granted, Held } from '../../store/contract.js'
import type { ConformanceCase } from './case.js'
import { check, equal } from './check.js'

const CONTENDERS = 20

export const exclusion: readonly ConformanceCase[] = [
  {
    id: 'G1-free-key-is-granted',
    guarantee: 'G1',
    title: 'a free key is granted, with a token and at least the ttl that was asked for',
    aboutFault: false,
    async run(w) {
      const [a] = w.claims()
      const grant = await w.granted(a)
      check(grant.token > 0, `the token should be positive, but is ${grant.token}`)
      check(grant.ttlMs >= w.longMs, `the granted ttl should be at least ${w.longMs}, but is ${grant.ttlMs}`)
    },
  },
  {
    id: 'G1-held-key-is-refused',
    guarantee: 'G1',
    title: 'a held key is refused, naming the holder and how long it may take',
    aboutFault: false,
    async run(w) {
      const [a, b] = w.claims()
      const grant = await w.granted(a)
      const held = await w.refused(b, 'held')
      equal(held.holder, w.holder(a), 'the holder that is named')
      check(
        held.remainingMs > 0 && held.remainingMs <= grant.ttlMs,
        `remainingMs should be within the ttl, but is ${held.remainingMs}`,
      )
    },
  },
  {
    id: 'G1-released-key-is-free',
    guarantee: 'G1',
    title: 'a key that was released is granted to the next at once',
    aboutFault: false,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a)
      await w.freed(a)
      await w.granted(b)
      // A quorum ends a claim that it can neither grant nor refuse, when some of its nodes have not heard of the release yet.
      await w.refused(w.claims()[2], w.store.name === 'quorum' ? ['held', 'ended'] : 'held')
    },
  },
  {
    id: 'G1-expired-key-is-free',
    guarantee: 'G1',
    title: 'a key whose holder has died is free after its term (C52)',
    aboutFault: false,
    async run(w) {
      const [a, b] = w.claims()
      const grant = await w.granted(a, { ttlMs: w.ttlMs })
      await w.expire(grant)
      await w.granted(b)
    },
  },
  {
    id: 'G1-keys-are-independent',
    guarantee: 'G1',
    title: 'two keys are two leases',
    aboutFault: false,
    async run(w) {
      const [a, b] = w.claims()
      await w.granted(a, { key: `${w.key}one` })
      await w.granted(b, { key: `${w.key}two` })
      await w.refused(a, 'held', { key: `${w.key}two` })
      await w.freed(a, { key: `${w.key}one` })
      await w.refused(a, 'held', { key: `${w.key}two` })
    },
  },
  {
    id: 'G1-one-of-many',
    guarantee: 'G1',
    title: 'of many who ask at the same moment exactly one is granted (C26)',
    aboutFault: true,
    async run(w) {
      const answers = await Promise.all(contenders().map((claim) => w.acquire(claim)))
      oneGranted(answers)
    },
  },
  {
    id: 'G1-one-of-many-after-expiry',
    guarantee: 'G1',
    title: 'of many who find the lease expired at the same moment exactly one takes it over (C26)',
    aboutFault: true,
    async run(w) {
      const [a] = w.claims()
      const grant = await w.granted(a, { ttlMs: w.ttlMs })
      await w.expire(grant)
      const answers = await Promise.all(contenders().map((claim) => w.acquire(claim)))
      oneGranted(answers)
    },
  },
  {
    id: 'G1-one-of-many-across-handles',
    guarantee: 'G1',
    title: 'of many who ask at the same moment through two handles exactly one is granted (C07)',
    aboutFault: true,
    needs: ['open'],
    async run(w) {
      const other = await w.open()
      const answers = await Promise.all(
        contenders().map((claim, i) => w.acquire(claim, {}, i % 2 === 0 ? w.store : other)),
      )
      oneGranted(answers)
    },
  },
  {
    id: 'G1-claim-is-compared-whole',
    guarantee: 'G1',
    title: 'a claim is compared as a whole: not by its beginning, its case, its label or its token (C47)',
    aboutFault: true,
    async run(w) {
      const [a] = w.claims()
      const grant = await w.granted(a)
      for (const near of [a.slice(0, -1), `${a}0`, a.toUpperCase(), `${a} `]) {
        await w.lost(near)
        await w.refused(near, 'held', { holder: w.holder(a) })
        const outcome = await w.store.release({ key: w.key, token: grant.token, claim: near, holder: w.holder(a) })
        equal(outcome.is, 'lost', 'a release with the right token and label but another claim')
      }
      await w.untouched(a, grant)
    },
  },
]

const contenders = () => Array.from({ length: CONTENDERS }, (_, i) => `contender ${i}`)

function oneGranted(answers: readonly (Granted | Held)[]): void {
  const granted = answers.filter((answer) => answer.is === 'granted').length
  equal(granted, 1, `the number of grants among ${answers.length} contenders`)
}
