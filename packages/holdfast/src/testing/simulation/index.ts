// The simulation: a seeded world in virtual time, in which several processes run the library's own code, unmodified, against
// the memory store over a hostile network, and checkers that judge what happened. docs/reference/simulation.md shows how to
// run it, and how to add a scenario or a checker.
import { check } from './checkers/index.js'
import type { History, Violation } from './history.js'
import { drawPlan, type Plan } from './plan.js'
import { countFacts, type Histogram } from './report.js'
import { type ScenarioName, scenarioNames } from './scenarios.js'
import { carryOut } from './world.js'

export { checkers } from './checkers/index.js'
export type { Allowances, Ending, Fact, History, Served, Violation } from './history.js'
export type { Weather } from './network.js'
export type { Blow, FaultKind, Moment, Plan, Program, Task } from './plan.js'
export type { Rates } from './process.js'
export type { Histogram } from './report.js'
export { type Scenario, type ScenarioName, scenarioNames, scenarios } from './scenarios.js'
export { type Shrunk, shrink } from './shrink.js'

/** One run: what was tried, what happened, and what was wrong with it. */
export interface Simulated {
  readonly plan: Plan
  readonly history: History
  readonly violations: readonly Violation[]
  /** How often what happened. */
  readonly counts: Histogram
}

/** Which run to simulate. */
export interface SimulationOptions {
  /** A whole number: the same one gives the same history on every machine. */
  readonly seed: number
  /** Default: the scenarios take turns, by the seed. */
  readonly scenario?: ScenarioName
  /** Only these parts of the plan, by name: what `shrink` has left. Default: all. */
  readonly keep?: readonly string[]
}

/**
 * Runs the library in a simulated world and judges its history by the checkers of G1 to G10.
 *
 * @example
 * ```ts
 * const { violations } = await simulate({ seed: 42, scenario: 'pauses' })
 * violations.length // 0
 * ```
 */
export async function simulate({ seed, scenario = scenarioOf(seed), keep }: SimulationOptions): Promise<Simulated> {
  const plan = drawPlan(seed, scenario)
  if (keep === undefined) return simulatePlan(plan)
  return simulatePlan({ ...plan, lastCallers: 1, parts: plan.parts.filter(({ name }) => keep.includes(name)) })
}

/**
 * Runs a plan: one that a seed drew, or a shorter one.
 *
 * @example
 * ```ts
 * const { plan } = await simulate({ seed: 42 })
 * const { history } = await simulatePlan({ ...plan, parts: plan.parts.slice(0, 10) })
 * ```
 */
export async function simulatePlan(plan: Plan): Promise<Simulated> {
  const history = await carryOut(plan)
  return { plan, history, violations: check(history), counts: countFacts(history) }
}

function scenarioOf(seed: number): ScenarioName {
  const name = scenarioNames[Math.abs(seed) % scenarioNames.length]
  if (name === undefined) throw new TypeError(`a seed is a whole number, not ${seed}`)
  return name
}
