// G2: each change of hands yields a bigger token. What may happen between two grants must not make it start again.
import type { ConformanceCase } from './case.js'
import { check, equal, rejects } from './check.js'
import type { ConformanceWorld } from './world.js'

/** One way in which a key changes hands: `a` has it, something happens, `b` gets it with a bigger token. */
const rises = (
  how: string,
  title: string,
  between: (w: ConformanceWorld, a: string) => Promise<void>,
  needs: ConformanceCase['needs'] = [],
): ConformanceCase => ({
  id: `G2-token-rises-after-${how}`,
  guarantee: 'G2',
  title,
  aboutFault: true,
  needs,
  async run(w) {
    const [a, b, c] = w.claims()
    const first = await w.granted(a, { ttlMs: w.ttlMs })
    await between(w, a)
    const second = await w.granted(b)
    check(second.token > first.token, `after ${how} the token should rise above ${first.token}, but is ${second.token}`)
    await w.freed(b)
    const third = await w.granted(c)
    check(third.token > second.token, `the token after that should rise above ${second.token}, but is ${third.token}`)
  },
})

export const tokens: readonly ConformanceCase[] = [
  rises('release', 'the token rises after a release (C54)', (w, a) => w.freed(a)),
  rises('expiry', 'the token rises after an expiry (C54)', (w) => outlive(w)),
  rises('revocation', 'the token rises after a revoked term has run out (C54)', async (w) => {
    await w.store.revoke(w.key)
    await outlive(w)
  }),
  rises('force', 'the token rises after a forced revocation (C54)', async (w) => {
    await w.store.revoke(w.key, { force: true })
  }),
  rises('withdrawal', 'the token rises after the holder was withdrawn (C54)', (w, a) => w.withdraw(a)),
  rises(
    'pruning',
    'the token rises after the free key was forgotten (C54)',
    async (w, a) => {
      await w.freed(a)
      await w.prune()
    },
    ['prune'],
  ),
  {
    id: 'G2-token-rises-after-reopening',
    guarantee: 'G2',
    title: 'the token rises after the store was closed and opened again (C54)',
    aboutFault: true,
    needs: ['open'],
    async run(w) {
      const [a, b] = w.claims()
      const first = await w.granted(a)
      await w.freed(a)
      await w.store.close()
      const again = await w.open()
      const second = await w.granted(b, {}, again)
      check(second.token > first.token, `the token should rise above ${first.token}, but is ${second.token}`)
    },
  },
  {
    id: 'G2-token-rises-as-a-number',
    guarantee: 'G2',
    title: 'a hundred changes of hands give a hundred rising safe integers (C54: 9 and 10, 99 and 100)',
    aboutFault: true,
    async run(w) {
      let last = 0
      for (let round = 1; round <= 101; round++) {
        const claim = `round ${round}`
        const { token } = await w.granted(claim)
        check(
          Number.isSafeInteger(token),
          `the token should be a safe integer, but is ${typeof token} ${String(token)}`,
        )
        check(token > last, `the token should rise above ${last}, but is ${token}`)
        last = token
        await w.freed(claim)
      }
    },
  },
  {
    id: 'G2-renewal-keeps-the-token',
    guarantee: 'G2',
    title: 'a renewal does not change the token (C20)',
    aboutFault: true,
    async run(w) {
      const [a] = w.claims()
      const grant = await w.granted(a)
      for (let round = 0; round < 3; round++) equal((await w.renew(a)).is, 'renewed', 'the renewal')
      await w.untouched(a, grant)
      equal((await w.inspect())?.changes, 1, 'the number of changes of hands')
    },
  },
  {
    id: 'G2-refusal-burns-no-belief',
    guarantee: 'G2',
    title: 'a refused acquire leaves the token of the holder alone, and names it',
    aboutFault: true,
    async run(w) {
      const [a, b] = w.claims()
      const grant = await w.granted(a)
      for (let round = 0; round < 3; round++) {
        const held = await w.refused(b, 'held')
        equal(held.token, grant.token, 'the biggest token granted so far')
      }
      await w.untouched(a, grant)
    },
  },
  {
    id: 'G2-floor-is-reached',
    guarantee: 'G2',
    title: 'the token granted is at least the floor, and goes on rising from there',
    aboutFault: true,
    needs: ['tokenFloor'],
    async run(w) {
      const [a, b] = w.claims()
      const floor = (await farAbove(w)) + 5
      const first = await w.granted(a, { tokenFloor: floor })
      check(first.token >= floor, `the token should be at least ${floor}, but is ${first.token}`)
      await w.freed(a)
      const second = await w.granted(b)
      check(second.token > first.token, `the token should rise above ${first.token}, but is ${second.token}`)
    },
  },
  {
    id: 'G2-floor-raises-the-holder',
    guarantee: 'G2',
    title: 'a claim that already holds has its token raised to the floor',
    aboutFault: true,
    needs: ['tokenFloor'],
    async run(w) {
      const [a] = w.claims()
      await w.granted(a)
      const floor = await farAbove(w)
      const raised = await w.granted(a, { tokenFloor: floor })
      check(raised.token >= floor, `the token should be raised to ${floor}, but is ${raised.token}`)
      await w.untouched(a, raised)
    },
  },
  {
    id: 'G2-low-floor-changes-nothing',
    guarantee: 'G2',
    title: 'a floor below the token neither lowers it nor stops its rise',
    aboutFault: true,
    needs: ['tokenFloor'],
    async run(w) {
      const [a, b] = w.claims()
      const first = await w.granted(a, { tokenFloor: await farAbove(w) })
      equal((await w.granted(a, { tokenFloor: 1 })).token, first.token, 'the token after a repeat with a low floor')
      await w.freed(a)
      const second = await w.granted(b, { tokenFloor: 1 })
      check(second.token > first.token, `the token should rise above ${first.token}, but is ${second.token}`)
    },
  },
  {
    id: 'G2-token-is-never-rounded',
    guarantee: 'G2',
    title: 'the last safe integer is granted as a token, and after it nothing: refused, not rounded (C54)',
    aboutFault: true,
    needs: ['tokenFloor'],
    async run(w) {
      const [a, b] = w.claims()
      const last = await w.granted(a, { tokenFloor: Number.MAX_SAFE_INTEGER })
      equal(last.token, Number.MAX_SAFE_INTEGER, 'the last token')
      await w.freed(a)
      await rejects(w.acquire(b), 'none', 'the acquire beyond the last token')
      equal((await w.inspect())?.token, Number.MAX_SAFE_INTEGER, 'the biggest token granted so far')
      equal((await w.inspect())?.state, 'free', 'the state of the key')
    },
  },
]

const outlive = async (w: ConformanceWorld) => {
  await w.inspect()
  await w.passMs(w.ttlMs + w.store.capabilities.ttlMsGrain)
}

/** A token that no clock and no counter gets to within the case, and half-way to the last. */
const farAbove = async (w: ConformanceWorld) => ((await w.inspect())?.token ?? 0) + 2 ** 52
