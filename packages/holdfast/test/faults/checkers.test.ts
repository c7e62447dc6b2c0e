// The checkers see what is wrong, and nothing else.
import { describe, expect, it } from 'vitest'
import { believedAtOnce, overwritten, tokensThatFell } from './checkers.js'

const term = (holder: string, token: number, fromUs: number, untilUs: number) => ({
  term: 'k',
  holder,
  token,
  fromUs,
  untilUs,
})
const grant = (token: number, askedUs: number, answeredUs: number) => ({
  granted: 'k',
  holder: 'a',
  token,
  askedUs,
  answeredUs,
})
const write = (register: string, token: number) => ({ register, token, holder: 'a' })

describe('believedAtOnce', () => {
  it('is silent about terms one after the other', () => {
    expect(believedAtOnce([term('b', 2, 20, 30), term('a', 1, 0, 20), term('a', 3, 31, 40)])).toEqual([])
  })
  it('finds an overlap, also with a term before the last', () => {
    expect(believedAtOnce([term('a', 1, 0, 2_000), term('b', 2, 1_000, 3_000)])).toEqual([
      'a (1) and b (2) for 1.000 ms',
    ])
    expect(believedAtOnce([term('a', 1, 0, 90), term('b', 2, 90, 91), term('c', 3, 50, 60)])).toHaveLength(1)
  })
})

describe('tokensThatFell', () => {
  it('is silent when they rise, and about grants under way at once', () => {
    expect(tokensThatFell([grant(1, 0, 10), grant(2, 10, 20), grant(3, 5, 30)])).toEqual([])
    expect(tokensThatFell([grant(2, 0, 10), grant(1, 0, 12)])).toEqual([])
  })
  it('finds a smaller one later, and one twice', () => {
    expect(tokensThatFell([grant(5, 0, 10), grant(4, 20, 30)])).toEqual(['5 was granted before 4 was asked for'])
    expect(tokensThatFell([grant(5, 0, 10), grant(5, 0, 10)])).toEqual(['5 was granted twice'])
  })
})

describe('overwritten', () => {
  it('tells the registers apart, and an older write from an equal one', () => {
    const writes = [write('plain', 1), write('fenced', 1), write('plain', 2), write('plain', 1), write('fenced', 1)]
    expect(overwritten(writes, 'fenced')).toEqual([])
    expect(overwritten(writes, 'plain')).toEqual(['a (1) after a (2)'])
  })
})
