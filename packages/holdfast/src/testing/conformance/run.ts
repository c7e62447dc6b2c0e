// Runs the cases: under a test runner, or plainly.
import type { ConformanceCase, ConformanceFactory, ConformanceNeed, ConformanceTarget } from './case.js'
import { conformance } from './cases.js'
import { check } from './check.js'
import { ConformanceWorld } from './world.js'

/** The parts of a test runner that are used: those of `node:test`, vitest, Jest and Mocha fit. */
export interface ConformanceRunner {
  describe(name: string, fn: () => void): unknown
  it(name: string, fn: (context?: unknown) => Promise<void>): unknown
}

/** What is run, where. */
export interface RunConformanceOptions extends ConformanceRunner {
  /** The name of the group of tests. */
  readonly name: string
  /** Makes the store of each case. */
  readonly create: ConformanceFactory
  /** Default: all. */
  readonly cases?: readonly ConformanceCase[]
  /**
   * Whether a case that does not apply is a failure, so that no capability gets lost unseen. Default false. Turns that are told are
   * an extra: without `tellsTurns` their cases are left out.
   */
  readonly complete?: boolean
}

/**
 * Registers one test for each case. A case that the store cannot be asked for (it lacks a capability, or `create` gives no
 * second handle) is marked as skipped where the runner can do that.
 *
 * @example
 * ```ts no-run
 * import { describe, it } from 'node:test'
 * import { runConformance, VirtualClock } from 'holdfast/testing'
 *
 * runConformance({
 *   describe,
 *   it,
 *   name: 'my store',
 *   create() {
 *     const clock = new VirtualClock()
 *     const store = memoryStore({ clock }) // yours
 *     return { store, passMs: (ms) => clock.advance(ms) }
 *   },
 * })
 * ```
 */
export function runConformance(options: RunConformanceOptions): void {
  const { describe, it, name, create, cases = conformance, complete = false } = options
  describe(name, () => {
    for (const one of cases) {
      it(`${one.id}: ${one.title}`, async (context) => {
        const result = await runCase(one, create)
        if (result.outcome === 'failed') throw result.error
        if (result.outcome === 'passed') return
        const why = `does not apply: the target lacks ${result.lacks.join(', ')}`
        check(!complete || result.lacks.every((need) => need === 'tellsTurns'), why)
        skip(context, why)
      })
    }
  })
}

/** How a case went. */
export type ConformanceResult =
  | { readonly case: ConformanceCase; readonly outcome: 'passed' }
  | { readonly case: ConformanceCase; readonly outcome: 'failed'; readonly error: unknown }
  | { readonly case: ConformanceCase; readonly outcome: 'not applicable'; readonly lacks: readonly ConformanceNeed[] }

/**
 * Runs the cases one after the other, without a test runner, and gives what came of each. Never rejects.
 *
 * @example
 * ```ts
 * import { checkConformance, VirtualClock } from 'holdfast/testing'
 *
 * const results = await checkConformance(() => {
 *   const clock = new VirtualClock()
 *   return { store: memoryStore({ clock }), passMs: (ms) => clock.advance(ms) }
 * })
 * for (const result of results) if (result.outcome === 'failed') console.error(result.case.id, result.error)
 * ```
 */
export async function checkConformance(
  create: ConformanceFactory,
  cases: readonly ConformanceCase[] = conformance,
): Promise<ConformanceResult[]> {
  const results: ConformanceResult[] = []
  for (const one of cases) results.push(await runCase(one, create))
  return results
}

async function runCase(one: ConformanceCase, create: ConformanceFactory): Promise<ConformanceResult> {
  let world: ConformanceWorld | undefined
  let result: ConformanceResult
  try {
    const target = await create()
    world = new ConformanceWorld(target)
    const lacks = (one.needs ?? []).filter((need) => !can(target, need))
    if (lacks.length > 0) result = { case: one, outcome: 'not applicable', lacks }
    else {
      await one.run(world)
      result = { case: one, outcome: 'passed' }
    }
  } catch (error) {
    result = { case: one, outcome: 'failed', error }
  }
  try {
    await world?.close()
  } catch (error) {
    if (result.outcome !== 'failed') result = { case: one, outcome: 'failed', error }
  }
  return result
}

function can(target: ConformanceTarget, need: ConformanceNeed): boolean {
  if (need === 'tellsTurns') return target.store.capabilities.tellsTurns === true
  if (need === 'fair' || need === 'tokenFloor') return target.store.capabilities[need]
  if (need === 'watch') return target.store.watch !== undefined
  return target[need] !== undefined
}

/** `node:test` and vitest give each test a context with `skip`. */
function skip(context: unknown, why: string): void {
  if (typeof context !== 'object' || context === null || !('skip' in context)) return
  if (typeof context.skip === 'function') context.skip(why)
}
