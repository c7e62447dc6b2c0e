// `doctor` on Redis: every server that keeps leases, what stands around them, and whether this user may do what the store does.

import { type RedisStoreOptions, redisStore } from 'holdfast/redis'
import { Cluster, type Redis } from 'ioredis'
import { type Client, clientOf, connected, type RedisTarget } from '../stores/redis-client.js'
import { shownHosts } from '../stores/url.js'
import { type ClockReading, readClock } from './clock.js'
import type { Finding } from './finding.js'
import { rightsFinding } from './redis-probe.js'
import { isForbidden, readServer, type Send, type ServerReading } from './redis-read.js'
import { findingsOfServer } from './redis-server.js'
import { clusterFindings, type SentinelAsked, sentinelFindings } from './redis-topology.js'
import { clockFinding, roundTripFinding } from './times.js'

/** How long what the probe writes stays. */
const PROBE_KEPT_MS = 1_000

export async function doctorOfRedis(
  client: Client,
  target: RedisTarget,
  options: RedisStoreOptions,
): Promise<Finding[]> {
  const { replicas = 0, prefix = 'holdfast:' } = options
  const context = { replicas, failsOver: target.at.is === 'sentinel' || target.at.is === 'cluster' }
  const servers = serversOf(client)
  const findings: Finding[] = []
  const readings: ServerReading[] = []
  for (const { where, send } of servers) {
    const reading = await readServer(send)
    readings.push(reading)
    const found = [...findingsOfServer(reading, context), ...timesOf(await clockIfAllowed(send))]
    findings.push(...(servers.length > 1 ? found.map((one) => ({ where, ...one })) : found))
  }
  const [any] = servers
  const [reading] = readings
  if (any === undefined || reading === undefined) return findings
  if (target.at.is === 'cluster') findings.push(...(await clusterFindings(any.send, reading)))
  if (target.at.is === 'sentinel') findings.push(...(await askSentinels(target)))
  if (readings.some(({ info }) => info?.get('role') === 'slave')) return findings // it would refuse, and that was said

  const store = redisStore(client, { prefix, retentionMs: PROBE_KEPT_MS, endedRetentionMs: PROBE_KEPT_MS })
  try {
    findings.push(await rightsFinding({ store, prefix, send: any.send, replicas }))
  } finally {
    await store.close()
  }
  return findings
}

/** The clock of the server, or of the first of a Cluster. */
export async function clockOfRedis(client: Client): Promise<ClockReading | undefined> {
  const [first] = serversOf(client)
  if (first === undefined) throw new Error('no server is known')
  return clockIfAllowed(first.send)
}

function serversOf(client: Client): { where: string; send: Send }[] {
  const one = (server: Redis) => {
    const { host = '', port = 0 } = server.options
    return { where: shownHosts([{ host, port }]), send: ((name, ...args) => server.call(name, ...args)) as Send }
  }
  return client instanceof Cluster ? client.nodes('master').map(one) : [one(client)]
}

const clockOf = (send: Send) =>
  readClock(async () => {
    const [seconds, microseconds] = (await send('time')) as [unknown, unknown]
    return Number(seconds) * 1_000 + Number(microseconds) / 1_000
  })

/** Undefined when TIME is forbidden, which the rights tell. */
async function clockIfAllowed(send: Send): Promise<ClockReading | undefined> {
  try {
    return await clockOf(send)
  } catch (error) {
    if (isForbidden(error)) return undefined
    throw error
  }
}

const timesOf = (clock: ClockReading | undefined): Finding[] =>
  clock === undefined ? [] : [clockFinding(clock), roundTripFinding(clock)]

/** Each sentinel is asked for itself: they need not agree. */
async function askSentinels({ at, tls }: RedisTarget): Promise<Finding[]> {
  if (at.is !== 'sentinel') return []
  const clients: Client[] = []
  const asked = at.hosts.map(async (host): Promise<SentinelAsked> => {
    const where = shownHosts([host])
    const { user, password } = at
    const client = clientOf({ user, password, db: 0, tls, at: { is: 'server', host } })
    clients.push(client)
    try {
      await connected(client, where)
      return { where, send: (name, ...args) => client.call(name, ...args) as Promise<unknown> }
    } catch (error) {
      return { where, send: error as Error }
    }
  })
  try {
    return await sentinelFindings(await Promise.all(asked), at.name)
  } finally {
    for (const client of clients) client.disconnect()
  }
}
