// G6: no ghosts. A claim that was ended is never granted again; and in the healed world no claim that nobody wants goes on
// holding a key for longer than its withdrawal takes. Left out: claims of processes that have crashed, or ran out of drain
// time, which only their ttl ends; and what a network brought about that repeats requests.
import type { Fact, History, Violation } from '../history.js'
import { firstOf, type Hold, isAnswer, type StoreView } from './store-view.js'

/** How long background withdrawals may go on after the world has healed: their longest delay, a call, and a little. */
const SETTLE_MS = 8_000

export function ghosts({ facts, allows }: History): Violation | undefined {
  const wanted = wantedUntil(facts)
  const excused = excusedProcesses(facts)
  const healedMs = facts.find((fact) => fact.is === 'phase' && fact.phase === 'liveness')?.atMs ?? 0

  /** Calls that have not ended, and the claim last asked with, by process and key: the claim of one who still contends. */
  const open = new Map<string, Set<string>>()
  const newest = new Map<string, string>()
  const known = new Set<string>()
  const contendedUntil = new Map<string, number>()
  const contends = ({ process, key, claim }: Hold) =>
    newest.get(`${process} ${key}`) === claim && (open.get(`${process} ${key}`)?.size ?? 0) > 0

  const judge = (hold: Hold | undefined, endMs: number, second: Fact): Violation | undefined => {
    if (hold === undefined || hold.byCopy || excused.has(hold.process) || allows.ghostsStay === true) return undefined
    // One whose claim was revoked before it heard of its grant takes a new one.
    if (!wanted.has(hold.claim) && contends(hold) && !hold.revoked) return undefined
    const fromMs = Math.max(
      healedMs,
      wanted.get(hold.claim) ?? Math.max(hold.extended.atMs, contendedUntil.get(hold.claim) ?? 0),
    )
    if (endMs - fromMs <= SETTLE_MS) return undefined
    return {
      guarantee: 'G6',
      what: `a claim of ${hold.process} that nobody wants any more holds ${hold.key} for ${Math.round(endMs - fromMs)} ms`,
      first: hold.extended,
      second,
    }
  }

  const ends = new Map<string, Hold>()
  const found = firstOf(facts, (fact, view) => {
    if (fact.is === 'asked') {
      const name = `${fact.process} ${fact.key}`
      open.set(name, (open.get(name) ?? new Set()).add(fact.call))
    }
    if (fact.is === 'settled') {
      const name = `${fact.process} ${fact.key}`
      open.get(name)?.delete(fact.call)
      if (open.get(name)?.size === 0) contendedUntil.set(newest.get(name) ?? '', fact.atMs)
    }
    // A claim that comes again late is not the one last asked with.
    if (fact.is === 'served' && fact.verb === 'acquire' && !known.has(fact.claim)) {
      known.add(fact.claim)
      const name = `${fact.process} ${fact.key}`
      const before = newest.get(name)
      if (before !== undefined && before !== fact.claim) contendedUntil.set(before, fact.atMs)
      newest.set(name, fact.claim)
    }
    if (fact.is === 'phase' && fact.phase === 'end') return lastHolds(ends, view, fact, judge)
    if (fact.is !== 'served') return undefined
    if (fact.verb === 'acquire' && isAnswer(fact, 'granted')) {
      const end = view.endOf(fact.key, fact.claim, fact.storeMs)
      if (end !== undefined)
        return { guarantee: 'G6', what: 'a claim that was ended is granted again', first: end, second: fact }
    }
    const hold = view.hold(fact.key)
    if (hold === undefined) return undefined
    ends.set(fact.key, hold)
    // After the world has healed, the store's clock is true time.
    return hold.ended === undefined ? judge(hold, Math.min(hold.untilMs, fact.atMs), fact) : undefined
  })
  return found
}

function lastHolds(
  holds: ReadonlyMap<string, Hold>,
  view: StoreView,
  end: Fact,
  judge: (hold: Hold | undefined, endMs: number, second: Fact) => Violation | undefined,
): Violation | undefined {
  for (const key of holds.keys()) {
    const hold = view.hold(key)
    const found = hold?.ended === undefined ? judge(hold, Math.min(hold?.untilMs ?? 0, end.atMs), end) : undefined
    if (found !== undefined) return found
  }
  return undefined
}

/** Until when somebody wanted a claim: to the end of its work, or of the time for which the key had to stay taken. */
function wantedUntil(facts: readonly Fact[]): Map<string, number> {
  const until = new Map<string, number>()
  const least = new Map<string, number>()
  for (const fact of facts) {
    // What has been handed to another process is nobody's to withdraw here.
    if (fact.is === 'passed') least.set(fact.claim, Number.POSITIVE_INFINITY)
    // Clocks of processes may be slow by a tenth and more.
    if (fact.is === 'holds')
      least.set(fact.claim, Math.max(least.get(fact.claim) ?? 0, fact.atMs + fact.minHoldMs * 1.5))
    if (fact.is === 'holds') until.set(fact.claim, Number.POSITIVE_INFINITY)
    if (fact.is === 'worked') until.set(fact.claim, Math.max(fact.atMs, least.get(fact.claim) ?? 0))
    if (fact.is === 'passed') until.set(fact.claim, Number.POSITIVE_INFINITY)
  }
  return until
}

function excusedProcesses(facts: readonly Fact[]): Set<string> {
  const excused = new Set<string>()
  for (const fact of facts) {
    // A clock that was set forward ends leases early; the store's term runs on.
    const isGone = fact.is === 'fault' && (fact.fault === 'crash' || fact.fault === 'step')
    const hasGivenUp = fact.is === 'event' && fact.type === 'withdrawal-failed'
    const ranOut = fact.is === 'closed' && fact.about !== 'drained'
    if ((isGone || hasGivenUp || ranOut) && 'process' in fact) excused.add(fact.process)
  }
  return excused
}
