// Every interleaving of small quorums: what holds, and that each guard is needed. The way to a broken rule is printed by a test
// that did not expect it.
import { describe, expect, it } from 'vitest'
import { explore } from '../model/explorer.js'
import { quorumModel } from './quorum-model.js'
import { GUARDS, type Guard, type Rule, type Scope } from './quorum-state.js'

const two: Scope = { nodes: 3, ttl: 2, clients: [{ asks: 1 }, { asks: 1 }] }
const loss: Scope = { nodes: 3, ttl: 2, losses: 1, patient: true, clients: [{ asks: 1, renewals: 1 }, { asks: 1 }] }
/** Two nodes lose their data at once: more than is promised. But who is told so does not go on. */
const twoLosses: Scope = { ...loss, ttl: 1, losses: 2, settled: true, clocks: true }
const unequal: Scope = { ...two, tokens: [0, 3, 1], clients: [{ asks: 1 }, { asks: 1 }] }
/** One node and a claim that asks three times: what is late here is its withdrawal. */
const again: Scope = {
  nodes: 1,
  ttl: 2,
  lateEnds: true,
  clients: [{ asks: 1, repeats: 2 }, { asks: 2 }],
}
const ends: Scope = {
  nodes: 2,
  ttl: 1,
  lateEnds: true,
  lateReplies: true,
  clients: [{ asks: 1, repeats: 1 }, { asks: 1 }],
}

const holds: [string, Scope, Rule[]?][] = [
  [
    'requests late, lost and in any order; two clients, one asks twice',
    { ...two, clients: [{ asks: 2 }, { asks: 1 }] },
  ],
  ['replies late as well', { ...two, lateReplies: true }],
  ['a claim that asks again', { ...two, ttl: 1, clients: [{ asks: 1, repeats: 1 }, { asks: 1 }] }],
  ['withdrawals and releases late as well, two nodes', ends],
  [
    'renewal, and healing of a node that the acquire never reached',
    { ...two, clients: [{ asks: 1, renewals: 1 }, { asks: 1 }] },
  ],
  ['nodes that know different tokens', unequal],
  ['a withdrawal that is late for a claim that asks again', again],
  ['two nodes', { ...two, nodes: 2, lateReplies: true }],
  ['four nodes', { ...two, nodes: 4, ttl: 1 }],
  ['one node loses its data, and ballots rise like clocks', { ...loss, clocks: true }],
]

const breaks: [Guard | string, Scope, Guard[], Rule][] = [
  ['remembersEnded', two, ['remembersEnded'], 'ghost'],
  ['withdraws', two, ['withdraws'], 'ghost'],
  ['takesBack', { ...two, clients: [{ asks: 2 }, { asks: 1 }] }, ['takesBack'], 'ghost'],
  ['comparesTheDeadline', two, ['comparesTheDeadline'], 'token'],
  ['writesBack', unequal, ['writesBack'], 'token'],
  ['takesBackVotes', two, ['takesBackVotes'], 'ghost'],
  ['takesBackStrays', ends, ['takesBackStrays'], 'ghost'],
  ['endingHasNoVote', again, ['endingHasNoVote'], 'two believe'],
  ['releasesWhatIsOpen', two, ['releasesWhatIsOpen'], 'ghost'],
  ['neverRevives', twoLosses, ['waitsAfterLoss', 'neverRevives'], 'revived'],
  ['silentInRenewals', { ...loss, clocks: true }, ['silentInRenewals'], 'two believe'],
  ['waitsAfterLoss', loss, ['waitsAfterLoss'], 'two believe'],
  ['a majority of 2 of 4', { ...two, nodes: 4, majority: 2 }, [], 'two believe'],
  ['a majority of 1 of 2', { ...two, nodes: 2, majority: 1 }, [], 'two believe'],
  ['ballots that do not rise, and a loss of data', loss, [], 'token'],
]

describe('a quorum in small scope', () => {
  it.each(holds)(
    'holds: %s',
    (name, scope, allowed = []) => {
      const { states, steps, depth, broken } = explore(quorumModel(scope))
      console.log(`${name}: ${states} states, ${steps} steps, ${depth} deep`)
      expect([...broken].filter(([rule]) => !allowed.includes(rule as Rule))).toEqual([])
    },
    300_000,
  )

  it('holds: two nodes lose their data, and the holder is told', () => {
    const { states, broken } = explore(quorumModel(twoLosses, ['waitsAfterLoss']))
    console.log(`two losses: ${states} states`)
    expect(broken.get('revived')).toBeUndefined()
    expect(broken.has('two believe')).toBe(true) // until then: that is what no quorum can promise
  }, 300_000)

  it.each(breaks)(
    'breaks without: %s',
    (_, scope, off, rule) => {
      const { broken } = explore(quorumModel(scope, off), { until: [rule] })
      expect([...broken.keys()]).toContain(rule)
    },
    300_000,
  )

  it('needs every guard', () => {
    const tried = new Set(breaks.flatMap(([, , off]) => off))
    expect(Object.keys(GUARDS).filter((guard) => !tried.has(guard as Guard))).toEqual([])
  })
})
