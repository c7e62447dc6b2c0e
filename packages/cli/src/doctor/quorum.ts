// `doctor` on a quorum: each node in turn, and what only shows when they are seen together.
import type { QuorumStoreOptions } from 'holdfast/quorum'
import { messageOf } from '../exit.js'
import type { Connection } from '../stores/scheme.js'
import type { ClockReading } from './clock.js'
import type { Finding } from './finding.js'

/** A spread of clocks beyond this costs every grant a second round. */
const SPREAD_MS = 1_000

interface Visited {
  readonly where: string
  readonly findings: readonly Finding[]
  readonly id: string | undefined
  readonly clock: ClockReading | undefined
  readonly reached: boolean
}

export async function doctorOfQuorum(nodes: readonly Connection[], options: QuorumStoreOptions): Promise<Finding[]> {
  await Promise.allSettled(nodes.map((node) => node.ready?.()))
  // One after the other: what is measured should not be how they get in each other's way.
  const visits: Visited[] = []
  for (const [place, node] of nodes.entries()) visits.push(await visit(node, place))
  const findings = [
    sizeFinding(visits),
    ...sameFindings(visits),
    ...spreadFinding(visits),
    lossFinding(options, visits),
  ]
  return [...findings, ...visits.flatMap(({ findings }) => findings)]
}

async function visit(node: Connection, place: number): Promise<Visited> {
  const where = `node ${place}`
  try {
    await node.ready?.()
    const findings = ((await node.doctor?.()) ?? []).map((found) => ({
      ...found,
      where: found.where === undefined ? where : `${where}, ${found.where}`,
    }))
    const address = { where, what: 'node', read: node.shown, level: 'ok', touches: [], advice: '' } as const
    return {
      where,
      findings: [address, ...findings],
      id: await node.store.serverId?.(),
      clock: await node.clock?.(),
      reached: true,
    }
  } catch (error) {
    const advice = 'it has no vote until it is back'
    const finding: Finding = {
      where,
      what: 'node',
      read: messageOf(error),
      level: 'warning',
      touches: ['holdSurvives'],
      advice,
    }
    return { where, findings: [finding], id: undefined, clock: undefined, reached: false }
  }
}

function sizeFinding(visits: readonly Visited[]): Finding {
  const count = visits.length
  const majority = Math.floor(count / 2) + 1
  const reached = visits.filter((visited) => visited.reached).length
  const may = count - majority
  const base = {
    what: 'nodes',
    read: `${count}, ${reached} of them answer; ${may === 0 ? 'none' : may} may fail`,
    touches: ['G13', 'holdSurvives'],
  }
  if (reached < majority)
    return {
      ...base,
      level: 'problem',
      advice: `a majority (${majority}) does not answer: no lease is granted or renewed`,
    }
  if (may === 0)
    return {
      ...base,
      level: 'warning',
      advice: 'every node has to answer, so this fails more often than one server: list three or five',
    }
  if (reached < count && reached === majority)
    return { ...base, level: 'warning', advice: 'when one more fails, no lease is granted or renewed' }
  if (count % 2 === 0)
    return { ...base, level: 'note', advice: `an even number bears no more failures than ${count - 1} nodes` }
  return { ...base, level: 'ok', advice: '' }
}

function sameFindings(visits: readonly Visited[]): Finding[] {
  const findings: Finding[] = []
  for (const [place, { where, id }] of visits.entries()) {
    const other = visits.slice(0, place).find((before) => before.id !== undefined && before.id === id)
    if (other === undefined) continue
    findings.push({
      what: 'same server',
      read: `${other.where} and ${where}`,
      level: 'problem',
      touches: ['G1'],
      advice:
        'they are one server, or a server and its replica: counted twice it makes no majority, so the quorum refuses to work; list servers that fail apart',
    })
  }
  return findings
}

function spreadFinding(visits: readonly Visited[]): Finding[] {
  const clocks = visits.flatMap(({ clock }) => clock ?? [])
  if (clocks.length < 2) return []
  const offsets = clocks.map(({ offsetMs }) => offsetMs)
  const spread = Math.max(...offsets) - Math.min(...offsets)
  const error = 2 * Math.max(...clocks.map(({ errorMs }) => errorMs))
  const base = {
    what: 'spread of clocks',
    read: `${spread.toFixed(1)} ms, give or take ${error.toFixed(1)} ms`,
    touches: ['A2', 'G2'],
  }
  if (spread - error <= SPREAD_MS) return [{ ...base, level: 'ok', advice: '' }]
  const advice =
    'no promise depends on it; but nodes that are ahead answer greater tokens, which costs a second round for each grant, and a clock that is put right by a step frees leases early: keep all by NTP'
  return [{ ...base, level: 'warning', advice }]
}

function lossFinding({ waitAfterLossMs = 0 }: QuorumStoreOptions, visits: readonly Visited[]): Finding {
  const base = { what: 'waitAfterLossMs', read: `${waitAfterLossMs} ms`, touches: ['G1', 'A3'] }
  if (waitAfterLossMs > 0) return { ...base, level: 'ok', advice: '' }
  const forgetful = visits.flatMap(({ where, findings }) =>
    findings.some(({ what, level }) => what === 'persistence' && level !== 'ok') ? [where] : [],
  )
  if (forgetful.length === 0) return { ...base, level: 'ok', advice: '' }
  const advice = `${forgetful.join(', ')} may forget a vote in a restart, and then a lease that a bare majority held can be granted again: waitAfterLossMs=TTL in the URL (the longest ttl that anybody uses), or appendfsync always on every node`
  return { ...base, level: 'warning', advice }
}
