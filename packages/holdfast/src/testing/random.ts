// Repeatable randomness for tests: the same seed gives the same claims and the same jitter.
import type { Random } from '../lease/random.js'

/**
 * A source of claims and jitter that repeats itself for the same seed (the generator sfc32). For tests only: its claims can
 * be guessed.
 *
 * @example
 * ```ts
 * const leases = createLeases({ store, random: seededRandom(42) })
 * ```
 */
export function seededRandom(seed: number): Random {
  let a = seed | 0
  let b = Math.trunc(seed / 2 ** 32) | 0
  let c = 0x9e3779b9 | 0
  let counter = 1
  const next = () => {
    const sum = (a + b + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = ((c << 21) | (c >>> 11)) + sum
    c |= 0
    return sum >>> 0
  }
  for (let round = 0; round < 15; round++) next() // so that near seeds give far apart numbers
  return {
    claim: () => [next(), next(), next(), next()].map((word) => word.toString(36).padStart(7, '0')).join(''),
    unit: () => next() / 2 ** 32,
  }
}
