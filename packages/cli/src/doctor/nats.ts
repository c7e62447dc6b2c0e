// `doctor` on NATS: the version, what the settings of the bucket do to the promises, and whether this user may do what the store does.
import { Kvm, type KvStatus } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import type { LeaseStore } from 'holdfast'
import { isMissing } from '../stores/nats.js'
import type { Finding } from './finding.js'
import { rightsFinding } from './rights.js'

const DAY_MS = 86_400_000
const RECORD_BYTES = 16_384

type Config = KvStatus['streamInfo']['config']

export async function doctorOfNats(
  connection: NatsConnection,
  bucket: string,
  store: Pick<LeaseStore, 'acquire' | 'withdraw'>,
): Promise<Finding[]> {
  const version = connection.info?.version ?? ''
  const first = [versionFinding(version), await roundTripFinding(connection)]
  let status: KvStatus | undefined
  try {
    status = await (await new Kvm(connection).open(bucket)).status()
  } catch (error) {
    if (!isMissing(error)) {
      const advice = `JetStream does not tell of the bucket: ${error instanceof Error ? error.message : String(error)}`
      return [...first, { what: 'bucket', read: 'unknown', level: 'problem', touches: [], advice }]
    }
    const advice = 'the first command that needs it makes it, with one replica and file storage'
    return [...first, { what: 'bucket', read: 'not there yet', level: 'note', touches: [], advice }]
  }
  const { config, cluster } = status.streamInfo
  return [
    ...first,
    replicasFinding(config),
    storageFinding(config),
    ageFinding(config),
    historyFinding(config),
    discardFinding(config),
    valueFinding(config),
    keyTtlFinding(config, version),
    mirrorFinding(config),
    leaderFinding(cluster?.name, cluster?.leader),
    syncFinding(),
    await rightsFinding(store),
  ]
}

function versionFinding(version: string): Finding {
  const base = { what: 'version', read: `nats-server ${version || 'unknown'}`, touches: [] }
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major * 100 + minor < 209) return { ...base, level: 'problem', advice: 'Holdfast needs nats-server 2.9 or newer' }
  if (major === 2 && minor === 9) return { ...base, level: 'ok', advice: '' }
  return { ...base, level: 'note', advice: 'Holdfast is tested on 2.9; later ones were not run' }
}

async function roundTripFinding(connection: NatsConnection): Promise<Finding> {
  const ms = await connection.rtt().catch(() => undefined)
  const read = ms === undefined ? 'unknown' : `${ms} ms`
  return { what: 'round trip', read, level: ms === undefined ? 'note' : 'ok', touches: [], advice: '' }
}

function replicasFinding({ num_replicas: replicas = 1 }: Config): Finding {
  const base = { what: 'replicas', read: String(replicas), touches: ['G1'] }
  if (replicas > 1)
    return {
      ...base,
      level: 'problem',
      advice:
        'the server checks the expected revision before its replicas agree, so two may hold: the store refuses it; take one',
    }
  return {
    ...base,
    level: 'note',
    advice: 'leases are unavailable while the server with the stream is; its disk is the only copy',
  }
}

function storageFinding({ storage }: Config): Finding {
  const base = { what: 'storage', read: String(storage), touches: ['G1', 'G2', 'A3'] }
  if (String(storage) !== 'memory') return { ...base, level: 'ok', advice: '' }
  return { ...base, level: 'problem', advice: 'a restart forgets who holds, and begins the tokens anew: take file' }
}

function ageFinding({ max_age: age = 0 }: Config): Finding {
  const ms = Number(age) / 1e6
  const base = { what: 'max_age', read: ms === 0 ? 'none' : `${ms} ms`, touches: ['A3', 'G2'] }
  if (ms === 0) return { ...base, level: 'ok', advice: '' }
  if (ms < DAY_MS)
    return { ...base, level: 'problem', advice: 'records of held leases would go: set the ttl of the bucket to 0' }
  return {
    ...base,
    level: 'warning',
    advice: 'a lease that is held for longer without renewal would be forgotten: 0 is safest',
  }
}

function historyFinding({ max_msgs_per_subject: history }: Config): Finding {
  return { what: 'history', read: String(history), level: 'ok', touches: [], advice: '' }
}

/** A full stream may throw away the oldest records, which may be of leases that are held. */
function discardFinding({ discard, max_bytes: bytes = -1, max_msgs: messages = -1 }: Config): Finding {
  const limits = [...(bytes > 0 ? [`${bytes} bytes`] : []), ...(messages > 0 ? [`${messages} messages`] : [])]
  const base = { what: 'when full', read: `${limits.join(', ') || 'no limit'}, discard ${discard}`, touches: ['A3'] }
  if (limits.length === 0) return { ...base, level: 'ok', advice: '' }
  if (String(discard) === 'old')
    return { ...base, level: 'problem', advice: 'a full stream forgets held leases: set discard to new, or no limit' }
  return { ...base, level: 'note', advice: 'a full stream grants nothing: prune it from time to time' }
}

function valueFinding({ max_msg_size: bytes = -1 }: Config): Finding {
  const base = { what: 'maxValueSize', read: bytes > 0 ? `${bytes} bytes` : 'no limit', touches: [] }
  if (bytes <= 0 || bytes >= RECORD_BYTES) return { ...base, level: 'ok', advice: '' }
  return { ...base, level: 'problem', advice: `a record may take ${RECORD_BYTES} bytes: raise it` }
}

function keyTtlFinding(config: Config, version: string): Finding {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const base = { what: 'ttl of single keys', touches: [] }
  if (major * 100 + minor < 211) return { ...base, read: 'the server knows none', level: 'ok', advice: '' } // and nothing of Holdfast depends on them
  const isOn = (config as { allow_msg_ttl?: boolean }).allow_msg_ttl === true
  if (!isOn) return { ...base, read: 'off', level: 'ok', advice: '' }
  return {
    ...base,
    read: 'on',
    level: 'note',
    advice: 'Holdfast does not use them; let nobody else write here with one',
  }
}

function mirrorFinding({ mirror }: Config): Finding {
  const base = { what: 'mirror', read: mirror === undefined ? 'no' : `of ${mirror.name}`, touches: [] }
  if (mirror === undefined) return { ...base, level: 'ok', advice: '' }
  return { ...base, level: 'problem', advice: 'a mirror takes no writes: name the bucket that it mirrors' }
}

function leaderFinding(cluster: string | undefined, leader: string | undefined): Finding {
  const base = { what: 'server of the stream', touches: [] }
  if (cluster === undefined) return { ...base, read: leader ?? 'this one', level: 'ok', advice: '' }
  if (leader === undefined || leader === '')
    return { ...base, read: 'none', level: 'problem', advice: 'nothing is granted without one: see that it is up' }
  return { ...base, read: `${leader} of ${cluster}`, level: 'ok', advice: '' }
}

const syncFinding = (): Finding => ({
  what: 'sync_interval',
  read: 'unknown: no client may ask',
  level: 'note',
  touches: ['G2', 'holdSurvives'],
  advice:
    'by default files are flushed every two minutes, and a power cut forgets what was granted since: sync_interval: always in the server where that matters',
})
