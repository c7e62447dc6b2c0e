// Makes a failing plan shorter: leaves out ever smaller pieces of it and keeps what still breaks the same guarantee (delta
// debugging). Since the fate of a message hangs on its name and not on a shared stream, most of the rest stays as it was.
import { check } from './checkers/index.js'
import type { Violation } from './history.js'
import type { Plan } from './plan.js'
import { carryOut } from './world.js'

/** A shorter plan that breaks the same guarantee. */
export interface Shrunk {
  readonly plan: Plan
  readonly violation: Violation
  /** How many plans were tried. */
  readonly tried: number
}

/**
 * The shortest plan found that still breaks `guarantee`, within so many tries (default 300).
 *
 * @example
 * ```ts
 * const { plan, violations } = await simulate({ seed: 42 })
 * const [violation] = violations
 * if (violation !== undefined) console.error((await shrink(plan, violation.guarantee))?.plan.parts)
 * ```
 */
export async function shrink(plan: Plan, guarantee: string, triesMax = 300): Promise<Shrunk | undefined> {
  let tried = 0
  const breaks = async (candidate: Plan): Promise<Violation | undefined> => {
    tried++
    return check(await carryOut(candidate)).find((violation) => violation.guarantee === guarantee)
  }
  let best = plan
  let violation = await breaks(plan)
  if (violation === undefined) return undefined

  const calmer = { ...best, lastCallers: 1 }
  const broken = await breaks(calmer)
  if (broken !== undefined) {
    best = calmer
    violation = broken
  }
  for (let size = Math.ceil(best.parts.length / 2); size >= 1 && tried < triesMax; ) {
    let isShorter = false
    for (let from = 0; from < best.parts.length && tried < triesMax; ) {
      const candidate = { ...best, parts: best.parts.toSpliced(from, size) }
      const broken = await breaks(candidate)
      if (broken === undefined) from += size
      else {
        best = candidate
        violation = broken
        isShorter = true
      }
    }
    if (size === 1 && !isShorter) break
    if (!isShorter || size > best.parts.length) size = Math.max(1, Math.floor(size / 2))
  }
  return { plan: best, violation, tried }
}
