// G8: waiting is bounded. In the healed world a key for which somebody waits is not left free for longer than the scenario
// allows: wake-ups are only hints, and whoever is first in line but gone costs a poll or two.
import type { History, Violation } from '../history.js'
import { firstOf, isAnswer } from './store-view.js'

export function waiting({ facts, gapMsMax }: History): Violation | undefined {
  let healedMs = Number.POSITIVE_INFINITY
  /** For each key who waits for it, and since when anybody has. */
  const lines = new Map<string, Map<string, { process: string; sinceMs: number }>>()
  /** A process that has passed its lease on believes to hold the key until its own deadline: others of it wait so long. */
  const passed = new Set<string>()
  const leave = (key: string, call: string) => lines.get(key)?.delete(call)

  return firstOf(facts, (fact, view) => {
    if (fact.is === 'phase' && fact.phase === 'liveness') healedMs = fact.atMs
    // Who shares another's run waits for its end.
    if (fact.is === 'asked' && fact.waits && fact.program !== 'coalesce') {
      const line = lines.get(fact.key) ?? new Map()
      lines.set(fact.key, line.set(fact.call, { process: fact.process, sinceMs: fact.atMs }))
    }
    if (fact.is === 'passed') passed.add(`${fact.process} ${fact.key}`)
    if (fact.is === 'settled' || fact.is === 'holds') leave(fact.key, fact.call)
    if (fact.is === 'fault' && fact.fault === 'crash')
      for (const line of lines.values())
        for (const [call, { process }] of line) if (process === fact.process) line.delete(call)
    if (fact.is !== 'served' || fact.verb !== 'acquire' || !isAnswer(fact, 'granted')) return undefined

    const last = view.hold(fact.key)
    const oldest = [...(lines.get(fact.key)?.values() ?? [])].find(
      ({ process }) => !passed.has(`${process} ${fact.key}`),
    )
    if (oldest === undefined || last?.claim === fact.claim) return undefined
    const freeMs = last === undefined ? 0 : (last.ended?.atMs ?? last.untilMs)
    const gapMs = fact.atMs - Math.max(freeMs, oldest.sinceMs, healedMs)
    if (gapMs <= gapMsMax) return undefined
    return {
      guarantee: 'G8',
      what: `${fact.key} was free for ${Math.round(gapMs)} ms although ${oldest.process} waited for it`,
      first: last?.ended ?? last?.extended,
      second: fact,
    }
  })
}
