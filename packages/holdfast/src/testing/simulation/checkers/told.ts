// G5: the abort event comes in time. While a process runs, the work under a lease that can expire at the store has been told
// to stop by then; after a pause or a sleep, within one look at the clocks.
import type { Fact, History, Violation } from '../history.js'
import { firstOf } from './store-view.js'

/** The longest time between two looks, on a slow clock, and a little. */
const lookMs = ({ marginMs }: Holds) => Math.min(250, marginMs / 2) * 1.2 + 20

type Holds = Extract<Fact, { is: 'holds' }>

export function told({ facts, allows }: History): Violation | undefined {
  if (allows.twoBelieve === true) return undefined
  const working = new Map<string, Holds>()
  // As in the checker of belief.
  const passed = new Set<string>()
  const still = new Map<string, number>()
  return firstOf(facts, (fact, view) => {
    if (fact.is === 'fault' && (fact.fault === 'pause' || fact.fault === 'sleep'))
      still.set(fact.process, Math.max(still.get(fact.process) ?? 0, fact.untilMs ?? 0))
    if (fact.is === 'fault' && fact.fault === 'crash')
      for (const [claim, { process }] of working) if (process === fact.process) working.delete(claim)
    // The world heals all that stands still.
    if (fact.is === 'phase') for (const [process, untilMs] of still) still.set(process, Math.min(untilMs, fact.atMs))
    if (fact.is === 'passed') passed.add(fact.claim)
    if (fact.is === 'holds' && fact.listens && !passed.has(fact.claim)) working.set(fact.claim, fact)
    if (fact.is === 'told' || fact.is === 'worked') working.delete(fact.claim)
    for (const holds of working.values()) {
      const hold = view.hold(holds.key)
      const endMs = hold?.claim === holds.claim ? (hold.ended?.atMs ?? hold.untilMs) : (hold?.since.atMs ?? 0)
      if (fact.atMs <= Math.max(endMs, still.get(holds.process) ?? 0) + lookMs(holds)) continue
      return {
        guarantee: 'G5',
        what: `${holds.process} was not told that its lease on ${holds.key} (token ${holds.token}) had ended`,
        first: hold?.ended ?? hold?.extended,
        second: fact,
      }
    }
    return undefined
  })
}
