// How a lease ends at a quorum: given back, withdrawn, or revoked by an operator. Each goes to every node and counts when a
// majority has confirmed it; on the other nodes it goes on in the background.
import { StoreError } from '../../lease/errors.js'
import type { CallOptions, Grant, LeaseRecord, ReleaseOutcome } from '../../store/contract.js'
import { answersOf, checkCall, type errorsOf, limitOf, noMajority, type Quorum, type Replies, round } from './quorum.js'
import { heldBy, merge } from './records.js'
import { idOf } from './terms.js'
import { whyLost } from './vote.js'

export async function release(quorum: Quorum, grant: Grant, call?: CallOptions): Promise<ReleaseOutcome> {
  checkCall(quorum, call, 'a release')
  const { key, claim } = grant
  const id = idOf(key, claim)
  const { attempts, terms, withdrawals, nodes, majority } = quorum
  const open = terms.get(id)?.open
  attempts.cancel(id)
  terms.end(id)
  return round<ReleaseOutcome, ReleaseOutcome>(quorum, call, {
    what: 'a release',
    async send(store, options, place) {
      // A release that overtakes an acquire would not be remembered by the node. So it waits until the acquire has been
      // answered; if that takes too long the claim is withdrawn there, and refused when it arrives.
      if (open?.has(place) === true) {
        await open.settled(place)
        if (withdrawals.of(id)?.has(place) === true) return { is: 'released' }
      }
      return store.release(grant, options)
    },
    judge(replies) {
      const answers = answersOf(replies)
      if (answers.filter(({ is }) => is === 'released').length >= majority) return { is: 'released' }
      const reasons = answers.flatMap((answer) => (answer.is === 'lost' ? [answer.reason] : []))
      if (reasons.length > nodes.length - majority) return { is: 'lost', reason: whyLost(reasons) }
      return undefined
    },
    // Without a verdict the caller withdraws, on every node.
    end: (replies, verdict) => verdict !== undefined && withdrawals.add(key, claim, failedOf(replies), 0),
  })
}

export function withdraw(quorum: Quorum, key: string, claim: string, call?: CallOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    checkCall(quorum, call, 'a withdrawal')
    const id = idOf(key, claim)
    const { attempts, terms, withdrawals, nodes, majority } = quorum
    attempts.cancel(id)
    terms.end(id)
    const limit = limitOf(quorum, call)
    const failed: { place: number; error: ReturnType<typeof errorsOf>[number] }[] = []
    let confirmed = 0
    for (const { place } of nodes) withdrawals.begin(id, place)
    for (const node of nodes) {
      node.ask('a withdrawal', limit, (store, options) => store.withdraw(key, claim, options), {
        reply(reply) {
          if (reply.is === 'failed') failed.push({ place: node.place, error: reply.error })
          else {
            confirmed++
            withdrawals.done(id, node.place)
          }
          // A majority that refuses the claim leaves it too few nodes ever to be granted.
          if (confirmed === majority) resolve()
          if (confirmed + failed.length < nodes.length) return
          for (const { place } of failed) withdrawals.done(id, place)
          const errors = failed.map(({ error }) => error)
          if (confirmed >= majority)
            withdrawals.add(
              key,
              claim,
              failed.map(({ place }) => place),
              0,
            )
          else reject(noMajority(quorum, 'a withdrawal', errors, undefined, `${confirmed} confirmed`))
        },
      })
    }
  })
}

export async function revoke(
  quorum: Quorum,
  key: string,
  options: { readonly force?: boolean },
  call?: CallOptions,
): Promise<LeaseRecord | null> {
  checkCall(quorum, call, 'a revocation')
  const { nodes, majority, withdrawals } = quorum
  const { record } = await round<LeaseRecord | null, { record: LeaseRecord | null }>(quorum, call, {
    what: 'a revocation',
    send: (store, given) => store.revoke(key, options, given),
    judge(replies) {
      const answers = answersOf(replies)
      const { claim, most } = heldBy(answers)
      const left = nodes.length - answers.length
      if (claim !== undefined && most >= majority) return { record: merge(key, answers, majority) }
      return most + left < majority ? { record: null } : undefined
    },
    end(replies, verdict) {
      // Freed by force: also where it could not be told so.
      if (options.force === true && verdict?.record)
        withdrawals.add(key, verdict.record.claim, failedOf(replies), verdict.record.ttlMs)
    },
  })
  return record
}

const failedOf = (replies: Replies<unknown>): number[] =>
  replies.flatMap((reply, place) => (reply?.is === 'failed' ? [place] : []))

/** After the end of a store nothing of it works any more. */
export const closedError = (): StoreError => new StoreError('the quorum store is closed', { outcome: 'none' })
