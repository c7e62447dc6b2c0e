// The conformance suite: whether a store keeps the contract.
export type { ConformanceCase, ConformanceFactory, ConformanceNeed, ConformanceTarget, Guarantee } from './case.js'
export { conformance } from './cases.js'
export { ConformanceFailure } from './check.js'
export {
  type ConformanceResult,
  type ConformanceRunner,
  checkConformance,
  type RunConformanceOptions,
  runConformance,
} from './run.js'
export type { Asked, ConformanceWorld, Watching, Where } from './world.js'
