// What a store of records does, as pure functions over (record, request, now): the reference that memory and SQLite run, and
// that the statements and scripts of the other stores must equal: one table of cases runs on them all.
//
//   free -> begin -> running -> finish -> done -> (retention) -> nothing
//                       |          +-> forgotten -> free, which remembers token, attempts and the claim that ended
//                       +-> term over -> unknown -> begin with takeOver -> running
import type { BeginRequest, Begun, End, RecordView, StoredEnd } from './contract.js'

/** The record of one key. Times are ms of the store's clock. */
export interface RecordState {
  readonly state: 'free' | 'running' | 'done'
  readonly fingerprint: string
  /** Who runs, ran last, or was withdrawn. */
  readonly claim: string
  readonly holder: string
  readonly token: number
  readonly attempt: number
  /** Whether a run before this one ended unknown. */
  readonly afterUnknown: boolean
  /** When the term of the run is over; 0 unless it runs. */
  readonly termMs: number
  /** From when on the record is as if it had never been. */
  readonly keepMs: number
  readonly end: StoredEnd | null
}

/** How long, beyond the term of its run, a claim that was ended or withdrawn is refused. */
export const ENDED_RETENTION_MS = 60_000

/** The next record (the same one: nothing changed), and the answer. */
export interface RecordStep<Answer> {
  readonly record: RecordState | undefined
  readonly answer: Answer
}

/** `nextToken` gives a token bigger than the one given. */
export function begin(
  before: RecordState | undefined,
  request: BeginRequest,
  nowMs: number,
  nextToken: (previous: number) => number,
): RecordStep<Begun> {
  const { key: _, takeOver, ttlMs, retentionMs, ...asked } = request
  const run = (attempt: number, token: number, afterUnknown: boolean): RecordStep<Begun> => ({
    record: {
      ...asked,
      state: 'running',
      token,
      attempt,
      afterUnknown,
      termMs: nowMs + ttlMs,
      keepMs: nowMs + ttlMs + retentionMs,
      end: null,
    },
    answer: { is: 'run', token, attempt, afterUnknown },
  })
  const stays = (answer: Begun): RecordStep<Begun> => ({ record: before, answer })

  if (before === undefined || nowMs >= before.keepMs) return run(1, nextToken(before?.token ?? 0), false)
  const { state, token, attempt, holder } = before
  if (state === 'free') {
    return before.claim === asked.claim ? stays({ is: 'ended' }) : run(attempt + 1, nextToken(token), false)
  }
  const over = state === 'running' && nowMs >= before.termMs
  if (before.fingerprint !== asked.fingerprint) return stays({ is: 'reused', state: over ? 'unknown' : state })
  if (before.end !== null) return stays({ is: 'done', end: before.end, token, attempt })
  if (over) {
    return takeOver
      ? run(attempt + 1, nextToken(token), true)
      : stays({ is: 'unknown', holder, token, attempt, forMs: nowMs - before.termMs })
  }
  if (before.claim !== asked.claim) return stays({ is: 'running', holder, token, remainingMs: before.termMs - nowMs })
  const termMs = Math.max(before.termMs, nowMs + ttlMs)
  return {
    record: { ...before, termMs, keepMs: termMs + retentionMs },
    answer: { is: 'run', token, attempt, afterUnknown: before.afterUnknown },
  }
}

export function extend(
  before: RecordState | undefined,
  claim: string,
  ttlMs: number,
  retentionMs: number,
  nowMs: number,
): RecordStep<'extended' | 'lost'> {
  if (before?.state !== 'running' || before.claim !== claim || nowMs >= before.termMs) {
    return { record: before, answer: 'lost' }
  }
  const termMs = Math.max(before.termMs, nowMs + ttlMs)
  return { record: { ...before, termMs, keepMs: termMs + retentionMs }, answer: 'extended' }
}

/** A result that is recorded twice is recorded once; nothing turns back what was recorded. */
export function finish(
  before: RecordState | undefined,
  claim: string,
  end: End,
  retentionMs: number,
  nowMs: number,
): RecordStep<'recorded' | 'lost'> {
  if (before === undefined || before.claim !== claim || nowMs >= before.keepMs)
    return { record: before, answer: 'lost' }
  if (before.state !== 'running') {
    const same = before.state === 'free' ? end.is === 'forgotten' : end.is === before.end?.is
    return { record: before, answer: same ? 'recorded' : 'lost' }
  }
  return { record: ended(before, end, retentionMs, nowMs), answer: 'recorded' }
}

function ended(before: RecordState, end: End, retentionMs: number, nowMs: number): RecordState {
  if (end.is === 'unknown') return unknown(before, retentionMs, nowMs)
  // That this run has no effect says nothing of the run before it.
  if (end.is === 'forgotten') return before.afterUnknown ? unknown(before, retentionMs, nowMs) : free(before, nowMs)
  return { ...before, state: 'done', termMs: 0, keepMs: nowMs + retentionMs, end }
}

const unknown = (before: RecordState, retentionMs: number, nowMs: number): RecordState => ({
  ...before,
  termMs: Math.min(before.termMs, nowMs),
  keepMs: nowMs + retentionMs,
})

/** Free, and for a while its token, its attempts and the claim that ended are remembered. */
const free = (before: RecordState, nowMs: number): RecordState => ({
  ...before,
  state: 'free',
  fingerprint: '',
  holder: '',
  afterUnknown: false,
  termMs: 0,
  keepMs: Math.max(before.termMs, nowMs) + ENDED_RETENTION_MS,
})

export function withdraw(before: RecordState | undefined, claim: string, nowMs: number): RecordState | undefined {
  if (before === undefined || nowMs >= before.keepMs) {
    const token = before?.token ?? 0
    return free({ ...NOTHING, claim, token }, nowMs)
  }
  if (before.state !== 'running' || before.claim !== claim) return before
  return before.afterUnknown ? { ...before, termMs: Math.min(before.termMs, nowMs) } : free(before, nowMs)
}

const NOTHING: RecordState = {
  state: 'free',
  fingerprint: '',
  claim: '',
  holder: '',
  token: 0,
  attempt: 0,
  afterUnknown: false,
  termMs: 0,
  keepMs: 0,
  end: null,
}

/** The record as people see it; null when there is nothing to tell. */
export function view(key: string, record: RecordState | undefined, nowMs: number): RecordView | null {
  if (record === undefined || nowMs >= record.keepMs || record.attempt === 0) return null
  const { state, fingerprint, holder, token, attempt, termMs, keepMs, end } = record
  const over = state === 'running' && nowMs >= termMs
  return {
    key,
    state: over ? 'unknown' : state,
    fingerprint,
    holder,
    token,
    attempt,
    remainingMs: (state === 'running' && !over ? termMs : keepMs) - nowMs,
    end,
  }
}
