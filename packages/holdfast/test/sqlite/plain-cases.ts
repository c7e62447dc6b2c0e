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

/** Stands for a token some seconds ahead of the clock. */
const AHEAD = -1

const key = fc.constantFrom('k', 'k', 'k', 'l')
const claim = fc.constantFrom('a', 'b', 'c', 'd')
const ttlMs = fc.constantFrom(5, 20, 20, 1_000)
const more: fc.Arbitrary<Partial<AcquireRequest>> = fc.oneof(
  { weight: 4, arbitrary: fc.constant({}) },
  { weight: 3, arbitrary: fc.constant({ queue: { pollMs: 30 } }) },
  fc.constantFrom({ meta: { n: 1 } }, { replaces: 'a' }, { replaces: 'b' }, { tokenFloor: AHEAD }),
)
const passMs = fc.constantFrom(0, 1, 5, 5, 20, 60, 1_001, -1, -3, -10, -500)
const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ is: fc.constant('acquire' as const), key, claim, ttlMs, more }) },
  { weight: 3, arbitrary: fc.record({ is: fc.constant('renew' as const), key, claim, ttlMs }) },
  { weight: 4, arbitrary: fc.record({ is: fc.constant('release' as const), key, claim }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant('withdraw' as const), key, claim }) },
  { weight: 2, arbitrary: fc.record({ is: fc.constant('revoke' as const), key, force: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ is: fc.constant('prune' as const) }) },
  { weight: 5, arbitrary: fc.record({ is: fc.constant('pass' as const), ms: passMs }) },
)
/** Two processes share the file. */
const by = fc.constantFrom(0 as const, 1 as const)

type History = [by: 0 | 1, event: Event][]

const acquires = (key: string, claim: string, ttlMs: number): Event => ({ is: 'acquire', key, claim, ttlMs, more: {} })
const passes = (ms: number): Event => ({ is: 'pass', ms })

/** What chance brings about too seldom: for each condition of the plain statements there is a history that needs it. */
const RARE: readonly History[] = [
  // The clock goes back to between the grant and the release: the next grant is not before the release.
  [
    [0, acquires('k', 'a', 1_000)],
    [0, passes(20)],
    [0, { is: 'release', key: 'k', claim: 'a' }],
    [0, passes(-10)],
    [0, acquires('k', 'b', 20)],
  ],
  // A revoked term runs out: the next one is not revoked.
  [
    [0, acquires('k', 'a', 5)],
    [0, { is: 'revoke', key: 'k', force: false }],
    [0, passes(5)],
    [0, acquires('k', 'b', 20)],
    [0, { is: 'renew', key: 'k', claim: 'b', ttlMs: 20 }],
  ],
  // One process has raised the offset of the file; the other's renewal, release and grant must count it.
  ...(
    [
      { is: 'renew', key: 'l', claim: 'a', ttlMs: 2_000 },
      { is: 'release', key: 'l', claim: 'a' },
      acquires('m', 'a', 20),
    ] as const
  ).map(
    (last): History => [
      [0, acquires('l', 'a', 2_000)],
      [0, passes(600)],
      [1, acquires('k', 'b', 2_000)],
      [0, passes(-500)],
      [1, { is: 'renew', key: 'k', claim: 'b', ttlMs: 2_000 }],
      [0, last],
    ],
  ),
]

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
      const least = Math.max(previous + 1, floor > 0 ? floor : nowMs * 1_000)
      const most = Math.max(previous + 1, floor > 0 ? floor : nowMs * 1_000 + 999)
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
      if (atMs > nowMs || !protocol.isForgettable(state, nowMs) || state.token >= (nowMs + 1) * 1_000) continue
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
    const floor = one.more.tokenFloor === AHEAD ? { tokenFloor: (wallMs + 5_000) * 1_000 } : {}
    const asked = request(name, one.claim, { ttlMs: one.ttlMs, ...one.more, ...floor })
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
      step((state, nowMs) => protocol.release(state, one.claim, nowMs, reference.rules)),
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
    fc.asyncProperty(fc.array(fc.tuple(by, event), { maxLength: 30 }), async (events) => {
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
    { numRuns: 400, examples: RARE.map((events): [History] => [events]) },
  )
}

export const plainCases: readonly Case[] = [
  { name: 'G1 G2 G3 G4 G6 random histories: the plain statements decide as the protocol does', run: compare },
]
