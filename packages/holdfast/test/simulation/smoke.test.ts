// Two hundred seeds over all scenarios: no guarantee is broken, each run is worth something, and the plain register is
// overwritten by older holders in the very histories in which the fenced one never is.
import { type Histogram, scenarioNames, simulate } from 'holdfast/testing'
import { beforeAll, describe, expect, it } from 'vitest'
import { fingerprint } from '../../src/testing/simulation/report.js'

const RUNS = 200
const SLOWEST_MS = 300_000

interface Run {
  readonly name: string
  readonly slots: number
  readonly counts: Histogram
  readonly broken: readonly string[]
}

/** A store without verbs of its own grants what its callers were given. */
const grants = (counts: Histogram) =>
  'store: acquire granted' in counts
    ? (counts['store: acquire granted'] ?? 0) + (counts['store: turn told'] ?? 0)
    : (counts['leases held'] ?? 0)

describe(`${RUNS} seeds`, () => {
  const runs: Run[] = []
  const total: Record<string, number> = {}

  beforeAll(async () => {
    for (let seed = 1; seed <= RUNS; seed++) {
      const { plan, counts, violations } = await simulate({ seed })
      const name = `npm run sim -- --seed ${seed} --scenario ${plan.scenario}`
      const broken = violations.map(({ guarantee, what }) => `${guarantee}: ${what} (${name})`)
      runs.push({ name, slots: plan.slots.length, counts, broken })
      for (const [fact, count] of Object.entries(counts)) total[fact] = (total[fact] ?? 0) + count
    }
    const rows = Object.keys(total)
      .sort()
      .map((fact) => `${String(total[fact]).padStart(8)}  ${fact}`)
    console.log([`${RUNS} runs over ${scenarioNames.length} scenarios:`, ...rows].join('\n'))
  }, SLOWEST_MS)

  it('break no guarantee', () => {
    expect(runs.flatMap(({ broken }) => broken)).toEqual([])
  })

  it('each have at least 3 processes, 50 grants and 10 faults that took effect', () => {
    const poor = runs.filter(({ slots, counts }) => slots < 3 || grants(counts) < 50 || (counts.faults ?? 0) < 10)
    expect(poor.map(({ name, counts }) => `${name}: ${grants(counts)} grants, ${counts.faults} faults`)).toEqual([])
  })

  it('overwrite the plain register, so that the checker of the fence sees the difference', () => {
    expect(total['plain writes that overwrote a newer one']).toBeGreaterThan(50)
    expect(total['fenced writes refused']).toBeGreaterThan(50)
  })

  it.each([
    'call: aborted',
    'call: closed',
    'call: held',
    'call: lost',
    'call: store-error',
    'call: threw',
    'event: release-failed',
    'event: renewal-failed',
    'event: watch-failed',
    'event: withdrawal-pending',
    'looks that said lost',
    'lost: deadline',
    'lost: maxHold',
    'lost: revoked',
    'store: acquire held (ended)',
    'store: acquire held (reserved)',
    'store: acquire held (revoked)',
    'store: release lost (expired)',
    'store: release lost (taken)',
    'store: renew lost (expired)',
    'store: renew lost (revoked)',
  ])('see %s', (fact) => {
    expect(total[fact] ?? 0).toBeGreaterThan(0)
  })
})

it.each(scenarioNames)('the same seed gives the same history: %s', async (scenario) => {
  const [first, second] = [await simulate({ seed: 7, scenario }), await simulate({ seed: 7, scenario })]
  expect(fingerprint(first.history)).toBe(fingerprint(second.history))
})
