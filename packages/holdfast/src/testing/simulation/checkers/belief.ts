// G5: the holder stops in time. Whenever a holder reads that it holds, by true time the store still keeps everybody else out; so
// no two processes ever believe at once. Holds while the clocks drift within the margin, whatever stops or sleeps.
import type { Fact, History, Violation } from '../history.js'
import { firstOf } from './store-view.js'

export function belief({ facts, allows }: History): Violation | undefined {
  if (allows.twoBelieve === true) return undefined
  /** What was once seen to be lost. */
  const over = new Map<string, Fact>()
  return firstOf(facts, (fact, view) => {
    if (fact.is === 'looked' && !fact.held) over.set(fact.claim, fact)
    if (fact.is !== 'looked' || !fact.held) return undefined
    const lost = over.get(fact.claim)
    if (lost !== undefined)
      return { guarantee: 'G5', what: `a lease on ${fact.key} that was lost is held again`, first: lost, second: fact }
    const hold = view.hold(fact.key)
    if (hold?.claim === fact.claim && hold.ended === undefined && fact.atMs < hold.untilMs) return undefined
    const since =
      hold?.claim === fact.claim
        ? `its term ended ${Math.round(fact.atMs - hold.untilMs)} ms ago`
        : `the store has given the key to ${hold?.process}`
    return {
      guarantee: 'G5',
      what: `${fact.process} believes to hold ${fact.key}, but ${since}`,
      first: hold?.ended ?? hold?.extended,
      second: fact,
    }
  })
}
