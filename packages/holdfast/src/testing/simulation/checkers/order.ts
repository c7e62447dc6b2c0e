// Local order: callers of one process who wait for one key get it first come, first served (G8).
import type { Fact, History, Violation } from '../history.js'

export function order({ facts }: History): Violation | undefined {
  const lines = new Map<string, Extract<Fact, { is: 'asked' }>[]>()
  for (const fact of facts) {
    if (fact.is !== 'asked' && fact.is !== 'holds' && fact.is !== 'settled') continue
    const name = `${fact.process} ${fact.key}`
    const line = lines.get(name) ?? []
    if (fact.is === 'asked') {
      // A shared run asks on behalf of all its callers.
      if (fact.waits && fact.program !== 'coalesce') lines.set(name, [...line, fact])
      continue
    }
    const place = line.findIndex(({ call }) => call === fact.call)
    if (place < 0) continue
    const before = line[0]
    if (fact.is === 'holds' && place > 0)
      return {
        guarantee: 'G8',
        what: `${fact.call} got ${fact.key} before ${before?.call}, who asked first`,
        first: before,
        second: fact,
      }
    lines.set(name, line.toSpliced(place, 1))
  }
  return undefined
}
