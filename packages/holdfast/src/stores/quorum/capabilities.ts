// What a quorum can do follows from what its nodes can, and from their number.
import type { StoreCapabilities } from '../../store/contract.js'
import { majorityOf } from './vote.js'

/** What every node keeps; and from three nodes on, what the loss of a minority of them leaves standing. */
const common = <T extends string>(lists: readonly (readonly T[])[], extra: readonly T[]): T[] => {
  const shared = (lists[0] ?? []).filter((one) => lists.every((list) => list.includes(one)))
  return [...new Set([...shared, ...extra])]
}

export function quorumCapabilities(nodes: readonly StoreCapabilities[]): StoreCapabilities {
  const clocks = new Set(nodes.map(({ clock }) => clock))
  const [only = 'server'] = clocks
  const wakeUps = (kind: StoreCapabilities['wakeUp'][]) => nodes.filter(({ wakeUp }) => kind.includes(wakeUp)).length
  const majority = majorityOf(nodes.length)
  const mayLoseOne = majority < nodes.length
  return {
    clock: clocks.size === 1 ? only : 'server',
    tokens: 'microseconds',
    holdSurvives: common(
      nodes.map(({ holdSurvives }) => holdSurvives),
      mayLoseOne ? ['fail-over'] : [],
    ),
    // A loss of data at a majority is survived only as far as the clocks of the clients agree: not promised here.
    tokensSurvive: common(
      nodes.map(({ tokensSurvive }) => tokensSurvive),
      mayLoseOne ? ['fail-over'] : [],
    ).filter((what) => what !== 'data loss'),
    ttlMsMin: Math.max(...nodes.map(({ ttlMsMin }) => ttlMsMin)),
    ttlMsGrain: Math.max(...nodes.map(({ ttlMsGrain }) => ttlMsGrain)),
    wakeUp: wakeUps(['push']) >= majority ? 'push' : wakeUps(['push', 'look']) >= majority ? 'look' : 'poll',
    // Each node orders for itself, and two orders are none.
    fair: false,
    tokenFloor: true,
    keyBytesMax: Math.min(...nodes.map(({ keyBytesMax }) => keyBytesMax)),
  }
}
