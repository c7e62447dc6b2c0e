// Two-stage locking: of the callers of one process only the first in line contends at the store, so one claim's requests are
// over before the next claim's begin.
import type { History, Served, Violation } from '../history.js'

export function contenders({ facts }: History): Violation | undefined {
  /** For each process and key the claims in the order in which they were first sent, with their last request so far. */
  const first = new Map<string, Served>()
  const last = new Map<string, Served>()
  for (const fact of facts) {
    if (fact.is !== 'served' || fact.verb !== 'acquire' || fact.copy || fact.told === true) continue
    const name = `${fact.process} ${fact.key} ${fact.claim}`
    if (fact.sent <= (first.get(name)?.sent ?? Number.POSITIVE_INFINITY)) first.set(name, fact)
    if (fact.sent >= (last.get(name)?.sent ?? 0)) last.set(name, fact)
  }
  const newest = new Map<string, Served>()
  for (const [name, begin] of [...first].sort(([, a], [, b]) => a.sent - b.sent)) {
    const stage = `${begin.process} ${begin.key}`
    const before = newest.get(stage)
    if (before !== undefined && before.sent > begin.sent)
      return {
        guarantee: 'G8',
        what: `${begin.process} asks for ${begin.key} with two claims at a time`,
        first: begin,
        second: before,
      }
    const end = last.get(name)
    if (end !== undefined) newest.set(stage, end)
  }
  return undefined
}
