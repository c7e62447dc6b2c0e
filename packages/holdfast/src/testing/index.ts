// `holdfast/testing`: time by hand, networks with faults, the cases that a store has to pass, and the simulation.
export { VirtualClock, type VirtualClockOptions } from './clock.js'
export * from './conformance/index.js'
export {
  type Fault,
  type FaultyCall,
  type FaultyRequests,
  type FaultyStore,
  type FaultyStoreOptions,
  type FaultyVerb,
  faultyStore,
} from './faulty-store.js'
export { seededRandom } from './random.js'
export * from './simulation/index.js'
