// A turn that is told with its token is a grant: the claim holds from then on, without having asked, for as long as the turn is
// kept; all that a holder may do it may do, and all that ends a holder ends it (docs/adr/0025-a-told-turn-is-a-grant.md).
import type { ConformanceCase } from './case.js'
import { check, equal } from './check.js'
import { onePoll } from './queue.js'
import type { Asked, ConformanceWorld, Watching } from './world.js'

/** In the queue for as long as a case takes, and to be told. */
const toBeTold = (w: ConformanceWorld): Asked => ({ queue: { pollMs: w.longMs, told: true } })

const turnCase = (one: Pick<ConformanceCase, 'id' | 'guarantee' | 'title' | 'run'>): ConformanceCase => ({
  aboutFault: true,
  needs: ['fair', 'watch', 'tellsTurns'],
  ...one,
})

/** The token that the watch tells. */
async function told(w: ConformanceWorld, watching: Watching): Promise<number> {
  await w.until(() => watching.turn !== undefined, 'a turn with its token')
  return watching.turn?.token ?? 0
}

/** Claim `a` holds, `b` waits and is told its turn when `a` is released. Gives the tokens. */
async function passes(w: ConformanceWorld, a: string, b: string, asked = toBeTold(w)): Promise<[number, number]> {
  const first = await w.granted(a)
  await w.refused(b, 'held', asked)
  const watching = w.watch(b)
  await w.subscribed(watching)
  await w.freed(a)
  return [first.token, await told(w, watching)]
}

export const turns: readonly ConformanceCase[] = [
  turnCase({
    id: 'G2-told-turn-has-a-token',
    guarantee: 'G2',
    title: 'a turn is told with a token above all before, and the claim renews, releases and is refused afterwards',
    async run(w) {
      const [a, b, c] = w.claims()
      const [first, token] = await passes(w, a, b)
      check(token > first, `the token should rise above ${first}, but is ${token}`)
      equal((await w.renew(b)).is, 'renewed', 'the renewal of the claim that was told')
      await w.refused(c, 'held')
      await w.freed(b)
      await w.refused(b, 'ended')
      const next = await w.granted(c)
      check(next.token > token, `the token should rise above ${token}, but is ${next.token}`)
    },
  }),
  turnCase({
    id: 'G1-told-turn-is-held',
    guarantee: 'G1',
    title: 'a turn that was told keeps all others out, and is shown as a lease',
    async run(w) {
      const [a, b, c] = w.claims()
      const [, token] = await passes(w, a, b)
      await w.refused(c, ['held', 'reserved'])
      const record = await w.inspect()
      equal([record?.state, record?.claim, record?.token], ['held', b, token], 'state, claim and token of the record')
    },
  }),
  turnCase({
    id: 'G3-told-turn-is-asked-for',
    guarantee: 'G3',
    title: 'a claim that was told its turn, and asks all the same, has the same token (C08)',
    async run(w) {
      const [a, b] = w.claims()
      const [, token] = await passes(w, a, b)
      equal((await w.granted(b, toBeTold(w))).token, token, 'the token of the one that asks')
      equal((await w.granted(b, toBeTold(w))).token, token, 'the token of the one that asks again')
      await w.freed(b)
    },
  }),
  turnCase({
    id: 'G4-told-turn-ends',
    guarantee: 'G4',
    title: 'a turn that was told, and of which nothing is heard, is over after one poll: then the claim renews no more',
    async run(w) {
      const [a, b, c] = w.claims()
      const [, token] = await passes(w, a, b, { queue: { pollMs: 2 * w.ttlMs, told: true } })
      for (let term = 0; term < 2; term++) await onePoll(w) // and more: its place in the queue ends before, two polls after it asked
      const next = await w.granted(c)
      check(next.token > token, `the token should rise above ${token}, but is ${next.token}`)
      await w.lost(b, ['taken', 'expired'])
      await w.releaseIsLost(b)
      await w.untouched(c, next)
    },
  }),
  turnCase({
    id: 'G1-told-turn-is-released',
    guarantee: 'G1',
    title: 'a claim that was told its turn releases without having asked, and the turn passes on',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', toBeTold(w))
      await w.refused(c, 'held', toBeTold(w))
      const watching = { b: w.watch(b), c: w.watch(c) }
      await w.subscribed(watching.b, watching.c)
      await w.freed(a)
      const token = await told(w, watching.b)
      await w.freed(b)
      const next = await told(w, watching.c)
      check(next > token, `the token should rise above ${token}, but is ${next}`)
      await w.refused(b, 'ended')
      await w.freed(c)
    },
  }),
  turnCase({
    id: 'G2-told-turn-is-handed-over',
    guarantee: 'G2',
    title: 'a claim that was told its turn is handed over without having asked',
    async run(w) {
      const [a, b, c] = w.claims()
      const [, token] = await passes(w, a, b)
      const next = await w.granted(c, { replaces: b })
      equal(next.replaced, true, 'replaced')
      check(next.token > token, `the token should rise above ${token}, but is ${next.token}`)
      await w.lost(b, ['released'])
    },
  }),
  turnCase({
    id: 'G1-told-turn-is-revoked',
    guarantee: 'G1',
    title: 'a turn that was told is revoked like any lease: the claim does not renew, and nobody overtakes it',
    async run(w) {
      const [a, b, c] = w.claims()
      await passes(w, a, b)
      equal((await w.store.revoke(w.key))?.claim, b, 'the claim that was revoked')
      await w.lost(b, ['revoked'])
      await w.refused(c, 'held')
    },
  }),
  turnCase({
    id: 'G6-told-turn-is-withdrawn',
    guarantee: 'G6',
    title: 'a claim that is withdrawn when its turn was told holds no more, and the turn passes on',
    async run(w) {
      const [a, b, c] = w.claims()
      await passes(w, a, b)
      await w.refused(c, ['held', 'reserved'], toBeTold(w))
      const watching = w.watch(c)
      await w.subscribed(watching)
      await w.withdraw(b)
      await told(w, watching)
      await w.lost(b)
      await w.refused(b, 'ended')
      equal((await w.renew(c)).is, 'renewed', 'the renewal of the next')
    },
  }),
  turnCase({
    id: 'G8-turns-are-told-to-who-asked-for-it',
    guarantee: 'G8',
    title: 'who did not ask to be told, or has meta to be shown, gets a hint and asks',
    async run(w) {
      const [a, b, c] = w.claims()
      await w.granted(a)
      await w.refused(b, 'held', { queue: { pollMs: w.longMs } })
      await w.refused(c, 'held', { ...toBeTold(w), meta: { for: 'people' } })
      const watching = { b: w.watch(b), c: w.watch(c) }
      await w.subscribed(watching.b, watching.c)
      let before = watching.b.hints
      await w.freed(a)
      await w.until(() => watching.b.hints > before, 'a hint for the head of the queue')
      await w.granted(b)
      before = watching.c.hints
      await w.freed(b)
      await w.until(() => watching.c.hints > before, 'a hint for the next')
      equal([watching.b.turn, watching.c.turn], [undefined, undefined], 'the turns that were told')
      await w.granted(c, { meta: { for: 'people' } })
      equal((await w.inspect())?.meta, { for: 'people' }, 'meta')
    },
  }),
]
