// What stands around the servers: the sentinels that promote a replica, the Cluster that shares the slots.
import { CliError, messageOf } from '../exit.js'
import { roughDuration } from '../text.js'
import type { Finding } from './finding.js'
import { fieldsOf, isForbidden, linesOf, type Send, type ServerReading } from './redis-read.js'

/** One sentinel, by the address in the URL: a way to ask it, or why there is none. */
export interface SentinelAsked {
  readonly where: string
  readonly send: Send | Error
}

/** What the sentinels say of the primary. `name`: theirs. */
export async function sentinelFindings(sentinels: readonly SentinelAsked[], name: string): Promise<Finding[]> {
  const findings: Finding[] = []
  const seen: { where: string; fields: Map<string, string> }[] = []
  for (const { where, send } of sentinels) {
    try {
      if (send instanceof Error) throw send
      seen.push({ where, fields: fieldsOf(await send('sentinel', 'master', name)) })
    } catch (error) {
      const why = error instanceof CliError && error.cause instanceof Error ? error.cause.message : messageOf(error)
      findings.push({
        where,
        what: 'sentinel',
        read: `no answer: ${why}`,
        level: 'warning',
        touches: ['holdSurvives'],
        advice: 'a sentinel that is down has no vote in a fail-over: start it, or take it out of the URL',
      })
    }
  }
  for (const { where, fields } of seen) findings.push({ where, ...sentinelFinding(fields) })
  const primaries = new Set(seen.map(({ fields }) => `${fields.get('ip')}:${fields.get('port')}`))
  if (primaries.size > 1) {
    findings.push({
      what: 'primary',
      read: [...primaries].join(', '),
      level: 'problem',
      touches: ['G1'],
      advice: 'the sentinels name different primaries: as long as they do, two clients may hold on two servers',
    })
  }
  return findings
}

function sentinelFinding(fields: ReadonlyMap<string, string>): Omit<Finding, 'where'> {
  const number = (name: string) => Number(fields.get(name) ?? 0)
  const sentinels = number('num-other-sentinels') + 1
  const quorum = number('quorum')
  const downMs = number('down-after-milliseconds')
  const failoverMs = number('failover-timeout')
  const read = `quorum ${quorum} of ${sentinels}, down after ${roughDuration(downMs)}, failover-timeout ${roughDuration(failoverMs)}`
  const base = { what: 'sentinel', read, touches: ['holdSurvives'] }
  const flags = fields.get('flags') ?? ''
  if (/[so]_down/.test(flags))
    return { ...base, level: 'problem', advice: `it takes the primary for down (${flags}): see its log` }
  if (sentinels < 3)
    return {
      ...base,
      level: 'warning',
      advice: 'with fewer than three sentinels the loss of one ends fail-over: run three, apart',
    }
  if (quorum > sentinels)
    return {
      ...base,
      level: 'problem',
      advice: 'the quorum is greater than the number of sentinels: there is no fail-over',
    }
  if (quorum <= sentinels / 2)
    return {
      ...base,
      level: 'note',
      advice: 'fewer than half may take the primary for down; a majority still has to agree on who promotes',
    }
  if (downMs > 10_000)
    return {
      ...base,
      level: 'note',
      advice: `nothing is granted or renewed for ${roughDuration(downMs)} and more after a primary has died: a shorter ttl ends leases before that`,
    }
  return { ...base, level: 'ok', advice: '' }
}

/** The state of a Cluster, as one of its nodes sees it. */
export async function clusterFindings(send: Send, reading: ServerReading): Promise<Finding[]> {
  const touches = ['G1', 'G13']
  let info: Map<string, string>
  try {
    info = linesOf(String(await send('cluster', 'info')))
  } catch (error) {
    if (!isForbidden(error)) throw error
    const read = 'unknown: the server does not let this user read it'
    return [{ what: 'cluster', read, level: 'note', touches, advice: 'cluster_state must be ok' }]
  }
  const state = info.get('cluster_state')
  const read = `${state}, ${info.get('cluster_slots_ok')} of 16384 slots, ${info.get('cluster_size')} masters`
  const whole = state === 'ok' && info.get('cluster_slots_ok') === '16384'
  return [
    {
      what: 'cluster',
      read,
      level: whole ? 'ok' : 'problem',
      touches,
      advice: whole ? '' : 'leases whose slot nobody serves are neither granted nor renewed: see CLUSTER NODES',
    },
    timeoutFinding(reading.setting('cluster-node-timeout')),
  ]
}

function timeoutFinding(text: string | undefined): Finding {
  const base = { what: 'cluster-node-timeout', touches: ['holdSurvives'] }
  if (text === undefined)
    return {
      ...base,
      read: 'unknown: the server does not let this user read it',
      level: 'note',
      advice: 'a fail-over takes longer than it',
    }
  const read = `${text} ms`
  if (Number(text) <= 15_000) return { ...base, read, level: 'ok', advice: '' }
  return {
    ...base,
    read,
    level: 'note',
    advice: 'a fail-over takes longer than that, and a shorter ttl ends leases before it',
  }
}
