// G7: a fence that has admitted a token refuses every smaller one, and an equal one of another claim. The plain register beside
// it shows in the same history what happens without: a batch of runs in which it is never overwritten proves nothing.
import type { Fact, History, Violation } from '../history.js'

type Wrote = Extract<Fact, { is: 'wrote' }>

export function fence({ facts }: History): Violation | undefined {
  const last = new Map<string, Wrote>()
  for (const fact of facts) {
    if (fact.is !== 'wrote' || fact.register !== 'fenced') continue
    const before = last.get(fact.key)
    if (fact.admitted) {
      if (before !== undefined && isStale(fact, before))
        return {
          guarantee: 'G7',
          what: `a write with token ${fact.token} landed over one with token ${before.token}`,
          first: before,
          second: fact,
        }
      last.set(fact.key, fact)
    } else if (before === undefined || !isStale(fact, before)) {
      return {
        guarantee: 'G7',
        what: `a write with token ${fact.token} was refused for no reason`,
        first: before,
        second: fact,
      }
    }
  }
  return undefined
}

const isStale = (fact: Wrote, before: Wrote) =>
  fact.token < before.token || (fact.token === before.token && fact.claim !== before.claim)

/** How often an older holder's write has replaced a newer one's where nothing compared tokens. */
export const overwrittenPlain = ({ facts }: History): number =>
  facts.filter((fact) => fact.is === 'wrote' && fact.register === 'plain' && fact.token < fact.over).length
