// What every store of records must do, as data: run on each store against real servers, and on naive ones, where they must fail.
import { expect } from 'vitest'
import type { BeginRequest, Begun, End, Records } from '../../src/idempotency/contract.js'

/** A store under test: two handles on the same data. */
export interface RecordsTarget {
  readonly records: Records
  /** Another handle, as another process has. */
  readonly other: Records
  /** A short time: real servers let real time pass, and a loaded machine must manage a call within it. */
  readonly unitMs: number
  /** Whether the server forgets by itself, so that there is nothing to prune. */
  readonly prunesItself?: boolean
  /** Lets time pass on the clock that decides. */
  passMs(ms: number): Promise<void>
  close(): Promise<void>
}

export interface RecordCase {
  readonly id: string
  readonly about: string
  run(target: RecordsTarget): Promise<void>
}

const LONG_MS = 60_000
const KEPT_MS = 120_000

let claims = 0
export const asks = (more: Partial<BeginRequest> = {}): BeginRequest => ({
  key: 'tenant-1:pay:1',
  fingerprint: 'h1-a',
  claim: `claim-${++claims}`,
  holder: 'web-1',
  ttlMs: LONG_MS,
  retentionMs: KEPT_MS,
  takeOver: false,
  ...more,
})

const DONE: End = { is: 'returned', text: '{"id":"é\\u0000 \\"1\\""}' }

export async function ran(records: Records, request: BeginRequest): Promise<Begun & { is: 'run' }> {
  const begun = await records.begin(request)
  if (begun.is !== 'run') throw new Error(`was to run, and is ${JSON.stringify(begun)}`)
  return begun
}

