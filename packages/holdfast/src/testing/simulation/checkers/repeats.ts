// G3: an acquire repeated by the claim that holds succeeds, so that a retry after a lost reply is safe.
import type { History, Violation } from '../history.js'
import { firstOf, isAnswer } from './store-view.js'

export function repeats({ facts }: History): Violation | undefined {
  return firstOf(facts, (fact, view) => {
    if (fact.is !== 'served' || fact.verb !== 'acquire' || isAnswer(fact, 'granted')) return undefined
    const holder = view.holder(fact.key, fact.storeMs)
    if (holder?.claim !== fact.claim || holder.revoked) return undefined
    return {
      guarantee: 'G3',
      what: 'the claim that holds is refused when it asks again',
      first: holder.extended,
      second: fact,
    }
  })
}
