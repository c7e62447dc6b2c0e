// Records that say the protocol in a language of their own, against the protocol: random histories of a few claims and keys are told
// to records in memory and to the store, and must have the same answers and leave the same records. Time stands still but where a
// history lets it pass; on a server whose clock cannot be moved, the instants in its records are moved back instead.
import fc from 'fast-check'
import { expect } from 'vitest'
import type { Begun, End, Records } from '../../src/idempotency/contract.js'
import { memoryRecords } from '../../src/stores/memory/index.js'
import { VirtualClock } from '../../src/testing/index.js'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
/** Far less than any step of time in a history, far more than a run of the test takes. */
const GRAIN_MS = 20 * MINUTE_MS

const at = { key: fc.nat(2), claim: fc.constantFrom('a', 'b', 'c'), ttlMs: fc.constantFrom(HOUR_MS, 3 * HOUR_MS) }
const retentionMs = fc.constantFrom(HOUR_MS, 4 * HOUR_MS)
const end: fc.Arbitrary<End> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ is: fc.constant('returned' as const), text: fc.constantFrom('', 'é"\\') }) },
  fc.constant({ is: 'threw' as const, text: 'no' }),
  fc.constant({ is: 'forgotten' as const }),
  fc.constant({ is: 'unknown' as const }),
)
const op = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      ...at,
      verb: fc.constant('begin' as const),
      fingerprint: fc.constantFrom('f', 'f', 'f', 'g'),
      takeOver: fc.boolean(),
      retentionMs,
    }),
  },
  { weight: 3, arbitrary: fc.record({ ...at, verb: fc.constant('finish' as const), end, retentionMs }) },
  {
    weight: 2,
    arbitrary: fc.record({ ...at, verb: fc.constantFrom('extend' as const, 'withdraw' as const), retentionMs }),
  },
)
type Op = typeof op extends fc.Arbitrary<infer T> ? T : never

/** Each turn: what is asked together, at most one operation for each key; or for how long nobody asks. */
const turn = fc.oneof(
  { weight: 4, arbitrary: fc.uniqueArray(op, { minLength: 1, maxLength: 3, selector: ({ key }) => key }) },
  { weight: 1, arbitrary: fc.constantFrom(GRAIN_MS, HOUR_MS, 3 * HOUR_MS) },
)
const history = fc.array(turn, { maxLength: 25 })

async function tell(records: Records, what: Op, name: (key: number) => string): Promise<unknown> {
  const run = { key: name(what.key), claim: what.claim }
  switch (what.verb) {
    case 'begin': {
      const { fingerprint, ttlMs, retentionMs, takeOver } = what
      return records.begin({ ...run, holder: `holder of ${what.claim}`, fingerprint, ttlMs, retentionMs, takeOver })
    }
    case 'extend':
      return records.extend(run, what.ttlMs, what.retentionMs)
    case 'finish':
      return records.finish(run, what.end, what.retentionMs)
    case 'withdraw':
      return records.withdraw(run)
  }
}

/** Times to the grain, and without the tokens, which the stores make in their own ways. */
function stable(answer: unknown): unknown {
  if (typeof answer !== 'object' || answer === null) return answer
  const { token, ...rest } = answer as { token?: number }
  const coarse = Object.entries(rest).map(([name, value]) => [
    name,
    /^(remaining|for)Ms$/.test(name) ? Math.round(Number(value) / GRAIN_MS) : value,
  ])
  return Object.fromEntries(coarse)
}

let prefixes = 0

/** `passes`: makes what is remembered of these keys older by so many ms. */
export async function sameAsProtocol(
  records: Records,
  passes: (keys: readonly string[], ms: number) => Promise<void>,
  numRuns: number,
): Promise<void> {
  await fc.assert(
    fc.asyncProperty(history, async (turns) => {
      const clock = new VirtualClock()
      const memory = memoryRecords({ clock })
      const prefix = `history ${++prefixes}`
      const name = (n: number) => `${prefix} ${n}`
      const keys = [0, 1, 2]
      const runs = new Map<number, { token: number; run: string }>()
      for (const turn of turns) {
        if (typeof turn === 'number') {
          await clock.advance(turn)
          await passes(keys.map(name), turn)
          continue
        }
        const expected = await Promise.all(turn.map((what) => tell(memory, what, name)))
        const answers = await Promise.all(turn.map((what) => tell(records, what, name)))
        expect(answers.map(stable)).toEqual(expected.map(stable))
        for (const [i, answer] of answers.entries()) {
          const begun = answer as Begun | undefined
          const { key = -1 } = turn[i] ?? {}
          if (begun?.is !== 'run') continue
          const { token = 0, run = '' } = runs.get(key) ?? {}
          const now = `${begun.attempt} ${turn[i]?.claim}`
          if (now === run)
            expect(begun.token).toBeGreaterThanOrEqual(token) // the same run, or that of a new record
          else expect(begun.token).toBeGreaterThan(token)
          runs.set(key, { token: begun.token, run: now })
        }
        for (const n of keys) {
          expect(stable(await records.inspect(name(n)))).toEqual(stable(await memory.inspect(name(n))))
        }
      }
    }),
    { numRuns },
  )
}
