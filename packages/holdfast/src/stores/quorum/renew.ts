// Renewal counts on a majority. A node that has lost the record, or whose term of the lease ran out while it did not answer, is
// given the lease back afterwards: so that one more node may fail. Only then is that safe: a majority has just renewed, so nobody
// else has one; the lease's token goes along as floor; and the term that was confirmed is not over yet.
import { StoreError } from '../../lease/errors.js'
import type { CallOptions, Granted, Held, LeaseStore, RenewOutcome, RenewRequest } from '../../store/contract.js'
import { learn } from './learning.js'
import { isUnknown, type Reply } from './node.js'
import { checkCall, hasForgotten, limitOf, noMajority, noVote, type Quorum } from './quorum.js'
import { idOf } from './terms.js'
import { judgeRenewal, type RenewVote } from './vote.js'

/** One lease of a renewal, and what the nodes say of it. */
interface Ballot {
  readonly request: RenewRequest
  readonly votes: RenewVote[]
  outcome: RenewOutcome | undefined
  /** Until when a majority has it surely, once it is renewed. */
  untilMs: number
}

/** Renews many leases, with one request to each node. */
export function renew(quorum: Quorum, leases: readonly RenewRequest[], call?: CallOptions): Promise<RenewOutcome[]> {
  if (leases.length === 0) return Promise.resolve([])
  return new Promise((resolve, reject) => {
    checkCall(quorum, call, 'a renewal')
    const sentMs = quorum.clock.monoMs()
    const ballots: Ballot[] = leases.map((request) => ({
      request,
      votes: quorum.nodes.map(() => undefined),
      outcome: undefined,
      untilMs: 0,
    }))
    const replies: Reply<RenewOutcome[]>[] = []
    const limit = limitOf(quorum, call)
    let undecided = ballots.length

    const reply = (place: number, answer: Reply<RenewOutcome[]>) => {
      replies.push(answer)
      for (const [i, ballot] of ballots.entries()) {
        const vote = voteOf(answer, i)
        ballot.votes[place] = vote
        if (ballot.outcome?.is === 'renewed') healWhereLost(quorum, ballot, place, limit.ms)
        if (ballot.outcome !== undefined) continue
        ballot.outcome = judgeRenewal(ballot.votes, quorum.majority)
        if (ballot.outcome === undefined) continue
        undecided--
        settled(quorum, ballot, sentMs, limit.ms)
      }
      const last = replies.length === quorum.nodes.length
      if (last && quorum.servers.doubled !== undefined) reject(quorum.servers.doubled)
      else if (undecided === 0 || last) resolve(ballots.map((ballot) => ballot.outcome ?? unknown(quorum, ballot)))
      if (last) for (const ballot of ballots) withdrawLost(quorum, ballot)
    }
    for (const node of quorum.nodes)
      node.ask('a renewal', limit, (store, options) => renewOn(quorum, store, leases, options), {
        reply: (answer) => reply(node.place, answer),
      })
  })
}

/** What one node says. One that may have forgotten something renews, but has no vote. */
async function renewOn(quorum: Quorum, store: LeaseStore, leases: readonly RenewRequest[], call: CallOptions) {
  const outcomes = await store.renew(leases, call)
  const keptForMs = await hasForgotten(quorum, store, call)
  if (keptForMs === undefined) return outcomes
  const cause = noVote(keptForMs)
  return outcomes.map((outcome): RenewOutcome => (outcome.is === 'renewed' ? { is: 'unknown', cause } : outcome))
}

function voteOf(reply: Reply<RenewOutcome[]>, i: number): RenewVote {
  if (reply.is === 'failed') return { is: 'unknown', cause: reply.error }
  return (
    reply.answer[i] ?? { is: 'unknown', cause: new StoreError('a node left out a renewal', { outcome: 'unknown' }) }
  )
}

/** It is certain now: renewed, and healed where it was lost; or lost. */
function settled(quorum: Quorum, ballot: Ballot, sentMs: number, timeoutMs: number): void {
  const { key, claim } = ballot.request
  const id = idOf(key, claim)
  if (ballot.outcome?.is === 'renewed') {
    const term = quorum.terms.get(id)
    ballot.untilMs = sentMs + ballot.outcome.ttlMs
    if (term?.token !== undefined) term.untilMs = Math.max(term.untilMs, ballot.untilMs)
    for (const { place } of quorum.nodes) healWhereLost(quorum, ballot, place, timeoutMs)
  }
}

/** Gives the lease back to a node that has no record of it. */
function healWhereLost(quorum: Quorum, ballot: Ballot, place: number, timeoutMs: number): void {
  const { request, votes } = ballot
  const vote = votes[place]
  if (vote?.is !== 'lost' || vote.reason !== 'expired') return
  const { key, claim, ttlMs } = request
  const id = idOf(key, claim)
  const { terms, clock, withdrawals, healing } = quorum
  const term = terms.held(id, clock.monoMs())
  if (term === undefined) {
    const heal = () => {
      for (const place of votes.keys()) healWhereLost(quorum, ballot, place, timeoutMs)
    }
    learn(quorum, request, ballot.untilMs, heal)
    return
  }
  if (term.token === undefined || withdrawals.of(id)?.has(place) === true) return
  healing.add(place, () => {
    const now = terms.held(id, clock.monoMs())
    if (now !== term || term.token === undefined || withdrawals.of(id)?.has(place) === true) return undefined
    const { holder, meta, token } = term
    term.open.sent(place)
    const arrived = (reply: Reply<Granted | Held>) => {
      if (reply.is === 'answer' || !isUnknown(reply.error)) term.open.arrived(place)
      // Too late: the lease is over.
      if (reply.is === 'answer' && reply.answer.is === 'granted' && terms.held(id, clock.monoMs()) === undefined)
        withdrawals.add(key, claim, [place], ttlMs)
    }
    const asked = { key, claim, holder, ttlMs, tokenFloor: token, ...(meta === undefined ? {} : { meta }) }
    return { timeoutMs, send: (store, call) => store.acquire(asked, call), arrived }
  })
}

/**
 * A lease that was lost is over for its holder, so the nodes that still keep it need not. But one that was revoked keeps its
 * term: others must not get in before its holder has stopped.
 */
function withdrawLost(quorum: Quorum, { request, votes, outcome }: Ballot): void {
  if (outcome?.is !== 'lost') return
  const { key, claim, ttlMs } = request
  if (outcome.reason === 'revoked') return
  quorum.terms.end(idOf(key, claim))
  const places = votes.flatMap((vote, place) => (vote?.is === 'lost' ? [] : [place]))
  quorum.withdrawals.add(key, claim, places, ttlMs)
}

function unknown(quorum: Quorum, { votes }: Ballot): RenewOutcome {
  const errors = votes.flatMap((vote) =>
    vote?.is === 'unknown'
      ? [vote.cause instanceof StoreError ? vote.cause : new StoreError('a node cannot tell', { outcome: 'unknown' })]
      : [],
  )
  const renewed = votes.filter((vote) => vote?.is === 'renewed').length
  const cause = noMajority(quorum, 'a renewal', errors, 'unknown', `${renewed} renewed`)
  return { is: 'unknown', cause }
}
