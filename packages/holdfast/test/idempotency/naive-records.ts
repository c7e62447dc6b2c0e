// Records as they are often written, each with one habit that goes wrong: what the cases must find.
import type { Begun, End, Records } from '../../src/idempotency/contract.js'
import * as protocol from '../../src/idempotency/protocol.js'
import type { VirtualClock } from '../../src/testing/index.js'

type Step<Answer> = protocol.RecordStep<Answer>
type State = protocol.RecordState | undefined

/** One habit: what it does in place of the protocol. */
export interface Habit {
  readonly name: string
  readonly key?: (key: string) => string
  /** Looks, and writes a moment later. */
  readonly gap?: boolean
  readonly begin?: (
    next: Step<Begun>,
    before: State,
    request: Parameters<Records['begin']>[0],
    nowMs: number,
  ) => Step<Begun>
  readonly finish?: (
    next: Step<'recorded' | 'lost'>,
    before: State,
    claim: string,
    end: End,
    retentionMs: number,
    nowMs: number,
  ) => Step<'recorded' | 'lost'>
  readonly extend?: (
    next: Step<'extended' | 'lost'>,
    before: State,
    ttlMs: number,
    nowMs: number,
  ) => Step<'extended' | 'lost'>
  readonly withdraw?: (next: State, before: State, claim: string) => State
  readonly inspect?: (next: State) => State
  readonly prune?: 'nothing' | 'everything'
  readonly token?: (previous: number) => number
}

const asRun = (before: protocol.RecordState, request: Parameters<Records['begin']>[0], nowMs: number): Step<Begun> =>
  protocol.begin(undefined, request, nowMs, () => before.token + 1)

export const habits: readonly Habit[] = [
  { name: 'looks first and writes later', gap: true },
  {
    name: 'finds the record by the key alone',
    begin: (next, before, request, nowMs) =>
      next.answer.is === 'reused' && before !== undefined
        ? protocol.begin(before, { ...request, fingerprint: before.fingerprint }, nowMs, (token) => token + 1)
        : next,
  },
  {
    name: 'compares fingerprints as a collation does',
    begin: (next, before, request, nowMs) =>
      before !== undefined &&
      before.fingerprint.trim().normalize('NFD').replace(/\p{M}/gu, '').toLowerCase() ===
        request.fingerprint.trim().normalize('NFD').replace(/\p{M}/gu, '').toLowerCase()
        ? protocol.begin(before, { ...request, fingerprint: before.fingerprint }, nowMs, (token) => token + 1)
        : next,
  },
  { name: 'keys as a collation sees them', key: (key) => key.trimEnd().toLowerCase().normalize('NFC') },
  {
    name: 'takes an expired run for none',
    begin: (next, before, request, nowMs) =>
      next.answer.is === 'unknown' && before !== undefined ? asRun(before, request, nowMs) : next,
  },
  {
    name: 'a run that crashed blocks for ever',
    begin: (next, before) =>
      before !== undefined && (next.answer.is === 'unknown' || (next.answer.is === 'run' && before.state === 'running'))
        ? { record: before, answer: { is: 'running', holder: before.holder, token: before.token, remainingMs: 0 } }
        : next,
  },
  {
    name: 'does not tell that the run before was unknown',
    begin: (next) =>
      next.answer.is === 'run' && next.record !== undefined
        ? { record: { ...next.record, afterUnknown: false }, answer: { ...next.answer, afterUnknown: false } }
        : next,
  },
  {
    name: 'counts no attempts and gives no tokens',
    begin: (next) => (next.answer.is === 'run' ? { ...next, answer: { ...next.answer, attempt: 0, token: 0 } } : next),
  },
  { name: 'tokens start again', token: () => 1 },
  {
    name: 'a repeat of the claim is another',
    begin: (next, before, request) =>
      before?.claim === request.claim && before.state === 'running' && next.answer.is === 'run'
        ? { record: before, answer: { is: 'running', holder: before.holder, token: before.token, remainingMs: 1 } }
        : next,
  },
  {
    name: 'anybody may record',
    finish: (next, before, claim, end, retentionMs, nowMs) =>
      next.answer === 'lost' && before !== undefined
        ? protocol.finish({ ...before, state: 'running', claim }, claim, end, retentionMs, nowMs)
        : next,
  },
  {
    name: 'refuses what comes after the term',
    finish: (next, before, _claim, _end, _retentionMs, nowMs) =>
      before?.state === 'running' && nowMs >= before.termMs ? { record: before, answer: 'lost' } : next,
  },
  {
    name: 'records once only, and a repeat is an error',
    finish: (next, before) => (before?.state === 'running' ? next : { record: before, answer: 'lost' }),
  },
  {
    name: 'results lose what is not ASCII, and their kind',
    finish: (next) =>
      next.record?.end
        ? {
            ...next,
            record: {
              ...next.record,
              end: { is: 'returned', text: next.record.end.text.replaceAll(/[^ -~]/g, '?') || 'null' },
            },
          }
        : next,
  },
  {
    name: 'stores failures for good, and forgets nothing',
    finish: (next, before, claim, end, retentionMs, nowMs) =>
      'text' in end ? next : protocol.finish(before, claim, { is: 'threw', text: '' }, retentionMs, nowMs),
  },
  {
    name: 'forgetting deletes the row',
    finish: (next, before, _claim, end) =>
      end.is === 'forgotten' && next.answer === 'recorded' && before !== undefined
        ? { ...next, record: { ...before, state: 'free', claim: '', keepMs: 0 } }
        : next,
  },
  {
    name: 'forgetting frees whatever was before',
    finish: (next, before, claim, end, retentionMs, nowMs) =>
      end.is === 'forgotten' && before !== undefined
        ? protocol.finish({ ...before, afterUnknown: false }, claim, end, retentionMs, nowMs)
        : next,
  },
  {
    name: 'renews what is over',
    extend: (_next, before, ttlMs, nowMs) => ({
      record: before && { ...before, termMs: nowMs + ttlMs },
      answer: 'extended',
    }),
  },
  { name: 'does not renew', extend: (next, before) => ({ ...next, record: before }) },
  {
    name: 'a renewal may shorten the term',
    extend: (next, _before, ttlMs, nowMs) =>
      next.record && next.answer === 'extended' ? { ...next, record: { ...next.record, termMs: nowMs + ttlMs } } : next,
  },
  { name: 'withdraws nothing', withdraw: (_next, before) => before },
  {
    name: 'withdraws whoever is there',
    withdraw: (next, before, claim) =>
      before === undefined ? next : { ...before, state: 'free', claim, fingerprint: '', end: null },
  },
  {
    name: 'a withdrawal frees whatever was before',
    withdraw: (next, before) => (before?.afterUnknown ? { ...before, state: 'free', end: null } : next),
  },
  {
    name: 'keeps results for ever',
    finish: (next) =>
      next.record === undefined ? next : { ...next, record: { ...next.record, keepMs: Number.MAX_SAFE_INTEGER } },
  },
  {
    name: 'a running record goes with its term',
    begin: (next) =>
      next.answer.is === 'run' && next.record !== undefined
        ? { ...next, record: { ...next.record, keepMs: next.record.termMs } }
        : next,
  },
  {
    name: 'unknown outcomes are kept for ever',
    begin: (next) =>
      next.record?.state === 'running'
        ? { ...next, record: { ...next.record, keepMs: Number.MAX_SAFE_INTEGER } }
        : next,
  },
  { name: 'shows the row as it stands', inspect: (next) => next && { ...next, termMs: Number.MAX_SAFE_INTEGER } },
  { name: 'prunes nothing', prune: 'nothing' },
  { name: 'prunes everything', prune: 'everything' },
  {
    name: 'counts ms in 32 bits',
    begin: (next, before, request, nowMs) =>
      request.ttlMs > 2 ** 31 ? { record: before, answer: { is: 'ended' } } : (next ?? nowMs),
  },
]

