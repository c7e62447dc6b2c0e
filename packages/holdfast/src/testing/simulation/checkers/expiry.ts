// G4: expiry is final. Only a claim that holds, unexpired and not revoked, is renewed or released; and no renewal is sent for
// a lease that has ended for its holder.
import type { History, Violation } from '../history.js'
import { firstOf, isAnswer } from './store-view.js'

export function expiry({ facts }: History): Violation | undefined {
  const released = new Set<string>()
  return firstOf(facts, (fact, view) => {
    if (fact.is === 'renewed-late')
      return { guarantee: 'G4', what: 'a renewal is sent for a lease that has ended', first: undefined, second: fact }
    if (fact.is !== 'served') return undefined
    const isRenewal = fact.verb === 'renew' && isAnswer(fact, 'renewed')
    const isRelease = fact.verb === 'release' && isAnswer(fact, 'released')
    if (!isRenewal && !isRelease) return undefined
    const holder = view.holder(fact.key, fact.storeMs)
    const mine = holder?.claim === fact.claim && !(isRenewal && holder.revoked)
    // Releasing twice answers `released` twice.
    const again =
      isRelease && (released.has(fact.claim) || view.endOf(fact.key, fact.claim, fact.storeMs) !== undefined)
    if (isRelease) released.add(fact.claim)
    if (mine || again) return undefined
    return {
      guarantee: 'G4',
      what: `a claim that does not hold is ${isRenewal ? 'renewed' : 'released'}`,
      first: view.hold(fact.key)?.ended ?? view.hold(fact.key)?.extended,
      second: fact,
    }
  })
}
