// What the settings of one server of Redis do to the promises: a function of what was read.
import type { Finding, Level } from './finding.js'
import type { ServerReading } from './redis-read.js'

export interface ServerContext {
  /** The replicas that have to confirm each grant: the option of the store. */
  readonly replicas: number
  /** Whether somebody promotes a replica when the primary is gone. */
  readonly failsOver: boolean
}

const OLDEST = [6, 2] as const
const RUN_ON = '7.0'

type Look = (reading: ServerReading, context: ServerContext) => Finding | undefined

/** One finding for each thing that was looked at. */
export function findingsOfServer(reading: ServerReading, context: ServerContext): Finding[] {
  return LOOKS.flatMap((look) => look(reading, context) ?? [])
}

const finding = (what: string, read: string, level: Level, touches: readonly string[], advice = ''): Finding => ({
  what,
  read,
  level,
  touches,
  advice,
})

/** What cannot be read may be well, or not: it is said, and never taken for well. */
function unknown(what: string, touches: readonly string[], level: Level, wanted: string): Finding {
  const read = 'unknown: the server does not let this user read it'
  return finding(what, read, level, touches, `look it up where the server is managed: ${wanted}`)
}

const version: Look = ({ info }) => {
  const text = info?.get('redis_version')
  if (text === undefined) return unknown('version', ['all'], 'note', `it must be ${OLDEST.join('.')} or newer`)
  const [major = 0, minor = 0] = text.split('.').map(Number)
  const read = info?.get('server_name') === 'valkey' ? `${text} (Valkey)` : text
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]))
    return finding('version', read, 'problem', ['all'], `Holdfast refuses it: upgrade to ${OLDEST.join('.')} or newer`)
  if (!read.startsWith(`${RUN_ON}.`))
    return finding('version', read, 'note', [], `should do, but the tests of Holdfast were run on ${RUN_ON} only`)
  return finding('version', read, 'ok', [])
}

const role: Look = ({ info }) => {
  const text = info?.get('role')
  if (text === undefined) return unknown('role', ['G1'], 'note', 'it must be a primary, not a replica')
  if (text === 'master') return finding('role', 'primary', 'ok', [])
  const of = `${info?.get('master_host')}:${info?.get('master_port')}`
  const advice =
    'a replica refuses writes: name the primary, or use redis+sentinel: or redis+cluster:, which find it after a fail-over'
  return finding('role', `replica of ${of}`, 'problem', ['G1'], advice)
}

const eviction: Look = ({ info, setting }) => {
  const what = 'maxmemory-policy'
  const touches = ['A3', 'G1', 'G2', 'G7']
  const policy = setting(what) ?? info?.get('maxmemory_policy')
  if (policy === undefined) return unknown(what, touches, 'warning', 'it must be noeviction')
  if (policy === 'noeviction') return finding(what, policy, 'ok', touches)
  const evicted = Number(info?.get('evicted_keys') ?? 0)
  const read = evicted > 0 ? `${policy}, ${evicted} keys evicted so far` : policy
  const what2 = policy.startsWith('volatile-')
    ? 'it may evict the record of a held lease, since records have a ttl, and then two hold'
    : 'it may evict the record of a held lease, and then two hold; and the memory of a fence, which then lets an old token in'
  const notYet = setting('maxmemory') === '0' ? ' (nothing is evicted while maxmemory is 0)' : ''
  return finding(
    what,
    read,
    'problem',
    touches,
    `${what2}${notYet}: CONFIG SET maxmemory-policy noeviction, or a server of its own for leases`,
  )
}

const memory: Look = ({ info, setting }) => {
  const what = 'maxmemory'
  const text = setting(what) ?? info?.get(what)
  if (text === undefined) return unknown(what, ['A3'], 'note', 'a limit below the memory of the machine')
  const [limit, used] = [Number(text), Number(info?.get('used_memory') ?? 0)]
  if (limit === 0)
    return finding(
      what,
      '0: no limit',
      'note',
      ['A3'],
      'a server that takes all memory is killed by its system: set a limit, with noeviction',
    )
  const share = Math.round((100 * used) / limit)
  const read = `${mega(limit)}, ${share} % used`
  if (share >= 90)
    return finding(
      what,
      read,
      'warning',
      [],
      'when it is full the server refuses writes: no lease is granted or renewed then; raise it, or free memory',
    )
  return finding(what, read, 'ok', [])
}

const mega = (bytes: number) => `${Number((bytes / 1_048_576).toFixed(1))} MiB`

