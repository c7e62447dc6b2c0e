// What the parts of one client share: its store, its time, its randomness and its ways to tell. Made once by createLeases.
import type { LeaseStore } from '../store/contract.js'
import type { AbortHub } from './abort-hub.js'
import type { Alarms } from './alarms.js'
import type { Caller } from './call.js'
import type { Events } from './events.js'
import type { Held } from './held.js'
import type { HeldLease } from './lease.js'
import type { Random } from './random.js'
import type { Renewals } from './renewal.js'
import type { Timeline } from './timeline.js'
import type { Withdrawals } from './withdraw.js'

export interface Core {
  readonly store: LeaseStore
  readonly prefix: string
  readonly holder: string
  readonly timeline: Timeline
  readonly alarms: Alarms
  readonly random: Random
  /** The identity of one acquisition. */
  newClaim(): string
  readonly events: Events
  readonly caller: Caller
  readonly aborts: AbortHub
  readonly withdrawals: Withdrawals
  readonly renewals: Renewals
  readonly maxLocalWaiters: number
  readonly maxHandovers: number
  /** Every lease that is held, or whose release has not been answered. */
  readonly held: Held<HeldLease>
  /** Called, once each, when nothing is held any more. */
  readonly onIdle: (() => void)[]
  /** True once the client is closing. */
  closing: boolean
}
