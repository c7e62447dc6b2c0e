// The error family: stable codes, classes that two copies of the package agree on, and what each error carries.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import * as holdfast from '../../src/index.js'

const { HoldfastError } = holdfast
const library = { ...holdfast }

const made = [
  {
    of: 'InvalidArgumentError',
    code: 'INVALID_ARGUMENT',
    make: (m: typeof holdfast) => new m.InvalidArgumentError('ttlMs', -1, 'must be above 0'),
  },
  {
    of: 'LeaseHeldError',
    code: 'LEASE_HELD',
    make: (m: typeof holdfast) => new m.LeaseHeldError('k', { holder: 'h', remainingMs: 5 }, 3),
  },
  { of: 'LeaseLostError', code: 'LEASE_LOST', make: (m: typeof holdfast) => new m.LeaseLostError('k', 1, 'deadline') },
  {
    of: 'StoreError',
    code: 'STORE_ERROR',
    make: (m: typeof holdfast) => new m.StoreError('down', { outcome: 'none', cause: 'why' }),
  },
  { of: 'StaleTokenError', code: 'STALE_TOKEN', make: (m: typeof holdfast) => new m.StaleTokenError('r', 1, 2) },
  {
    of: 'TooManyWaitersError',
    code: 'TOO_MANY_WAITERS',
    make: (m: typeof holdfast) => new m.TooManyWaitersError('k', 3),
  },
  { of: 'ClosedError', code: 'CLOSED', make: (m: typeof holdfast) => new m.ClosedError() },
  {
    of: 'DrainTimeoutError',
    code: 'DRAIN_TIMEOUT',
    make: (m: typeof holdfast) => new m.DrainTimeoutError(['a', 'b'], 5),
  },
  { of: 'InvariantError', code: 'INVARIANT', make: (m: typeof holdfast) => new m.InvariantError('one is two') },
] as const

/** A copy of the built package: another query, another module, with classes of its own. */
const copy = (n: number): Promise<typeof holdfast> =>
  import(`${new URL('../../dist/lease/errors.js', import.meta.url).href}?copy=${n}`)

describe('errors', () => {
  it.each(made)(
    '$of has the code $code, its name, and is of the family and of no other class',
    ({ of, code, make }) => {
      const error = make(holdfast)
      expect(error).toMatchObject({ code, name: of })
      expect(error instanceof Error && error instanceof HoldfastError).toBe(true)
      expect(made.filter((other) => error instanceof library[other.of]).map((other) => other.of)).toEqual([of])
      expect(error.message).not.toBe('')
    },
  )

  it('are recognised by another copy of the package', async () => {
    expect(existsSync(fileURLToPath(new URL('../../dist/lease/errors.js', import.meta.url)))).toBe(true)
    const [one, two] = await Promise.all([copy(1), copy(2)])
    expect(one.HoldfastError).not.toBe(two.HoldfastError)
    for (const { of, make } of made) {
      const error: unknown = make(one)
      expect(error instanceof two.HoldfastError, of).toBe(true)
      expect(made.filter((other) => error instanceof two[other.of]).map((other) => other.of)).toEqual([of])
    }
  })

  it('nothing else is one of them', () => {
    for (const value of [new Error('x'), { code: 'LEASE_HELD' }, null, undefined, 'LEASE_HELD', 5]) {
      expect(value instanceof HoldfastError).toBe(false)
      expect(value instanceof holdfast.LeaseHeldError).toBe(false)
    }
  })

  it("somebody's own subclass is that class only when it is", () => {
    class Mine extends holdfast.LeaseHeldError {}
    const mine = new Mine('k', { holder: 'h', remainingMs: 1 }, 0)
    expect(mine).toBeInstanceOf(Mine)
    expect(mine).toBeInstanceOf(holdfast.LeaseHeldError)
    expect(new holdfast.LeaseHeldError('k', { holder: 'h', remainingMs: 1 }, 0)).not.toBeInstanceOf(Mine)
  })

  it('carry their context', () => {
    expect(made.map(({ make }) => ({ ...make(holdfast) }))).toMatchObject([
      { option: 'ttlMs', value: -1 },
      { key: 'k', holder: 'h', remainingMs: 5, waitedMs: 3 },
      { key: 'k', token: 1, reason: 'deadline', outcome: undefined },
      { outcome: 'none' },
      { resource: 'r', token: 1, admitted: 2 },
      { key: 'k' },
      {},
      { keys: ['a', 'b'] },
      {},
    ])
    expect(new holdfast.StoreError('down', { outcome: 'none', cause: 'why' }).cause).toBe('why')
  })

  it.each([
    [Number.NaN, 'NaN'],
    [-0, '-0'],
    [5n, '5n'],
    [null, 'null'],
    [undefined, 'undefined'],
    ['1000', '"1000"'],
    ['x'.repeat(200), 'xxx..."'],
    [Symbol('s'), 'Symbol(s)'],
    [() => 1, 'a function'],
    [[1], 'an array'],
    [Object.create(null), 'an object'],
  ])('a bad value of any kind (%#) can be shown', (value, shown) => {
    expect(new holdfast.InvalidArgumentError('x', value, 'must be right').message).toContain(shown)
  })

  it('a lost lease says why in words, for each reason', () => {
    const reasons = ['expired', 'taken', 'revoked', 'deadline', 'maxHold', 'closing', 'released'] as const
    const messages = reasons.map((reason) => new holdfast.LeaseLostError('k', 1, reason).message)
    expect(new Set(messages).size).toBe(reasons.length)
    for (const message of messages) expect(message).toMatch(/^the lease on "k" \(token 1\) ended: \w/)
  })
})