const persistence: Look = ({ setting, info }) => {
  const what = 'persistence'
  const touches = ['A3', 'G1', 'G7', 'holdSurvives']
  const aof =
    setting('appendonly') ?? (info?.has('aof_enabled') ? (info.get('aof_enabled') === '1' ? 'yes' : 'no') : undefined)
  if (aof === undefined) return unknown(what, touches, 'note', 'appendonly yes, with appendfsync always or everysec')
  if (aof === 'yes') {
    const fsync = setting('appendfsync')
    if (info?.get('aof_last_write_status') === 'err')
      return finding(
        what,
        'appendonly yes, and the last write failed',
        'problem',
        touches,
        'the server cannot save, and refuses writes: see its log and its disk',
      )
    if (fsync === 'always') return finding(what, 'appendonly yes, appendfsync always', 'ok', touches)
    const read = `appendonly yes, appendfsync ${fsync ?? 'unknown'}`
    if (fsync === 'no')
      return finding(
        what,
        read,
        'warning',
        touches,
        'a crash of the machine forgets what its system had not written, often 30 s: what was held then may be granted again; appendfsync everysec or always',
      )
    return finding(
      what,
      read,
      'note',
      touches,
      'a crash of the machine forgets the last second: what was granted in it may be granted again, with a bigger token; appendfsync always forgets nothing, and is slower',
    )
  }
  const save = setting('save')
  if (save === undefined || save !== '') {
    const read = save === undefined ? 'appendonly no, save unknown' : `appendonly no, save ${save}`
    return finding(
      what,
      read,
      'warning',
      touches,
      'a restart after a crash brings back an old snapshot: what was held is granted again, and fences have forgotten their last tokens; appendonly yes',
    )
  }
  return finding(
    what,
    'none',
    'warning',
    touches,
    'a restart forgets what is held, so that it is granted again at once, with a bigger token; appendonly yes, or a quorum with waitAfterLossMs',
  )
}

const replicas: Look = ({ info, setting }, context) => {
  if (info === undefined || info.get('role') !== 'master') return undefined
  const what = 'replicas'
  const touches = ['G1', 'A3', 'holdSurvives']
  const connected = Number(info.get('connected_slaves') ?? 0)
  const minText = setting('min-replicas-to-write')
  const min = Number(minText ?? 0)
  const lag = Number(setting('min-replicas-max-lag') ?? 0)
  const wanted = `min-replicas-to-write ${minText ?? 'unknown'}`
  const read = `${connected} connected, ${min > 0 ? `${wanted} within ${lag} s` : wanted}`
  if (min > 0 && lag > 0 && Number(info.get('min_slaves_good_slaves') ?? connected) < min)
    return finding(
      what,
      read,
      'problem',
      touches,
      'the server refuses writes (NOREPLICAS), so no lease is granted or renewed: connect replicas, or lower min-replicas-to-write',
    )
  if (context.replicas > connected)
    return finding(
      what,
      read,
      'problem',
      touches,
      `the URL has replicas=${context.replicas}, and fewer are connected: every grant ends as unknown; connect replicas, or lower it`,
    )
  if (connected === 0) {
    if (!context.failsOver)
      return finding(
        what,
        read,
        'note',
        ['holdSurvives'],
        'when this server is gone nobody gets a lease until it is back: no promise breaks',
      )
    return finding(
      what,
      read,
      'warning',
      ['holdSurvives'],
      'nobody can take over when this primary is gone: connect a replica',
    )
  }
  const confirm = context.replicas > 0 ? '' : ', and replicas=1 in the URL makes a grant wait for one'
  if (minText === undefined)
    return finding(
      what,
      read,
      'note',
      touches,
      `min-replicas-to-write could not be read: with 0 a primary that is cut off goes on granting while a replica is promoted${confirm}`,
    )
  if (min === 0)
    return finding(
      what,
      read,
      'warning',
      touches,
      `a primary that is cut off from its replicas goes on granting while one of them is promoted: two hold, until the first renews; set min-replicas-to-write 1 and min-replicas-max-lag below your shortest ttl${confirm}`,
    )
  if (context.replicas === 0)
    return finding(
      what,
      read,
      'note',
      touches,
      'replication is asynchronous: a promoted replica may lack the last grant, and then two hold until the first renews; replicas=1 in the URL makes a grant wait for one',
    )
  return finding(what, read, 'ok', touches)
}

const idle: Look = ({ setting }) => {
  const what = 'timeout'
  const text = setting(what)
  if (text === undefined) return unknown(what, ['G8'], 'note', '0, or well above your ttls')
  if (text === '0') return finding(what, '0: idle connections stay', 'ok', [])
  return finding(
    what,
    `${text} s`,
    'note',
    ['G8'],
    'idle connections are closed, not those that listen for wake-ups: the next command of a process that was idle waits for a new connection; 0 turns it off',
  )
}

const keepAlive: Look = ({ setting }) => {
  const what = 'tcp-keepalive'
  const text = setting(what)
  if (text === undefined) return unknown(what, ['G8'], 'note', '300 or less')
  if (text === '0')
    return finding(
      what,
      '0: off',
      'warning',
      ['G8'],
      'connections that died quietly pile up at the server, and firewalls forget those that are idle; tcp-keepalive 300',
    )
  return finding(what, `${text} s`, 'ok', [])
}

const outputBuffer: Look = ({ setting }) => {
  const what = 'client-output-buffer-limit'
  const text = setting(what)
  if (text === undefined) return unknown(what, ['G8'], 'note', 'pubsub at least 1mb')
  const [, hard = '0', soft = '0'] = /pubsub (\d+) (\d+)/.exec(text) ?? []
  const least = Math.min(...[hard, soft].map(Number).filter((limit) => limit > 0))
  const read = `pubsub ${hard} ${soft} bytes`
  if (least < 1_048_576)
    return finding(
      what,
      read,
      'warning',
      ['G8'],
      'a process with many waiters is cut off when many are woken at once: it reconnects and asks again, late; pubsub 32mb 8mb 60',
    )
  return finding(what, read, 'ok', [])
}

const LOOKS: readonly Look[] = [version, role, eviction, memory, persistence, replicas, idle, keepAlive, outputBuffer]
