// G10: outcomes reach the caller. What the work returned or threw is what its call ends with, or is carried by the
// LeaseLostError; a loss that was seen before the release is never kept quiet; a shared result is of a run that began after
// its caller had asked.
import type { Fact, History, Violation } from '../history.js'

type Worked = Extract<Fact, { is: 'worked' }>
type Settled = Extract<Fact, { is: 'settled' }>
type Asked = Extract<Fact, { is: 'asked' }>

export function outcomes({ facts }: History): Violation | undefined {
  const asked = new Map<string, { fact: Asked; place: number }>()
  const began = new Map<string, number>()
  const worked = new Map<string, Worked>()
  for (const [place, fact] of facts.entries()) {
    if (fact.is === 'asked') asked.set(fact.call, { fact, place })
    else if (fact.is === 'holds') began.set(fact.call, place)
    else if (fact.is === 'worked') worked.set(fact.call, fact)
    else if (fact.is === 'settled') {
      const ask = asked.get(fact.call)
      const [verb, name = ''] = fact.outcome.split(' ')
      const work = worked.get(name)
      const what =
        faultOf(fact, verb, name, work, ask?.fact) ??
        (ask?.fact.program === 'coalesce' && (began.get(name) ?? Number.POSITIVE_INFINITY) < ask.place
          ? `${fact.call} was given the result of ${name}, which had begun before it asked`
          : undefined) ??
        (ask?.fact.program !== 'coalesce' && name === '' && worked.has(fact.call) && fact.ending !== 'aborted'
          ? `the work of ${fact.call} has ended, but its outcome was lost`
          : undefined)
      if (what !== undefined)
        return { guarantee: 'G10', what, first: work ?? worked.get(fact.call) ?? ask?.fact, second: fact }
    }
  }
  return undefined
}

function faultOf(
  { call, ending, outcome }: Settled,
  verb: string | undefined,
  name: string,
  work: Worked | undefined,
  ask: Asked | undefined,
): string | undefined {
  if (ending === 'strange') return `${call} ended with an error that is not of the family: ${outcome}`
  if (name === '') return undefined
  if (work === undefined) return `${call} ended with the outcome of ${name}, which has not ended`
  if (ask?.program !== 'coalesce' && name !== call) return `${call} ended with the outcome of ${name}`
  if ((verb === 'threw') !== work.threw) return `${call} says ${outcome}, but the work did not`
  // Those who hold without a scope look for themselves.
  const isScope = ask?.program === 'hold' || ask?.program === 'tryHold'
  if (isScope && work.lost !== '' && ending !== 'lost')
    return `${call} kept quiet that its lease was lost: ${work.lost}`
  return undefined
}
