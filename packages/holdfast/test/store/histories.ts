// A store that says the protocol in a language of its own, against the protocol: random histories of a few claims and keys are told
// to a memory store and to the store, and must have the same answers and leave the same records. What is asked together goes through
// the statements for many, what is asked alone through those for one. Time stands still but where a history lets it pass; on a server
// whose clock cannot be moved, the instants in its rows are moved back instead.
import fc from 'fast-check'
import { expect } from 'vitest'
import type { LeaseRecord, LeaseStore } from '../../src/store/contract.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { VirtualClock } from '../../src/testing/index.js'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
/** Far less than any step of time in a history, far more than a run of the test takes. */
const GRAIN_MS = 20 * MINUTE_MS

type Op =
  | {
      readonly verb: 'acquire'
      readonly key: number
      readonly claim: string
      readonly ttlMs: number
      readonly more: object
    }
  | {
      readonly verb: 'renew' | 'release' | 'withdraw'
      readonly key: number
      readonly claim: string
      readonly ttlMs: number
    }
  | { readonly verb: 'revoke'; readonly key: number; readonly force: boolean }

const claim = fc.constantFrom('a', 'b', 'c', 'd')
const of = (claim: fc.Arbitrary<string>) => ({ claim, key: fc.nat(2), ttlMs: fc.constantFrom(HOUR_MS, 3 * HOUR_MS) })
const queue = fc.record({ pollMs: fc.constantFrom(HOUR_MS, 2 * HOUR_MS) })
const more = fc.oneof(
  { weight: 3, arbitrary: fc.constant({}) },
  { weight: 3, arbitrary: fc.record({ queue }) },
  fc.record({ replaces: claim }),
  fc.record({ replaces: claim, queue }),
  fc.constant({ meta: { n: 1 } }),
)
const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ ...of(claim), verb: fc.constant('acquire' as const), more }) },
  { weight: 5, arbitrary: fc.record({ ...of(claim), verb: fc.constantFrom('renew', 'release', 'withdraw') }) },
  { weight: 1, arbitrary: fc.record({ verb: fc.constant('revoke' as const), key: fc.nat(2), force: fc.boolean() }) },
)

/** Each turn: what is asked together, at most one operation for each key; or for how long nobody asks. */
const turn = fc.uniqueArray(op, { minLength: 1, maxLength: 3, selector: ({ key: at }) => at })
const few = fc.constantFrom('a', 'b')
/** What is asked for most, by few, for all keys at once: what the statements for many decide by themselves. */
const plainTurn: fc.Arbitrary<Op[]> = fc
  .record({
    verb: fc.constantFrom('acquire', 'renew', 'release'),
    each: fc.array(fc.record(of(few)), { minLength: 3, maxLength: 3 }),
    more: fc.constantFrom({}, {}, { queue: { pollMs: HOUR_MS } }),
  })
  .map(({ verb, each, more }) => each.map((asked, key) => ({ ...asked, verb, key, more }) as Op))
/** Of one key, claims that are given up and ask again: for how long that is remembered. */
const endingTurn: fc.Arbitrary<Op[]> = fc
  .record({ ...of(fc.constantFrom('a', 'b', 'c')), verb: fc.constantFrom('acquire', 'withdraw') })
  .map((asked) => [{ ...asked, key: 0, more: {} } as Op])
/** Of one key, one after the other: what is asked for alone. */
const loneTurn: fc.Arbitrary<Op[]> = fc
  .record({ ...of(few), verb: fc.constantFrom('acquire', 'acquire', 'release', 'release', 'renew') })
  .map((asked) => [{ ...asked, key: 0, more: {} } as Op])
const history = fc
  .constantFrom(turn, turn, plainTurn, plainTurn, endingTurn, loneTurn)
  .chain((asked) =>
    fc.array(
      fc.oneof(
        { weight: 4, arbitrary: asked },
        { weight: 1, arbitrary: fc.constantFrom(GRAIN_MS, HOUR_MS, 2 * HOUR_MS) },
      ),
      { maxLength: 25 },
    ),
  )

async function tell(store: LeaseStore, what: Op, name: (key: number) => string): Promise<unknown> {
  const at = name(what.key)
  switch (what.verb) {
    case 'acquire':
      return store.acquire({
        key: at,
        claim: what.claim,
        holder: `holder of ${what.claim}`,
        ttlMs: what.ttlMs,
        ...what.more,
      })
    case 'renew':
      return (await store.renew([{ key: at, claim: what.claim, ttlMs: what.ttlMs }]))[0]
    case 'release':
      return store.release({ key: at, claim: what.claim, token: 1, holder: '' })
    case 'withdraw':
      return store.withdraw(at, what.claim)
    case 'revoke':
      return store.revoke(at, { force: what.force })
  }
}

/** Times to the grain, and without the tokens, which the stores make in their own ways. */
function stable(answer: unknown): unknown {
  if (typeof answer !== 'object' || answer === null) return answer
  const { token, remainingMs, heldMs, waiters, ...rest } = answer as Partial<LeaseRecord>
  const coarse = (ms: number | undefined) => (ms === undefined ? undefined : Math.round(ms / GRAIN_MS))
  const line = waiters?.map(({ holder, waitedMs }) => [holder, coarse(waitedMs)])
  return { ...rest, remainingMs: coarse(remainingMs), heldMs: coarse(heldMs), waiters: line }
}

let prefixes = 0

/** `passes`: makes what the store remembers of these keys older by so many ms. */
export async function sameAsProtocol(
  store: LeaseStore,
  passes: (keys: readonly string[], ms: number) => Promise<void>,
  numRuns: number,
): Promise<void> {
  await fc.assert(
    fc.asyncProperty(history, async (turns) => {
      const clock = new VirtualClock()
      const memory = memoryStore({ clock })
      const prefix = `history ${++prefixes}`
      const name = (n: number) => `${prefix} ${n}`
      const keys = [0, 1, 2]
      const tokens = new Map<string, number>()
      for (const turn of turns) {
        if (typeof turn === 'number') {
          await clock.advance(turn)
          await passes(keys.map(name), turn)
          continue
        }
        const expected = await Promise.all(turn.map((what) => tell(memory, what, name)))
        const answers = await Promise.all(turn.map((what) => tell(store, what, name)))
        expect(answers.map(stable)).toEqual(expected.map(stable))
        for (const n of keys) {
          const record = await store.inspect(name(n))
          expect(stable(record)).toEqual(stable(await memory.inspect(name(n))))
          const { token = 0, changes = 0 } = record ?? {}
          const before = tokens.get(`${n} ${changes}`) ?? token
          expect(token).toBe(before) // a renewal never changes it
          expect(token).toBeGreaterThanOrEqual(tokens.get(`${n}`) ?? 0)
          tokens.set(`${n}`, token).set(`${n} ${changes}`, token)
        }
      }
    }),
    { numRuns },
  )
}
