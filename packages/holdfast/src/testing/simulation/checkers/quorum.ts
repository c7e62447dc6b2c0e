// G1, G2 and G5 where no single store decides by its clock: several, or everybody who looks. With several, whoever reads that it holds is held by a majority, by
// true time. No two ever believe at once; and tokens rise from one holder to the next.
import type { Fact, History, Violation } from '../history.js'
import { type Hold, StoreView } from './store-view.js'

/** Whoever reads that it holds is held by a majority of the nodes. Not where nodes forget: then see `turns`. */
export function majority({ facts, allows, nodeRates }: History): Violation | undefined {
  if (nodeRates === undefined || allows.twoBelieve === true || allows.forgets === true) return undefined
  const views = nodeRates.map(() => new StoreView())
  for (const fact of facts) {
    if (fact.is === 'looked' && fact.held) {
      const holds = views.map((view) => view.hold(fact.key))
      const saying = holds.filter(
        (hold, node) =>
          hold?.claim === fact.claim && hold.ended === undefined && fact.atMs < trueEndMs(hold, nodeRates[node] ?? 1),
      )
      if (saying.length <= nodeRates.length / 2)
        return {
          guarantee: 'G5',
          what: `${fact.process} believes to hold ${fact.key} (token ${fact.token}), but only ${saying.length} of ${nodeRates.length} nodes say so`,
          first: holds.find((hold) => hold !== undefined && hold.claim !== fact.claim)?.since,
          second: fact,
        }
    }
    if ('node' in fact && fact.node !== undefined) views[fact.node]?.apply(fact)
  }
  return undefined
}

/** When a term ends, by true time. */
const trueEndMs = ({ untilMs, extended }: Hold, rate: number) => extended.atMs + (untilMs - extended.storeMs) / rate

type OfLease = Extract<Fact, { is: 'holds' | 'looked' }>

/** Holders take turns: once a later one has read that it holds, no earlier one reads so again. */
export function turns({ facts, allows, decides }: History): Violation | undefined {
  if (decides === 'store' || allows.twoBelieve === true) return undefined
  const last = new Map<string, OfLease>()
  const over = new Map<string, OfLease>()
  for (const fact of facts) {
    if (fact.is !== 'holds' && !(fact.is === 'looked' && fact.held)) continue
    const later = over.get(fact.claim)
    if (later !== undefined)
      return {
        guarantee: 'G1',
        what: `${fact.process} believes to hold ${fact.key} (token ${fact.token}) after ${later.process} (token ${later.token}) has`,
        first: later,
        second: fact,
      }
    const before = last.get(fact.key)
    if (before !== undefined && before.claim !== fact.claim) over.set(before.claim, fact)
    last.set(fact.key, fact)
  }
  return undefined
}

/** A holder who asked after another had begun to hold has a bigger token. */
export function rising({ facts, decides }: History): Violation | undefined {
  if (decides === 'store') return undefined
  const askedAt = new Map<string, number>()
  /** The first look of each claim, in order of time, by key. */
  const begun = new Map<string, OfLease[]>()
  const known = new Set<string>()
  for (const fact of facts) {
    if (fact.is === 'asked') askedAt.set(fact.call, fact.atMs)
    if (fact.is !== 'holds' || known.has(fact.claim)) continue
    known.add(fact.claim)
    const before = begun.get(fact.key) ?? []
    const askedMs = askedAt.get(fact.call) ?? 0
    const clash = before.find((other) => other.atMs <= askedMs && other.token >= fact.token)
    if (clash !== undefined)
      return {
        guarantee: 'G2',
        what: `token ${fact.token} of ${fact.key} is granted after ${clash.token}`,
        first: clash,
        second: fact,
      }
    begun.set(fact.key, [...before, fact])
  }
  return undefined
}