export function naiveRecords(habit: Habit, clock: VirtualClock): Records {
  const states = new Map<string, protocol.RecordState>()
  let lastToken = 0
  const nextToken = (previous: number) => {
    lastToken = habit.token?.(previous) ?? lastToken + 1
    return lastToken
  }
  const keyOf = habit.key ?? ((key: string) => key)

  async function step<Answer>(key: string, run: (before: State, nowMs: number) => Step<Answer>): Promise<Answer> {
    const before = states.get(keyOf(key))
    const { record, answer } = run(before, clock.monoMs())
    if (habit.gap) await new Promise((resolve) => setImmediate(resolve))
    if (record !== undefined) states.set(keyOf(key), record)
    return answer
  }

  return {
    name: 'naive',
    contract: 1,
    capabilities: { clock: 'injected', survives: [], keyBytesMax: 512 },
    begin: (request) =>
      step(request.key, (before, nowMs) => {
        const next = protocol.begin(before, request, nowMs, nextToken)
        return habit.begin?.(next, before, request, nowMs) ?? next
      }),
    extend: ({ key, claim }, ttlMs, retentionMs) =>
      step(key, (before, nowMs) => {
        const next = protocol.extend(before, claim, ttlMs, retentionMs, nowMs)
        return habit.extend?.(next, before, ttlMs, nowMs) ?? next
      }),
    finish: ({ key, claim }, end, retentionMs) =>
      step(key, (before, nowMs) => {
        const next = protocol.finish(before, claim, end, retentionMs, nowMs)
        return habit.finish?.(next, before, claim, end, retentionMs, nowMs) ?? next
      }),
    withdraw: ({ key, claim }) =>
      step<void>(key, (before, nowMs) => {
        const next = protocol.withdraw(before, claim, nowMs)
        return { record: habit.withdraw === undefined ? next : habit.withdraw(next, before, claim), answer: undefined }
      }),
    inspect: (key) =>
      step(key, (before, nowMs) => ({
        record: before,
        answer: protocol.view(key, habit.inspect === undefined ? before : habit.inspect(before), nowMs),
      })),
    async prune() {
      if (habit.prune === 'nothing') return 0
      let forgotten = 0
      for (const [key, { keepMs }] of states) {
        if (clock.monoMs() < keepMs && habit.prune !== 'everything') continue
        states.delete(key)
        forgotten++
      }
      return forgotten
    },
    close: async () => {},
  }
}
