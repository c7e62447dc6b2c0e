// Seeded randomness: the same seed, the same run.
import { expect, it } from 'vitest'
import { seededRandom } from '../../src/testing/index.js'

it('repeats itself for one seed, and differs for another', () => {
  const draw = (seed: number) => {
    const random = seededRandom(seed)
    return [random.claim(), random.unit(), random.claim(), random.unit()]
  }
  expect(draw(7)).toEqual(draw(7))
  expect(draw(7)).not.toEqual(draw(8))
  expect(draw(7)).not.toEqual(draw(7 + 2 ** 32))
})

it('draws numbers from 0 to below 1, evenly, and never a claim twice', () => {
  const random = seededRandom(1)
  const buckets = new Array<number>(10).fill(0)
  const claims = new Set<string>()
  for (let i = 0; i < 10_000; i++) {
    const unit = random.unit()
    expect(unit >= 0 && unit < 1).toBe(true)
    const place = Math.floor(unit * 10)
    buckets[place] = (buckets[place] ?? 0) + 1
    claims.add(random.claim())
  }
  expect(claims.size).toBe(10_000)
  for (const count of buckets) expect(Math.abs(count - 1_000)).toBeLessThan(200)
})
