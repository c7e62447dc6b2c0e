// What the verbs of one quorum share: its nodes, its time, and what this process remembers. And one round of questions, which
// ends as soon as the answers are certain.
import type { Clock } from '../../lease/clock.js'
import { type HoldfastError, StoreError } from '../../lease/errors.js'
import type { Random } from '../../lease/random.js'
import type { CallOptions, LeaseStore } from '../../store/contract.js'
import type { Attempts } from './acquire.js'
import type { Healing } from './healing.js'
import type { Learning } from './learning.js'
import { type Node, type Reply, type Servers, TimeLimit } from './node.js'
import type { Ballots, Terms } from './terms.js'
import type { Withdrawals } from './withdrawals.js'

export interface Quorum {
  readonly nodes: readonly Node[]
  readonly majority: number
  readonly clock: Clock
  readonly random: Random
  readonly nodeTimeoutMs: number
  /** A node that may have forgotten something less than this long ago has no vote. 0: not asked. */
  readonly waitAfterLossMs: number
  readonly servers: Servers
  readonly terms: Terms
  readonly ballots: Ballots
  readonly withdrawals: Withdrawals
  readonly healing: Healing
  readonly learning: Learning
  readonly attempts: Attempts
}

/** How long a node may take, so that `rounds` of them fit into the call. */
export function nodeMs(quorum: Quorum, call: CallOptions | undefined, rounds: number): number {
  const partMs = (call?.timeoutMs ?? Number.POSITIVE_INFINITY) / (rounds + 0.1)
  return Math.max(1, Math.min(quorum.nodeTimeoutMs, partMs))
}

/** The time of a call of one round. */
export const limitOf = (quorum: Quorum, call: CallOptions | undefined): TimeLimit =>
  new TimeLimit(quorum.clock, nodeMs(quorum, call, 1))

/** The nodes' replies so far, by place. */
export type Replies<T> = readonly (Reply<T> | undefined)[]

/** How one round of questions is asked and judged. */
export interface Round<T, V> {
  readonly what: string
  send(store: LeaseStore, call: CallOptions, place: number): Promise<T>
  /** Looks at the replies after each. Undefined: not certain yet; at the end that means that it cannot be told. */
  judge(replies: Replies<T>): V | undefined
  /** Called once every node has replied or run out of time, with the verdict if there was one. */
  end?(replies: Replies<T>, verdict: V | undefined): void
}

/** Asks every node at once. Rejects when the replies of all do not make it certain. */
export function round<T, V>(quorum: Quorum, call: CallOptions | undefined, how: Round<T, V>): Promise<V> {
  const replies: (Reply<T> | undefined)[] = quorum.nodes.map(() => undefined)
  let left = quorum.nodes.length
  let verdict: V | undefined
  return new Promise<V>((resolve, reject) => {
    const limit = limitOf(quorum, call)
    for (const node of quorum.nodes) {
      node.ask(how.what, limit, (store, options) => how.send(store, options, node.place), {
        reply(reply) {
          replies[node.place] = reply
          left--
          if (verdict === undefined) {
            verdict = how.judge(replies)
            if (verdict !== undefined) resolve(verdict)
            else if (left === 0) reject(noMajority(quorum, how.what, errorsOf(replies)))
          }
          if (left === 0) how.end?.(replies, verdict)
        },
      })
    }
  })
}

/** The answers among the replies. */
export const answersOf = <T>(replies: Replies<T>): T[] =>
  replies.flatMap((reply) => (reply?.is === 'answer' ? [reply.answer] : []))

/** The errors among the replies. */
export const errorsOf = <T>(replies: Replies<T>): HoldfastError[] =>
  replies.flatMap((reply) => (reply?.is === 'failed' ? [reply.error] : []))

/** Why there is no verdict. What is not trouble with a store, such as a name that one refuses, is told as it is. */
export function noMajority(
  quorum: Quorum,
  what: string,
  errors: readonly HoldfastError[],
  outcome: 'none' | 'unknown' = errors.some((error) => error instanceof StoreError && error.outcome === 'unknown')
    ? 'unknown'
    : 'none',
  said = '',
): HoldfastError {
  const refused = errors.find((error) => !(error instanceof StoreError))
  if (refused !== undefined) return refused
  const why = [...(said === '' ? [] : [said]), ...errors.map(({ message }) => message)].join('; ')
  // So many that the others alone are no majority, until somebody changes something there.
  const lasting = errors.filter((error) => error instanceof StoreError && error.lasting).length
  return new StoreError(
    `no majority (${quorum.majority}) of the ${quorum.nodes.length} nodes of the quorum for ${what}: ${why}`,
    {
      outcome,
      lasting: lasting > quorum.nodes.length - quorum.majority,
      cause: errors.length === 1 ? errors[0] : new AggregateError(errors, why),
    },
  )
}

/** Throws what makes a call pointless: two nodes that are one server, or a signal that has aborted already. */
export function checkCall(quorum: Quorum, call: CallOptions | undefined, what: string): void {
  if (quorum.servers.doubled !== undefined) throw quorum.servers.doubled
  if (call?.signal?.aborted === true)
    throw new StoreError(`${what} was aborted before it was sent`, { outcome: 'none', cause: call.signal.reason })
}

/**
 * For how long a node has kept everything, if that is too short for it to have a vote (`waitAfterLossMs`). Asked after its
 * answer: what the node has kept since then was there when it answered. Its votes from before the loss are void, for whoever
 * counted them; so until those are over it must vote neither for another nor for the prolonging of a lease.
 */
export async function hasForgotten(
  { waitAfterLossMs }: Quorum,
  store: LeaseStore,
  call: CallOptions,
): Promise<number | undefined> {
  if (waitAfterLossMs === 0 || store.keptForMs === undefined) return undefined
  const keptForMs = await store.keptForMs(call)
  return keptForMs >= waitAfterLossMs ? undefined : keptForMs
}

/** Why a node's answer is no vote. */
export const noVote = (keptForMs: number): StoreError =>
  new StoreError(`a node has no vote yet: it has kept what was written to it for ${Math.round(keptForMs)} ms only`, {
    outcome: 'none',
  })
