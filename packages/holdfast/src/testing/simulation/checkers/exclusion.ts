// G1: by the clock that decides, at most one claim holds a key.
import type { History, Violation } from '../history.js'
import { firstOf, isAnswer } from './store-view.js'

export function exclusion({ facts }: History): Violation | undefined {
  return firstOf(facts, (fact, view) => {
    if (fact.is !== 'served' || fact.verb !== 'acquire' || !isAnswer(fact, 'granted')) return undefined
    const holder = view.holder(fact.key, fact.storeMs)
    if (holder === undefined || holder.claim === fact.claim || holder.claim === fact.replaces) return undefined
    return {
      guarantee: 'G1',
      what: `${fact.key} is granted to ${fact.process} while ${holder.process} holds it for another ${Math.round(holder.untilMs - fact.storeMs)} ms`,
      first: holder.extended,
      second: fact,
    }
  })
}
