// G2: each change of hands yields a bigger token. A renewal, or an acquire repeated by the holder, never changes it (G3).
import type { History, Violation } from '../history.js'
import { firstOf, isAnswer } from './store-view.js'

export function tokens({ facts }: History): Violation | undefined {
  return firstOf(facts, (fact, view) => {
    if (fact.is !== 'served' || fact.verb !== 'acquire' || !isAnswer(fact, 'granted')) return undefined
    const { token } = fact.answer as { token: number }
    const holder = view.holder(fact.key, fact.storeMs)
    const isRepeat = holder?.claim === fact.claim
    if (isRepeat && token !== holder.token)
      return {
        guarantee: 'G3',
        what: `a repeated acquire changed token ${holder.token} to ${token}`,
        first: holder.since,
        second: fact,
      }
    const biggest = view.biggest(fact.key)
    if (isRepeat || biggest === undefined || token > biggest.token) return undefined
    return {
      guarantee: 'G2',
      what: `token ${token} is granted after ${biggest.token}`,
      first: biggest.fact,
      second: fact,
    }
  })
}
