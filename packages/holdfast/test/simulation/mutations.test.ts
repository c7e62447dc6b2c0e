// The teeth of the simulation: with any one guard taken away it finds a violation of the guarantee that the guard upholds.
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { runMutant, type Verdict } from './mutants.js'
import { mutations, unseen } from './mutations.js'

const tests = join(dirname(fileURLToPath(import.meta.url)), '..')

/** Far more than it takes: each mutant has a limit of its own. */
const SLOWEST_MS = 900_000

describe('with this guard taken away, the simulation finds a violation', () => {
  const verdicts = new Map<string, Verdict | Error>()

  beforeAll(async () => {
    const left = [...mutations]
    const work = async () => {
      for (let mutation = left.shift(); mutation !== undefined; mutation = left.shift())
        verdicts.set(mutation.name, await runMutant(mutation).catch((error: Error) => error))
    }
    await Promise.all(Array.from({ length: Math.min(4, availableParallelism()) }, work))
  }, SLOWEST_MS)

  it.each(mutations)('$name: $guard', ({ name, expects, seeds }) => {
    const verdict = verdicts.get(name)
    if (verdict === undefined || verdict instanceof Error) throw verdict ?? new Error(`${name} was not run`)
    const found = verdict.broken.filter((guarantee) => expects.includes(guarantee))
    expect(found, `${expects.join(' or ')} within ${seeds} seeds; the simulation said:\n${verdict.output}`).not.toEqual(
      [],
    )
  })
})

it('names are unique', () => {
  expect(new Set(mutations.map(({ name }) => name)).size).toBe(mutations.length)
})

it.each(unseen)('what the simulation cannot see has its own test: $guard', ({ seenBy }) => {
  expect(readFileSync(join(tests, seenBy.file), 'utf8').includes(seenBy.title), JSON.stringify(seenBy)).toBe(true)
})
