// G9, and the rest of the liveness phase: nothing fails in the background, every call ends, the queues empty, nothing keeps a
// process alive, close() resolves.
import type { History, Violation } from '../history.js'

export function quiet({ facts }: History): Violation | undefined {
  for (const fact of facts) {
    if (fact.is === 'failure') return { guarantee: 'G9', what: fact.about, first: undefined, second: fact }
    if (fact.is === 'left')
      return { guarantee: fact.guarantee, what: `in the end: ${fact.about}`, first: undefined, second: fact }
  }
  return undefined
}
