// Records as version 1 wrote them, which all later versions must read: instants in µs, far enough from today.
import { expect } from 'vitest'
import type { Records } from '../../src/idempotency/contract.js'
import { asks } from './record-cases.js'

/** The first instants of 2023 and of 2100. */
const PAST_US = 1_672_531_200_000_000
const FUTURE_US = 4_102_444_800_000_000

export interface GoldenRecord {
  readonly key: string
  /** 0 free, 1 running, 2 returned, 3 threw. */
  readonly state: number
  readonly fingerprint: string
  readonly claim: string
  readonly holder: string
  readonly token: number
  readonly attempt: number
  readonly afterUnknown: boolean
  readonly termUs: number
  readonly keepUs: number
  readonly text: string | null
}

const record = (key: string, state: number, more: Partial<GoldenRecord> = {}): GoldenRecord => ({
  key,
  state,
  fingerprint: 'h1-a',
  claim: `claim of ${key}`,
  holder: 'web-1:ä',
  token: 1_796_100_130_366_929,
  attempt: 2,
  afterUnknown: false,
  termUs: 0,
  keepUs: FUTURE_US,
  text: null,
  ...more,
})

export const goldenRecords: readonly GoldenRecord[] = [
  record('returned', 2, { text: '{"id":"é"}' }),
  record('threw', 3, { text: 'no' }),
  record('running', 1, { termUs: FUTURE_US, keepUs: FUTURE_US + 1_000_000 }),
  record('unknown', 1, { termUs: PAST_US, afterUnknown: true }),
  record('free', 0, { fingerprint: '', holder: '' }),
  record('over', 2, { keepUs: PAST_US, text: '{}' }),
]

export async function readsGolden(records: Records): Promise<void> {
  const [{ token, attempt }] = goldenRecords as [GoldenRecord]
  const begin = (key: string, more: object = {}) => records.begin(asks({ key, fingerprint: 'h1-a', ...more }))
  expect(await begin('returned')).toEqual({ is: 'done', end: { is: 'returned', text: '{"id":"é"}' }, token, attempt })
  expect(await begin('threw')).toEqual({ is: 'done', end: { is: 'threw', text: 'no' }, token, attempt })
  expect(await begin('returned', { fingerprint: 'h1-b' })).toEqual({ is: 'reused', state: 'done' })
  expect(await begin('running')).toMatchObject({ is: 'running', holder: 'web-1:ä', token })
  expect(await begin('unknown')).toMatchObject({ is: 'unknown', holder: 'web-1:ä', token, attempt })
  expect(await begin('free', { claim: 'claim of free' })).toEqual({ is: 'ended' })
  for (const key of ['free', 'unknown']) {
    const next = await begin(key, { takeOver: true })
    expect(next).toMatchObject({ is: 'run', attempt: attempt + 1, afterUnknown: key === 'unknown' })
    expect((next as { token: number }).token).toBeGreaterThan(token)
  }
  expect(await begin('over')).toMatchObject({ is: 'run', attempt: 1, afterUnknown: false })
  const run = { key: 'running', claim: 'claim of running' }
  expect(await records.finish(run, { is: 'returned', text: '1' }, 60_000)).toBe('recorded')
}