export const recordCases: readonly RecordCase[] = [
  {
    id: 'new-key-runs',
    about: 'a key that nobody used runs, as the first attempt, with a token above 0',
    async run({ records }) {
      const begun = await ran(records, asks())
      expect(begun).toMatchObject({ attempt: 1, afterUnknown: false })
      expect(Number.isSafeInteger(begun.token) && begun.token > 0).toBe(true)
    },
  },
  {
    id: 'one-of-many-runs',
    about: 'of many that ask at once through two handles exactly one runs',
    async run({ records, other }) {
      for (let round = 0; round < 10; round++) {
        const key = `race-${round}`
        const asked = Array.from({ length: 20 }, (_, i) => (i % 2 ? records : other).begin(asks({ key })))
        const answers = (await Promise.all(asked)).map(({ is }) => is)
        expect(answers.filter((is) => is === 'run')).toHaveLength(1)
        expect(answers.filter((is) => is === 'running')).toHaveLength(19)
      }
    },
  },
  {
    id: 'running-is-told',
    about: 'a repeat is told who runs, and for how long at most',
    async run({ records, other }) {
      const { token } = await ran(records, asks({ holder: 'web-ä' }))
      const begun = await other.begin(asks({ holder: 'web-2' }))
      expect(begun).toMatchObject({ is: 'running', holder: 'web-ä', token })
      const { remainingMs } = begun as { remainingMs: number }
      expect(remainingMs).toBeGreaterThan(LONG_MS / 2)
      expect(remainingMs).toBeLessThanOrEqual(LONG_MS + 1)
    },
  },
  {
    id: 'begin-is-repeatable',
    about: 'a begin repeated by the claim that runs gets the same answer, and never shortens its term',
    async run({ records, other, passMs, unitMs }) {
      const request = asks()
      const first = await ran(records, request)
      expect(await other.begin(request)).toEqual(first)
      expect(await other.begin({ ...request, ttlMs: 1, retentionMs: 1 })).toEqual(first)
      await passMs(unitMs)
      expect(await other.begin(asks())).toMatchObject({ is: 'running' })
    },
  },
  {
    id: 'done-is-replayed',
    about: 'a recorded result is told to every repeat, exactly as it was written',
    async run({ records, other }) {
      const request = asks()
      const { token } = await ran(records, request)
      expect(await records.finish(request, DONE, KEPT_MS)).toBe('recorded')
      expect(await other.begin(asks())).toEqual({ is: 'done', end: DONE, token, attempt: 1 })
      expect(await other.begin(request)).toEqual({ is: 'done', end: DONE, token, attempt: 1 })
    },
  },
  {
    id: 'failure-is-replayed',
    about: 'a recorded failure is told as one',
    async run({ records }) {
      const request = asks()
      await ran(records, request)
      await records.finish(request, { is: 'threw', text: 'no' }, KEPT_MS)
      expect(await records.begin(asks())).toMatchObject({ is: 'done', end: { is: 'threw', text: 'no' } })
    },
  },
  {
    id: 'empty-and-large-results',
    about: 'an empty text and one of 300 kB come back as they were',
    async run({ records }) {
      for (const [i, text] of ['', 'ü'.repeat(150_000)].entries()) {
        const request = asks({ key: `size-${i}` })
        await ran(records, request)
        await records.finish(request, { is: 'returned', text }, KEPT_MS)
        const again = await records.begin(asks({ key: `size-${i}` }))
        expect(again.is === 'done' && again.end.text === text).toBe(true)
      }
    },
  },
  {
    id: 'finish-is-repeatable',
    about: 'a record repeated after a lost reply is recorded, and changes nothing',
    async run({ records, other }) {
      const request = asks()
      await ran(records, request)
      await records.finish(request, DONE, KEPT_MS)
      expect(await other.finish(request, DONE, KEPT_MS)).toBe('recorded')
      expect(await other.finish(request, { is: 'forgotten' }, KEPT_MS)).toBe('lost')
      expect(await other.begin(asks())).toMatchObject({ is: 'done', end: DONE })
    },
  },
  {
    id: 'other-payload-is-refused',
    about: 'the key with another fingerprint is refused, while it runs, when it is unknown and when it is done (C55)',
    async run({ records, passMs, unitMs }) {
      const other = () => asks({ fingerprint: 'h1-b' })
      const request = asks({ ttlMs: unitMs })
      await ran(records, request)
      expect(await records.begin(other())).toEqual({ is: 'reused', state: 'running' })
      await passMs(2 * unitMs)
      expect(await records.begin(other())).toEqual({ is: 'reused', state: 'unknown' })
      expect(await records.begin({ ...other(), takeOver: true })).toEqual({ is: 'reused', state: 'unknown' })
      await records.finish(request, DONE, KEPT_MS)
      expect(await records.begin(other())).toEqual({ is: 'reused', state: 'done' })
    },
  },
  {
    id: 'keys-are-exact',
    about: 'keys that differ in case, in blanks at the end or in Unicode composition are different keys (C55, G11)',
    async run({ records }) {
      const keys = [
        'k',
        'K',
        'k ',
        ' k',
        'é',
        'e\u0301',
        'ß',
        'ss',
        '%',
        '_',
        'k\u00a0',
        '{k}',
        "k'",
        'k\\',
        '💶',
        'x'.repeat(512),
      ]
      for (const key of keys) await ran(records, asks({ key }))
    },
  },
  {
    id: 'fingerprints-are-exact',
    about: 'fingerprints that differ in case or in blanks at the end are different',
    async run({ records }) {
      await ran(records, asks({ fingerprint: 'h1-a' }))
      for (const fingerprint of ['h1-A', 'h1-a ', 'h1-á']) {
        expect(await records.begin(asks({ fingerprint }))).toMatchObject({ is: 'reused' })
      }
    },
  },
  {
    id: 'crash-is-unknown',
    about: 'a run whose term is over without a record is unknown, and stays so',
    async run({ records, other, passMs, unitMs }) {
      const { token } = await ran(records, asks({ ttlMs: unitMs, holder: 'web-9' }))
      await passMs(3 * unitMs)
      for (let i = 0; i < 2; i++) {
        const begun = await other.begin(asks())
        expect(begun).toMatchObject({ is: 'unknown', holder: 'web-9', token, attempt: 1 })
        expect((begun as { forMs: number }).forMs).toBeGreaterThan(0)
      }
    },
  },
  {
    id: 'takeover-after-unknown',
    about: 'who asks to take over runs after the crash, with a bigger token, and knows of it',
    async run({ records, other, passMs, unitMs }) {
      const { token } = await ran(records, asks({ ttlMs: unitMs }))
      await passMs(2 * unitMs)
      const next = await ran(other, asks({ takeOver: true }))
      expect(next).toMatchObject({ attempt: 2, afterUnknown: true })
      expect(next.token).toBeGreaterThan(token)
      expect(await records.begin(asks({ takeOver: true }))).toMatchObject({ is: 'running' })
    },
  },
  {
    id: 'one-takeover',
    about: 'of many that take over at once exactly one runs',
    async run({ records, other, passMs, unitMs }) {
      await ran(records, asks({ ttlMs: unitMs }))
      await passMs(2 * unitMs)
      const asked = Array.from({ length: 10 }, (_, i) => (i % 2 ? records : other).begin(asks({ takeOver: true })))
      expect((await Promise.all(asked)).filter(({ is }) => is === 'run')).toHaveLength(1)
    },
  },
  {
    id: 'stale-runner-cannot-record',
    about: 'a runner that was taken over records nothing over its successor, before and after that one records',
    async run({ records, other, passMs, unitMs }) {
      const stale = asks({ ttlMs: unitMs })
      await ran(records, stale)
      await passMs(2 * unitMs)
      const successor = asks({ takeOver: true })
      await ran(other, successor)
      const ends: End[] = [{ is: 'returned', text: 'stale' }, { is: 'forgotten' }, { is: 'unknown' }]
      for (const end of ends) expect(await records.finish(stale, end, KEPT_MS)).toBe('lost')
      expect(await records.extend(stale, LONG_MS, KEPT_MS)).toBe('lost')
      await records.withdraw(stale)
      await other.finish(successor, DONE, KEPT_MS)
      for (const end of ends) expect(await records.finish(stale, end, KEPT_MS)).toBe('lost')
      expect(await records.begin(asks())).toMatchObject({ is: 'done', end: DONE })
    },
  },
  {
    id: 'late-but-true-is-recorded',
    about: 'a result that comes after the term, before anybody took over, is recorded',
    async run({ records, passMs, unitMs }) {
      const request = asks({ ttlMs: unitMs })
      await ran(records, request)
      await passMs(2 * unitMs)
      expect(await records.finish(request, DONE, KEPT_MS)).toBe('recorded')
      expect(await records.begin(asks())).toMatchObject({ is: 'done' })
    },
  },
  {
    id: 'renewed-is-running',
    about: 'a run that is renewed is not unknown',
    async run({ records, other, passMs, unitMs }) {
      const request = asks({ ttlMs: 4 * unitMs })
      await ran(records, request)
      expect(await records.extend(request, LONG_MS, KEPT_MS)).toBe('extended')
      await passMs(5 * unitMs)
      expect(await other.begin(asks())).toMatchObject({ is: 'running' })
    },
  },
  {
    id: 'renewal-never-shortens',
    about: 'a renewal for less leaves the later end of the term',
    async run({ records, passMs, unitMs }) {
      const request = asks()
      await ran(records, request)
      expect(await records.extend(request, 1, KEPT_MS)).toBe('extended')
      await passMs(unitMs)
      expect(await records.begin(asks())).toMatchObject({ is: 'running' })
    },
  },
  {
    id: 'expiry-is-final',
    about: 'a run whose term is over cannot be renewed any more',
    async run({ records, passMs, unitMs }) {
      const request = asks({ ttlMs: unitMs })
      await ran(records, request)
      await passMs(2 * unitMs)
      expect(await records.extend(request, LONG_MS, KEPT_MS)).toBe('lost')
      expect(await records.begin(asks())).toMatchObject({ is: 'unknown' })
    },
  },
  {
    id: 'forgotten-runs-again',
    about: 'a failure that is forgotten frees the key, for another payload too, with a bigger token (C55)',
    async run({ records, other }) {
      const request = asks()
      const { token } = await ran(records, request)
      expect(await records.finish(request, { is: 'forgotten' }, KEPT_MS)).toBe('recorded')
      expect(await records.finish(request, { is: 'forgotten' }, KEPT_MS)).toBe('recorded')
      const next = await ran(other, asks({ fingerprint: 'h1-corrected' }))
      expect(next).toMatchObject({ attempt: 2, afterUnknown: false })
      expect(next.token).toBeGreaterThan(token)
      expect(await records.finish(request, DONE, KEPT_MS)).toBe('lost')
    },
  },
  {
    id: 'ended-claim-is-refused',
    about: 'a begin that arrives after its run was forgotten is refused',
    async run({ records }) {
      const request = asks()
      await ran(records, request)
      await records.finish(request, { is: 'forgotten' }, KEPT_MS)
      expect(await records.begin(request)).toEqual({ is: 'ended' })
    },
  },
  {
    id: 'given-up-is-unknown',
    about: 'a run that says that it does not know is unknown at once',
    async run({ records, other }) {
      const request = asks()
      await ran(records, request)
      expect(await records.finish(request, { is: 'unknown' }, KEPT_MS)).toBe('recorded')
      expect(await other.begin(asks())).toMatchObject({ is: 'unknown', attempt: 1 })
    },
  },
  {
    id: 'forgetting-after-unknown',
    about: 'a second run that forgets leaves the first one unknown',
    async run({ records, passMs, unitMs }) {
      await ran(records, asks({ ttlMs: unitMs }))
      await passMs(2 * unitMs)
      const second = asks({ takeOver: true })
      await ran(records, second)
      await records.finish(second, { is: 'forgotten' }, KEPT_MS)
      expect(await records.begin(asks())).toMatchObject({ is: 'unknown', attempt: 2 })
      const third = asks({ takeOver: true })
      await ran(records, third)
      await records.withdraw(third)
      expect(await records.begin(asks())).toMatchObject({ is: 'unknown', attempt: 3 })
    },
  },
  {
    id: 'withdrawn-frees',
    about: 'a claim that is withdrawn frees the key and is refused if it arrives again (G6)',
    async run({ records, other }) {
      const request = asks()
      await ran(records, request)
      await other.withdraw(request)
      expect(await records.begin(request)).toEqual({ is: 'ended' })
      await ran(records, asks())
    },
  },
  {
    id: 'withdrawn-before-it-came',
    about: 'a begin that arrives after its withdrawal is refused, also for a key that nobody used (G6)',
    async run({ records, other }) {
      const request = asks()
      await other.withdraw(request)
      expect(await records.begin(request)).toEqual({ is: 'ended' })
      expect(await records.inspect(request.key)).toBe(null)
      expect(await ran(records, asks())).toMatchObject({ attempt: 1 })
    },
  },
  {
    id: 'withdrawal-spares-others',
    about: 'the withdrawal of a claim that was refused leaves the run of another and a result alone',
    async run({ records }) {
      const request = asks()
      await ran(records, request)
      await records.withdraw(asks())
      expect(await records.begin(asks())).toMatchObject({ is: 'running' })
      await records.finish(request, DONE, KEPT_MS)
      await records.withdraw(request)
      expect(await records.begin(asks())).toMatchObject({ is: 'done' })
    },
  },
  {
    id: 'kept-for-its-retention',
    about: 'a result is kept for its retention, and the key is new after it, with a bigger token',
    async run({ records, passMs, unitMs }) {
      const request = asks({ retentionMs: 4 * unitMs })
      const { token } = await ran(records, request)
      await records.finish(request, DONE, 4 * unitMs)
      expect(await records.begin(asks({ fingerprint: 'h1-a' }))).toMatchObject({ is: 'done' })
      await passMs(5 * unitMs)
      const next = await ran(records, asks({ fingerprint: 'h1-later' }))
      expect(next).toMatchObject({ attempt: 1, afterUnknown: false })
      expect(next.token).toBeGreaterThan(token)
    },
  },
  {
    id: 'unknown-is-kept',
    about: 'an unknown outcome is kept for the retention, counted from the end of its term',
    async run({ records, passMs, unitMs }) {
      await ran(records, asks({ ttlMs: unitMs, retentionMs: 5 * unitMs }))
      await passMs(2 * unitMs)
      expect(await records.begin(asks())).toMatchObject({ is: 'unknown' })
      await passMs(5 * unitMs)
      await ran(records, asks())
    },
  },
  {
    id: 'inspect',
    about: 'a look tells state, holder, attempt and end, and changes nothing',
    async run({ records, passMs, unitMs }) {
      const { key } = asks()
      expect(await records.inspect(key)).toBe(null)
      const request = asks({ ttlMs: unitMs })
      const { token } = await ran(records, request)
      await passMs(2 * unitMs)
      expect(await records.inspect(key)).toMatchObject({ key, state: 'unknown', token, attempt: 1, end: null })
      const next = asks({ takeOver: true, holder: 'web-2' })
      await ran(records, next)
      const running = await records.inspect(key)
      expect(running).toMatchObject({ state: 'running', holder: 'web-2', attempt: 2, fingerprint: 'h1-a' })
      expect(running?.remainingMs).toBeLessThanOrEqual(LONG_MS)
      await records.finish(next, DONE, KEPT_MS)
      const done = await records.inspect(key)
      expect(done).toMatchObject({ state: 'done', end: DONE })
      expect(done?.remainingMs).toBeGreaterThan(KEPT_MS / 2)
      const freed = asks({ key: 'freed' })
      await ran(records, freed)
      await records.finish(freed, { is: 'forgotten' }, KEPT_MS)
      expect(await records.inspect('freed')).toMatchObject({ state: 'free', attempt: 1, end: null })
    },
  },
  {
    id: 'prune',
    about: 'pruning forgets what is past its retention, and nothing else',
    async run({ records, passMs, unitMs, prunesItself }) {
      for (const [key, retentionMs] of [
        ['gone-1', 1],
        ['gone-2', 1],
        ['kept', KEPT_MS],
      ] as const) {
        const request = asks({ key, ttlMs: 1, retentionMs })
        await ran(records, request)
        await records.finish(request, DONE, retentionMs)
      }
      await passMs(unitMs)
      expect(await records.prune()).toBe(prunesItself ? 0 : 2)
      expect(await records.begin(asks({ key: 'kept' }))).toMatchObject({ is: 'done' })
      expect(await records.inspect('gone-1')).toBe(null)
      expect(await records.prune()).toBe(0)
    },
  },
  {
    id: 'ten-year-retention',
    about: 'the longest retention neither overflows nor fails (C02)',
    async run({ records }) {
      const longest = 10 * 366 * 86_400_000
      const request = asks({ ttlMs: longest, retentionMs: longest })
      await ran(records, request)
      expect(await records.extend(request, longest, longest)).toBe('extended')
      expect(await records.finish(request, DONE, longest)).toBe('recorded')
      expect((await records.inspect(request.key))?.remainingMs).toBeGreaterThan(longest / 2)
    },
  },
  {
    id: 'tokens-rise-through-pruning',
    about: 'the token of a key rises also when its record was pruned',
    async run({ records, passMs }) {
      let last = 0
      for (let i = 0; i < 5; i++) {
        const request = asks({ ttlMs: 1, retentionMs: 1 })
        const { token } = await ran(records, request)
        expect(token).toBeGreaterThan(last)
        last = token
        await records.finish(request, DONE, 1)
        await passMs(10)
        if (i % 2 === 0) await records.prune()
      }
    },
  },
]
