// What a run, or a batch of runs, came to: counts of what happened, and facts as lines that people can read.
import type { Fact, History } from './history.js'

/** How often what happened. */
export type Histogram = Record<string, number>

/** Counts what happened: grants, refusals, ends, faults that took effect, events. */
export function countFacts({ facts }: History): Histogram {
  const counts: Histogram = {}
  for (const fact of facts) for (const name of namesOf(fact)) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

function namesOf(fact: Fact): string[] {
  switch (fact.is) {
    case 'served': {
      const answer = fact.answer as { is?: string; because?: string; reason?: string } | null | undefined
      const detail = answer?.because ?? answer?.reason
      if (fact.told === true) return ['store: turn told']
      return [
        `store: ${fact.verb}${answer?.is === undefined ? '' : ` ${answer.is}`}${detail === undefined ? '' : ` (${detail})`}`,
      ]
    }
    case 'fault':
      return ['faults', `fault: ${fact.fault}`]
    case 'holds':
      return ['leases held']
    case 'looked':
      return [fact.held ? 'looks that said held' : 'looks that said lost']
    case 'worked':
      return fact.lost === '' ? [] : [`lost: ${fact.lost}`]
    case 'settled':
      return [`call: ${fact.ending}`]
    case 'wrote':
      if (!fact.admitted) return ['fenced writes refused']
      return fact.register === 'plain' && fact.token < fact.over
        ? ['plain writes that overwrote a newer one']
        : [`${fact.register} writes`]
    case 'event':
      return [`event: ${fact.type}`]
    default:
      return []
  }
}

/** One fact as one line: when, who, what. */
export function describeFact(fact: Fact): string {
  const { is, atMs, ...rest } = fact
  const { process = '', answer, ...others } = rest as { process?: string; answer?: unknown }
  const details = Object.entries(others).map(([name, value]) => `${name}=${short(value)}`)
  const answered = answer === undefined ? [] : [`-> ${short(answer)}`]
  return [atMs.toFixed(3).padStart(12), process.padEnd(3), is.padEnd(8), ...details, ...answered].join(' ')
}

/** Claims are long and told apart by their start. */
function short(value: unknown): string {
  if (typeof value === 'object' && value !== null)
    return Object.entries(value)
      .filter(([name]) => name !== 'is')
      .reduce((text, [name, part]) => `${text} ${name}=${short(part)}`, 'is' in value ? String(value.is) : '')
      .trim()
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : value.toFixed(3)
  const text = String(value)
  return text.length > 28 && !text.includes(' ') ? `${text.slice(0, 8)}…` : text
}

/** A fingerprint of a history: the same seed gives the same one, on every machine and every version of Node. */
export function fingerprint({ facts }: History): string {
  let low = 0x811c9dc5
  let high = 0x2545f491
  for (const fact of facts) {
    const text = JSON.stringify(fact)
    for (let i = 0; i < text.length; i++) {
      low = Math.imul(low ^ text.charCodeAt(i), 0x01000193)
      high = Math.imul(high ^ low ^ (high >>> 13), 0x85ebca6b)
    }
  }
  return [high, low].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('')
}
