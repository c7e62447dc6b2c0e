// `holdfast`: the public face, an explicit list.
export { type Clock, systemClock, type Timer } from './lease/clock.js'
export {
  ClosedError,
  DrainTimeoutError,
  type ErrorCode,
  HoldfastError,
  InvalidArgumentError,
  InvariantError,
  LeaseHeldError,
  LeaseLostError,
  type LostReason,
  type Outcome,
  StaleTokenError,
  StoreError,
  TooManyWaitersError,
} from './lease/errors.js'
export type { EventListener, LeaseEvent } from './lease/events.js'
export type { Lease, Released } from './lease/lease.js'
export { createLeases, type Leases, type TryHeld, type Work } from './lease/leases.js'
export type { AcquireOptions, ClientOptions, LeaseOptions, TryOptions, WaitOptions } from './lease/options.js'
export { type Random, systemRandom } from './lease/random.js'
export { type AttemptLimit, exponential, fixed, noRetry, type RetryPolicy, type Situation } from './lease/retry.js'
export type {
  AcquireRequest,
  CallOptions,
  Grant,
  Granted,
  Held,
  Hints,
  Json,
  LeaseRecord,
  LeaseStore,
  ListOptions,
  QueueRequest,
  ReleaseOutcome,
  RenewOutcome,
  RenewRequest,
  StoreCapabilities,
  StoreLostReason,
  Turn,
  WatchOptions,
} from './store/contract.js'
