// The plain statements decide as the protocol does: random histories through the store and through the protocol's own functions,
// compared answer by answer and row by row. The clock is moved by hand, also backwards.
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { systemClock } from '../../src/lease/clock.js'
import type { AcquireRequest } from '../../src/store/contract.js'
import * as protocol from '../../src/store/protocol.js'
import { prepareReader } from '../../src/stores/sqlite/client.js'
import type { SqliteStore } from '../../src/stores/sqlite/index.js'
import { decode, LOAD } from '../../src/stores/sqlite/sql.js'
import { type Bench, type Case, grantOf, request } from './harness.js'

/** What one of the callers asks, or how far the clock moves. */
type Event =
  | { is: 'acquire'; key: string; claim: string; ttlMs: number; more: Partial<AcquireRequest> }
  | { is: 'renew'; key: string; claim: string; ttlMs: number }
  | { is: 'release'; key: string; claim: string }
  | { is: 'withdraw'; key: string; claim: string }
  | { is: 'revoke'; key: string; force: boolean }
  | { is: 'prune' }
  | { is: 'pass'; ms: number }

const START_MS = 1_800_000_000_000

const key = fc.constantFrom('k', 'l')
const claim = fc.constantFrom('a', 'b', 'c')
const ttlMs = fc.constantFrom(1, 20, 1_000)
const more: fc.Arbitrary<Partial<AcquireRequest>> = fc.oneof(
  { weight: 4, arbitrary: fc.constant({}) },
  fc.constantFrom(
    { queue: { pollMs: 30 } },
    { meta: { n: 1 } },
    { replaces: 'a' },
    { replaces: 'b' },
    { tokenFloor: START_MS * 1_000 + 5_000_000 },
  ),
)
const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ is: fc.constant('acquire' as const), key, claim, ttlMs, more }) },
  { weight: 3, arbitrary: fc.record({ is: fc.constant('renew' as const), key, claim, ttlMs }) },
  { weight: 3, arbitrary: fc.record({ is: fc.constant('release' as const), key, claim }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant('withdraw' as const), key, claim }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant('revoke' as const), key, force: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant('prune' as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({ is: fc.constant('pass' as const), ms: fc.constantFrom(0, 1, 20, 60, 1_001, -1, -500) }),
  },
)
/** Two processes share the file. */
const by = fc.constantFrom(0 as const, 1 as const)

/** The reference: the protocol over a Map, with the store's rule for a clock that is set back. */
class Reference {
  offsetMs = 0
  prunedToken = 0
  /** The token that the store has just granted: the reference checks it and takes it over, since the rule leaves room. */
  observed = 0
  readonly #rows = new Map<string, { state: protocol.KeyState; atMs: number }>()
  readonly rules: protocol.Rules = {
    endedRetentionMs: 50,
    nextToken: (previous, floor, nowMs) => {
      const least = Math.max(previous + 1, floor, nowMs * 1_000)
      const most = Math.max(previous + 1, floor, nowMs * 1_000 + 999)
      assert.ok(
        least <= this.observed && this.observed <= most,
        `token ${this.observed} is not from ${least} to ${most}`,
      )
      return this.observed
    },
  }

  step<Answer>(
    name: string,
    wallMs: number,
    run: (state: protocol.KeyState, nowMs: number) => protocol.Step<Answer>,
  ): Answer {
    const { state, atMs } = this.row(name)
    this.offsetMs = Math.max(this.offsetMs, atMs - wallMs)
    const nowMs = wallMs + this.offsetMs
    const next = run(state, nowMs)
    if (next.state !== state) this.#rows.set(name, { state: next.state, atMs: nowMs })
    return next.answer
  }

  row(name: string): { state: protocol.KeyState; atMs: number } {
    return this.#rows.get(name) ?? { state: protocol.unknownKey(this.prunedToken), atMs: 0 }
  }

  prune(wallMs: number): number {
    const nowMs = wallMs + this.offsetMs
    let forgotten = 0
    for (const [name, { state, atMs }] of this.#rows) {
      if (atMs > nowMs || !protocol.isForgettable(state, nowMs)) continue
      this.#rows.delete(name)
      this.prunedToken = Math.max(this.prunedToken, state.token)
      forgotten++
    }
    return forgotten
  }
}

/** Does the event on both and compares. */
async function both(
  store: SqliteStore,
  reference: Reference,
  wallMs: number,
  one: Exclude<Event, { is: 'pass' | 'prune' }>,
  name: string,
): Promise<void> {
  const step = <Answer>(run: (state: protocol.KeyState, nowMs: number) => protocol.Step<Answer>) =>
    reference.step(name, wallMs, run)
  if (one.is === 'acquire') {
    const asked = request(name, one.claim, { ttlMs: one.ttlMs, ...one.more })
    const answer = await store.acquire(asked)
    if (answer.is === 'granted') reference.observed = answer.token
    assert.deepEqual(
      answer,
      step((state, nowMs) => protocol.acquire(state, asked, nowMs, reference.rules)),
    )
  } else if (one.is === 'renew') {
    const [answer] = await store.renew([{ key: name, claim: one.claim, ttlMs: one.ttlMs }])
    assert.deepEqual(
      answer,
      step((state, nowMs) => protocol.renew(state, one.claim, one.ttlMs, nowMs)),
    )
  } else if (one.is === 'release') {
    const answer = await store.release(grantOf(name, one.claim))
    assert.deepEqual(
      answer,
      step((state, nowMs) => protocol.release(state, one.claim, nowMs)),
    )
  } else if (one.is === 'withdraw') {
    await store.withdraw(name, one.claim)
    step((state, nowMs) => protocol.withdraw(state, one.claim, nowMs, reference.rules))
  } else {
    const answer = await store.revoke(name, { force: one.force })
    assert.equal(
      answer !== null,
      step((state, nowMs) => protocol.revoke(state, one.force, nowMs, reference.rules)),
    )
  }
}

async function compare({ open, raw }: Bench): Promise<void> {
  let wallMs = START_MS
  const clock = { ...systemClock, wallMs: () => wallMs }
  const stores = [open({ clock, endedRetentionMs: 50 }), open({ clock, endedRetentionMs: 50 })] as const
  const load = prepareReader(raw(), LOAD)
  const reference = new Reference()
  let history = 0
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(by, event), { maxLength: 25 }), async (events) => {
      history++
      for (const [by, one] of events) {
        if (one.is === 'pass') {
          wallMs += one.ms
        } else if (one.is === 'prune') {
          assert.equal(await stores[by].prune({ olderThanMs: 0 }), reference.prune(wallMs))
        } else {
          const name = `${history}/${one.key}`
          await both(stores[by], reference, wallMs, one, name)
          const { state, atMs, offsetMs } = decode(load.first(name) ?? [])
          assert.deepEqual({ state, atMs }, reference.row(name))
          assert.equal(offsetMs, reference.offsetMs)
        }
      }
    }),
    { numRuns: 400 },
  )
}

export const plainCases: readonly Case[] = [
  { name: 'G1 G2 G3 G4 G6 random histories: the plain statements decide as the protocol does', run: compare },
]
