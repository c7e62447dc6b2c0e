// What the model of a quorum is about: its guards and rules, the size of a world, and the shape of its states.
import type { Held, RenewOutcome } from '../../src/store/contract.js'
import type { Vote } from '../../src/stores/quorum/vote.js'
import type { KeyState } from '../model/key-store.js'

export const GUARDS = {
  remembersEnded: 'a claim that was withdrawn is remembered by the node',
  withdraws: 'an acquire that is given up is withdrawn on every node',
  takesBack: 'a vote that comes after the refusal is taken back',
  takesBackVotes: 'a vote of a node that lags behind is taken back where a majority holds for another',
  takesBackStrays: 'and so is one for an earlier attempt, when the later one is refused',
  comparesTheDeadline: 'a grant counts only while its deadline is not over',
  writesBack: 'the greatest token is written back before a grant counts',
  endingHasNoVote: 'a node on which the claim is being withdrawn has no vote for it',
  releasesWhatIsOpen: 'a release waits, or withdraws, where an acquire is still on its way',
  neverRevives: 'a lease that a majority has lost is not given back to anybody',
  waitsAfterLoss: 'a node that lost its data has no vote in grants for one ttl',
  silentInRenewals: 'nor in renewals',
} as const
export type Guard = keyof typeof GUARDS

export type Rule = 'two believe' | 'token' | 'ghost' | 'revived'

export interface Scope {
  readonly nodes: number
  /** Default: more than half. */
  readonly majority?: number
  readonly ttl: number
  /** For each client: how often it may ask anew, ask again with the same claim, and renew. */
  readonly clients: readonly { asks: number; repeats?: number; renewals?: number }[]
  /** How often a node may lose its data. */
  readonly losses?: number
  /** Ballots rise with every question, as clocks do. Otherwise they are all 0: the worst that clocks can do. */
  readonly clocks?: boolean
  /** Token of the nodes at the start, where they differ. */
  readonly tokens?: readonly number[]
  /** Replies are late without bound too. Otherwise they are heard at once, but for so many that are lost. */
  readonly lateReplies?: boolean
  readonly lostReplies?: number
  /** Withdrawals and releases are late without bound too. Otherwise they arrive at once: what is late then are the acquires. */
  readonly lateEnds?: boolean
  /** Clients give up only when their time is over. */
  readonly patient?: boolean
  /** Every acquire is answered by all nodes before anybody does anything else. */
  readonly settled?: boolean
}

export type Answer =
  | { readonly is: 'granted'; readonly token: number }
  | { readonly is: 'silent' }
  | { readonly is: 'held'; readonly because: Held['because']; readonly token: number }

export interface Message {
  readonly kind: 'acquire' | 'heal' | 'renew' | 'release' | 'withdraw' | 'answer' | 'healed' | 'renewed'
  readonly client: number
  readonly claim: string
  /** Which attempt, or which renewal. */
  readonly n: number
  readonly floor: number
  readonly answer?: Answer
  readonly outcome?: RenewOutcome
  readonly text: string
}

/** A node, and all that is between it and the clients. */
export interface Column {
  readonly node: KeyState
  /** For how long it has no vote. */
  readonly silent: number
  readonly messages: readonly Message[]
  readonly votes: readonly Vote[]
  readonly renewals: readonly (RenewOutcome | undefined)[]
  /** Whether the node's vote for an earlier attempt of a client came while a later one was under way. */
  readonly stray: readonly boolean[]
}

export interface Client {
  readonly is: 'idle' | 'asking' | 'refused' | 'held' | 'lost'
  readonly claim: string
  /** The claim before, when it was lost by its deadline: nodes keep that for what is left of its term. */
  readonly lapsed: string
  /** The claim before, when it was refused. */
  readonly refused: string
  readonly asks: number
  readonly repeats: number
  readonly renewals: number
  readonly n: number
  readonly ballot: number
  /** What is left of the deadline of the attempt, or of the lease. */
  readonly left: number
  readonly token: number
  /** What is left of the deadline of the renewal that is under way; 0: none is. */
  readonly renewing: number
  /** The renewal was confirmed: nodes that say `lost` now are healed. */
  readonly confirmed: boolean
  /** Another had been granted the lease when the renewal was sent. */
  readonly overtaken: boolean
}

export interface State {
  readonly columns: readonly Column[]
  readonly clients: readonly Client[]
  readonly losses: number
  /** The greatest token that counted, and whose it was. */
  readonly greatest: number
  readonly whose: string
  readonly asked: number
  readonly lostReplies: number
}
