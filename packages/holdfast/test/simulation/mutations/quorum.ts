// The guards of the quorum behind G1, G2 and G5: a true majority, one token, terms that only a majority prolongs, and no vote for
// a node that may have forgotten.
import type { Mutation } from '../mutations.js'

const vote = 'stores/quorum/vote.js'

export const quorum: readonly Mutation[] = [
  {
    name: 'half-is-a-majority',
    guard: 'two of four nodes are no majority',
    file: vote,
    find: 'Math.floor(nodes / 2) + 1',
    replace: 'Math.ceil(nodes / 2)',
    scenario: 'quorum-even',
    seeds: 30,
    expects: ['G1', 'G5'],
  },
  {
    name: 'no-write-back',
    guard: 'a token counts only when a majority has answered that very one',
    file: vote,
    find: "return { is: 'raise', token: greatest };",
    replace:
      "return { is: 'granted', token: Math.min(...votes.flatMap((one) => (one.is === 'granted' ? [one.granted.token] : []))) };",
    scenario: 'quorum',
    seeds: 60,
    expects: ['G2', 'G7'],
  },
  {
    name: 'one-node-renews',
    guard: 'a renewal counts when a majority has renewed',
    file: vote,
    find: 'if (ttls.length >= majority)',
    replace: 'if (ttls.length >= 1)',
    scenario: 'quorum',
    seeds: 30,
    expects: ['G1', 'G5'],
  },
  {
    name: 'forgetful-node-votes',
    guard: 'a node that may have forgotten who held the key has no vote',
    file: 'stores/quorum/quorum.js',
    find: 'return keptForMs >= waitAfterLossMs ? undefined : keptForMs;',
    replace: 'return undefined;',
    scenario: 'quorum-loss',
    seeds: 60,
    expects: ['G1', 'G5'],
  },
  {
    name: 'withdrawn-vote-counts',
    guard: 'a node on which the claim is being withdrawn has no vote for it',
    file: 'stores/quorum/withdrawals.js',
    find: 'return this.#open.get(id);',
    replace: 'return undefined;',
    scenario: 'quorum',
    seeds: 100,
    expects: ['G1', 'G5', 'G6'],
  },
  {
    name: 'no-withdrawal-on-silent-nodes',
    guard: 'what was given up is withdrawn on every node, answered or not',
    file: 'stores/quorum/acquire.js',
    find: 'withdrawals.add(key, claim, places, ttlMs);',
    replace: '',
    scenario: 'quorum',
    seeds: 60,
    expects: ['G6', 'G8'],
  },
]
