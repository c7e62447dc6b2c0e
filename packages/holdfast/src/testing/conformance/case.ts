// What a case is, and what it is given: data, so that any test runner can run it on any store.
import type { LeaseStore } from '../../store/contract.js'
import type { ConformanceWorld } from './world.js'

/** The guarantees of the contract that cases cite (docs/design.md). */
export type Guarantee = 'G1' | 'G2' | 'G3' | 'G4' | 'G6' | 'G8' | 'G11' | 'G13'

/** What a store, or its factory, must be able to do for a case to apply. */
export type ConformanceNeed = 'fair' | 'tellsTurns' | 'tokenFloor' | 'watch' | 'open' | 'prune'

/** One demand on a store. */
export interface ConformanceCase {
  /** Stable, unique; starts with the guarantee. */
  readonly id: string
  readonly guarantee: Guarantee
  /** The demand in words. Cites the failure case that it stands for, `(C26)`, where there is one. */
  readonly title: string
  /** Whether this is about a fault that locks are known for: then some naive store has to fail it. */
  readonly aboutFault: boolean
  /** Without these the case does not apply. */
  readonly needs?: readonly ConformanceNeed[]
  /** Rejects when the store does not do it. */
  run(world: ConformanceWorld): Promise<void>
}

/** A store to be tested, with what only its owner can do for it. */
export interface ConformanceTarget {
  readonly store: LeaseStore
  /** Lets at least so many ms pass on the clock that decides expiry: moves a virtual clock, or waits. */
  passMs(ms: number): Promise<void>
  /**
   * The term that cases wait out, in ms. Default 10,000, for virtual clocks. On a real clock take the shortest that a busy
   * machine does not overrun between two commands: 500 or so.
   */
  readonly ttlMs?: number
  /** Another handle on the same data, as another process would have it. Closed after the case. */
  open?(): LeaseStore | Promise<LeaseStore>
  /** Makes the store forget all that it may forget about free keys by now. */
  prune?(): unknown
  /** Runs after the case, after every handle has been closed. */
  close?(): unknown
}

/** Makes a target for one case. Its data may be shared with other cases: each uses keys of its own. */
export type ConformanceFactory = () => ConformanceTarget | Promise<ConformanceTarget>
