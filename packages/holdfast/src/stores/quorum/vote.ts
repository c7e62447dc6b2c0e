// How replies become a verdict: pure functions over what the nodes have said so far, so that the model checker runs the very
// lines that the store runs. A majority is one of the CONFIGURED number of nodes; a node that does not answer is no vote.

import type { HoldfastError } from '../../lease/errors.js'
import type { Granted, Held, RenewOutcome, StoreLostReason } from '../../store/contract.js'

/** More than half, for even numbers too: 1 of 1, 2 of 2, 2 of 3, 3 of 4, 3 of 5. */
export const majorityOf = (nodes: number): number => Math.floor(nodes / 2) + 1

/** What a node has said to an acquire. */
export type Vote =
  | { readonly is: 'pending' }
  | { readonly is: 'granted'; readonly granted: Granted }
  | { readonly is: 'held'; readonly held: Held }
  /** `applied`: `no`, `maybe`, or `yes` by a node that has no vote for now. */
  | { readonly is: 'failed'; readonly error: HoldfastError; readonly applied: 'no' | 'maybe' | 'yes' }

/** What the votes say. */
export type Verdict =
  /** Wait for more. */
  | { readonly is: 'open' }
  /** A majority has granted one and the same token. */
  | { readonly is: 'granted'; readonly token: number }
  /** A majority has granted, but different tokens: the greatest is written back before any of them counts. */
  | { readonly is: 'raise'; readonly token: number }
  /** No majority can come of it any more. `refused`: the refusals alone see to that. */
  | { readonly is: 'impossible'; readonly refused: boolean }

/** Judges an acquire. */
export function judge(votes: readonly Vote[], majority: number): Verdict {
  const pending = count(votes, 'pending')
  if (pending + count(votes, 'granted') < majority) {
    const [refusals, enough] = [count(votes, 'held'), votes.length - majority + 1]
    // A node that is down fails at once. Whether another holds is for those to say that have not answered yet (G13).
    return refusals < enough && refusals + pending >= enough ? OPEN : { is: 'impossible', refused: refusals >= enough }
  }
  if (count(votes, 'granted') < majority) return OPEN
  let greatest = 0
  for (const vote of votes) {
    if (vote.is !== 'granted') continue
    const { token } = vote.granted
    if (votes.filter((other) => other.is === 'granted' && other.granted.token === token).length >= majority)
      return { is: 'granted', token }
    greatest = Math.max(greatest, token)
  }
  return { is: 'raise', token: greatest }
}

const OPEN: Verdict = { is: 'open' }

/**
 * Whether a contender that got no majority keeps its votes and asks the others once more. When several ask at the same moment
 * and nobody gets a majority, all but one have to give way, or nobody ever gets in: the smallest ballot, which asked first,
 * stays. A holder has the older ballot, so nobody waits for it in this way.
 */
export function isFirst(votes: readonly Vote[], ballot: number, majority: number): boolean {
  const mine = count(votes, 'granted')
  const rivals = votes.flatMap((vote) => (vote.is === 'held' && isRival(vote.held) ? [vote.held] : []))
  if (mine === 0 || mine + rivals.length < majority) return false
  return !isHeldByAnother(votes, majority) && rivals.every(({ token }) => token > ballot)
}

const isRival = ({ because }: Held) => because === 'held' || because === 'reserved'

/** Whether a majority holds for another: one and the same token, which a node that lags behind and grants does not change. */
export function isHeldByAnother(votes: readonly Vote[], majority: number): boolean {
  const tokens = votes.flatMap((vote) => (vote.is === 'held' && isRival(vote.held) ? [vote.held.token] : []))
  return tokens.some((token) => tokens.filter((other) => other === token).length >= majority)
}

/** The refusal that the nodes' refusals come to. */
export function mergeHeld(votes: readonly Vote[], majority: number): Held {
  const refusals = votes.flatMap((vote) => (vote.is === 'held' ? [vote.held] : []))
  const last = [...refusals].sort((a, b) => b.token - a.token)[0]
  // Free for somebody as soon as a majority of nodes is.
  const remaining = refusals.map(({ remainingMs }) => remainingMs).sort((a, b) => a - b)
  return {
    is: 'held',
    because: most(refusals.map(({ because }) => because)) ?? 'held',
    holder: most(refusals.map(({ holder }) => holder).filter((holder) => holder !== '')) ?? '',
    token: last?.token ?? 0,
    remainingMs: remaining[Math.min(majority, remaining.length) - 1] ?? 0,
  }
}

/** Whether the claim replaced was still the holder; undefined when nobody said. `false` only when no majority can say yes. */
export function mergeReplaced(votes: readonly Vote[], majority: number): boolean | undefined {
  const said = votes.flatMap((vote) => {
    const replaced = vote.is === 'granted' ? vote.granted.replaced : vote.is === 'held' ? vote.held.replaced : undefined
    return replaced === undefined ? [] : [replaced]
  })
  if (said.length === 0) return undefined
  return said.filter((replaced) => !replaced).length <= votes.length - majority
}

/** What a node has said to a renewal; undefined: nothing yet. */
export type RenewVote = RenewOutcome | undefined

/** Judges a renewal: a majority has renewed, or so many say `lost` that none can. Undefined: not certain yet. */
export function judgeRenewal(votes: readonly RenewVote[], majority: number): RenewOutcome | undefined {
  const ttls = votes.flatMap((vote) => (vote?.is === 'renewed' ? [vote.ttlMs] : []))
  if (ttls.length >= majority) return { is: 'renewed', ttlMs: Math.min(...ttls) }
  const reasons = votes.flatMap((vote) => (vote?.is === 'lost' ? [vote.reason] : []))
  if (reasons.length > votes.length - majority) return { is: 'lost', reason: whyLost(reasons) }
  return undefined
}

const BY_WEIGHT: readonly StoreLostReason[] = ['revoked', 'taken', 'released', 'expired']

/** The reason that most nodes give; of equally many the one that says more. */
export const whyLost = (reasons: readonly StoreLostReason[]): StoreLostReason =>
  most([...reasons].sort((a, b) => BY_WEIGHT.indexOf(a) - BY_WEIGHT.indexOf(b))) ?? 'expired'

/** How many votes are of this kind. */
export function count(votes: readonly Vote[], is: Vote['is']): number {
  let found = 0
  for (const vote of votes) if (vote.is === is) found++
  return found
}

/** What occurs most often; the first of those that occur equally often. */
export function most<T>(values: readonly T[]): T | undefined {
  const counts = new Map<T, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0]
}
