// What the lease model can do without, one guard at a time, what must break then, and how much of a world there is.

/** What keeps the protocol right. All are on unless a scenario switches one off. */
export const GUARDS = {
  rememberWithdrawn: 'a withdrawn claim is remembered',
  rememberReleased: 'the last claim that was given back is remembered',
  repeatExtends: 'an acquire repeated by its holder extends the term, whose deadline counts from the repeat',
  deadlineFromSend: 'the deadline counts from the send, not from the reply',
  margin: 'the margin is above the drift',
  withdrawGivenUp: 'an acquire that is given up is withdrawn',
  withdrawLateGrant: 'a grant that came after its time-out counts as one that must be withdrawn',
  withdrawOverdue: 'a lease lost by its deadline with a request open is withdrawn',
  withdrawToldLost: 'a lease lost by the word of the store with a request open is withdrawn',
  withdrawPredecessor: 'a handover that is given up withdraws the old claim too',
  handoverWaits: 'a claim with an acquire open is not handed over',
  releaseLooksFirst: 'a release looks for open acquires before it is sent, and withdraws after it if there were any',
  windDown: 'a lost claim is not withdrawn before the end of its known term',
  expiryIsFinal: 'an expired claim does not renew',
  expiredGetsNewToken: 'an expired claim that asks again gets a new token',
  tokensOutlivePruning: 'the biggest token outlives the record',
  pruningWaits: 'a record is forgotten only when no request can be on its way',
  fenced: 'the resource has a fence',
  fenceIsAtomic: 'the fence is compared in the same step as the write',
  revokeLetsRun: 'a revoked term runs out',
} as const
export type Guard = keyof typeof GUARDS

/** What may not happen. */
export type Rule =
  | 'two believe'
  | 'believed, not held'
  | 'ghost'
  | 'ended holds again'
  | 'token'
  | 'fence'
  | 'revived'
  | 'overtaken'

export interface Scope {
  readonly ttl: number
  readonly margin: number
  /** Whether a client's clock may lose one tick in any ttl. */
  readonly drift: boolean
  /** For each client: how often it may ask, repeat an acquire, renew, hand over, write. */
  readonly clients: readonly {
    asks: number
    repeats?: number
    renewals?: number
    handovers?: number
    writes?: number
  }[]
  /** How often the network delivers a request twice, the operator revokes, the store forgets the record. */
  readonly duplicates?: number
  readonly revocations?: number
  readonly prunings?: number
}
