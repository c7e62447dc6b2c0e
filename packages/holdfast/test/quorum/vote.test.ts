// How votes become a verdict: the lines that the model checker runs too, by hand.
import { describe, expect, it } from 'vitest'
import type { Held } from '../../src/index.js'
import { Ballots } from '../../src/stores/quorum/terms.js'
import {
  isFirst,
  judge,
  judgeRenewal,
  majorityOf,
  mergeHeld,
  mergeReplaced,
  type Vote,
} from '../../src/stores/quorum/vote.js'

const yes = (token: number, replaced?: boolean): Vote => ({
  is: 'granted',
  granted: { is: 'granted', token, ttlMs: 1, ...(replaced === undefined ? {} : { replaced }) },
})
const no = (token: number, remainingMs = 1, because: Held['because'] = 'held', holder = 'x'): Vote => ({
  is: 'held',
  held: { is: 'held', because, holder, token, remainingMs },
})
const open: Vote = { is: 'pending' }
const failed: Vote = { is: 'failed', error: new Error('down') as never, applied: 'maybe' }

describe('a majority', () => {
  it('is more than half, for even numbers too', () => {
    expect([1, 2, 3, 4, 5, 6, 7].map(majorityOf)).toEqual([1, 2, 2, 3, 3, 4, 4])
  })

  it.each<[string, Vote[], unknown]>([
    ['one token at a majority', [yes(5), open, yes(5)], { is: 'granted', token: 5 }],
    ['two tokens', [yes(5), yes(7), open], { is: 'raise', token: 7 }],
    ['the third agrees with the smaller', [yes(5), yes(7), yes(5)], { is: 'granted', token: 5 }],
    ['not enough yet', [yes(5), open, failed], { is: 'open' }],
    ['refusals alone decide', [no(5), open, no(5)], { is: 'impossible', refused: true }],
    ['what fails is no refusal', [no(5), yes(6), failed], { is: 'impossible', refused: false }],
    ['a node is down, one refuses, and one may yet', [failed, no(5), open], { is: 'open' }],
    [
      'those who may yet refuse are too few',
      [failed, failed, failed, no(5), open],
      { is: 'impossible', refused: false },
    ],
    ['half of four', [yes(5), yes(5), no(4), failed], { is: 'impossible', refused: false }],
    ['two of four refuse', [yes(5), yes(5), no(4), no(4)], { is: 'impossible', refused: true }],
  ])('of votes: %s', (_, votes, verdict) => {
    expect(judge(votes, majorityOf(votes.length))).toEqual(verdict)
  })

  it('of renewals: renewed, lost, or not certain', () => {
    const renewed = { is: 'renewed', ttlMs: 9 } as const
    const gone = (reason: 'expired' | 'taken') => ({ is: 'lost', reason }) as const
    expect(judgeRenewal([renewed, undefined, { ...renewed, ttlMs: 7 }], 2)).toEqual({ is: 'renewed', ttlMs: 7 })
    expect(judgeRenewal([gone('expired'), gone('taken'), undefined], 2)).toEqual({ is: 'lost', reason: 'taken' })
    expect(judgeRenewal([renewed, gone('expired'), { is: 'unknown', cause: '' }], 2)).toBeUndefined()
  })
})

describe('the first of several contenders', () => {
  it('is the one whose ballot is below what refused it', () => {
    expect(isFirst([yes(3), no(5), no(7)], 3, 2)).toBe(true)
    expect(isFirst([yes(5), no(3), no(7)], 5, 2)).toBe(false)
  })

  it('is nobody who got no vote, meets a majority, or could not win', () => {
    expect(isFirst([no(5), no(7), failed], 3, 2)).toBe(false)
    expect(isFirst([yes(3), no(5), no(5)], 3, 2)).toBe(false)
    expect(isFirst([yes(3), no(5, 1, 'ended'), failed], 3, 2)).toBe(false)
  })
})

describe('refusals', () => {
  it('come to one: free as soon as a majority of nodes is', () => {
    expect(mergeHeld([no(5, 100), no(7, 300), no(5, 200)], 2)).toEqual({
      is: 'held',
      because: 'held',
      holder: 'x',
      token: 7,
      remainingMs: 200,
    })
  })

  it('say that the claim replaced was no holder only when no majority can say so', () => {
    expect(mergeReplaced([yes(1, true), yes(1, false), open], 2)).toBe(true)
    expect(mergeReplaced([yes(1, false), yes(1, false), open], 2)).toBe(false)
    expect(mergeReplaced([yes(1), open, open], 2)).toBeUndefined()
  })
})

describe('ballots', () => {
  it('follow the wall clock, and are above the last answer for the key', () => {
    const ballots = new Ballots()
    expect(ballots.next('k', 1_000, 0.5)).toBe(1_000_500)
    ballots.saw('k', 2_000_000)
    ballots.saw('k', 1)
    expect(ballots.next('k', 1_000, 0.5)).toBe(2_000_001)
    expect(ballots.next('other', 1_000, 0)).toBe(1_000_000)
    ballots.saw('k', Number.MAX_SAFE_INTEGER)
    expect(ballots.next('k', 1_000, 0)).toBe(Number.MAX_SAFE_INTEGER)
  })

  it('remember the last thousand keys', () => {
    const ballots = new Ballots()
    for (let i = 0; i <= 1_000; i++) ballots.saw(`k${i}`, 9)
    expect([ballots.last('k0'), ballots.last('k1'), ballots.last('k1000')]).toEqual([0, 9, 9])
  })
})
