// `doctor` on etcd: whether the members agree on a leader, have room, and let this user do what the store does. Clocks are not asked:
// etcd's leader alone measures terms, and tokens are revisions.
import type { LeaseStore } from 'holdfast'
import type { Finding } from './finding.js'
import { rightsFinding } from './rights.js'

const ASK_MS = 5_000
/** What a member takes by default (--quota-backend-bytes), where it does not say. */
const QUOTA_BYTES = 2 * 1024 ** 3

interface Status {
  readonly version?: string
  readonly leader?: string
  readonly dbSize?: string
  readonly dbSizeQuota?: string
  readonly header?: { readonly cluster_id?: string; readonly member_id?: string }
}

/** One request to one member. */
export async function askEtcd<Answer>(endpoint: string, path: string, body: unknown): Promise<Answer> {
  const init = { method: 'POST', body: JSON.stringify(body), signal: AbortSignal.timeout(ASK_MS) }
  const response = await fetch(endpoint + path, init)
  const text = await response.text()
  if (response.status !== 200) throw new Error(`HTTP ${response.status}: ${text.slice(0, 200)}`)
  return JSON.parse(text) as Answer
}

export async function doctorOfEtcd(
  endpoints: readonly string[],
  store: Pick<LeaseStore, 'acquire' | 'withdraw'>,
): Promise<Finding[]> {
  const asked = await Promise.allSettled(
    endpoints.map((endpoint) => askEtcd<Status>(endpoint, '/v3/maintenance/status', {})),
  )
  const answered = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const first = endpoints.find((_, i) => asked[i]?.status === 'fulfilled') ?? endpoints[0] ?? ''
  return [
    endpointsFinding(endpoints, answered.length),
    versionFinding(answered),
    clusterFinding(answered),
    leaderFinding(answered),
    await membersFinding(first, endpoints.length),
    await alarmsFinding(first),
    spaceFinding(answered),
    await rightsFinding(store),
  ]
}

function endpointsFinding(endpoints: readonly string[], answered: number): Finding {
  const base = { what: 'endpoints', read: `${answered} of ${endpoints.length} answer`, touches: [] }
  if (answered === endpoints.length) return { ...base, level: 'ok', advice: '' }
  return { ...base, level: 'warning', advice: 'a member that does not answer costs a time-out when its turn comes' }
}

function versionFinding(answered: readonly Status[]): Finding {
  const versions = [...new Set(answered.map(({ version = 'unknown' }) => version))]
  const base = { what: 'version', read: `etcd ${versions.join(', ')}`, touches: [] }
  const old = versions.some((version) => {
    const [major = 0, minor = 0] = version.split('.').map(Number)
    return major < 3 || (major === 3 && minor < 4)
  })
  if (!old) return { ...base, level: 'ok', advice: '' }
  return { ...base, level: 'problem', advice: 'Holdfast needs etcd 3.4 or newer' }
}

function clusterFinding(answered: readonly Status[]): Finding {
  const ids = new Set(answered.map(({ header }) => header?.cluster_id))
  const base = { what: 'clusters', read: String(ids.size), touches: ['G1'] }
  if (ids.size <= 1) return { ...base, level: 'ok', advice: '' }
  return { ...base, level: 'problem', advice: 'the endpoints are members of different clusters: name those of one' }
}

function leaderFinding(answered: readonly Status[]): Finding {
  const leaders = new Set(answered.map(({ leader = '0' }) => leader))
  const base = { what: 'leader', touches: [] }
  if (leaders.size === 1 && !leaders.has('0')) return { ...base, read: 'one', level: 'ok', advice: '' }
  const read = leaders.has('0') ? 'not known to all' : 'the members do not agree'
  return {
    ...base,
    read,
    level: 'problem',
    advice: 'nothing is granted without one: see that a majority is up and in touch',
  }
}

async function membersFinding(endpoint: string, named: number): Promise<Finding> {
  const base = { what: 'members', touches: ['A3', 'holdSurvives'] }
  const answer = await tried(() =>
    askEtcd<{ members?: { isLearner?: boolean }[] }>(endpoint, '/v3/cluster/member/list', {}),
  )
  if (answer === undefined) return { ...base, read: 'may not be asked', level: 'note', advice: '' }
  const voting = (answer.members ?? []).filter(({ isLearner }) => isLearner !== true).length
  const read = `${voting} that vote, ${named} named here`
  if (voting < 3) return { ...base, read, level: 'note', advice: 'the loss of one stops everything: three survive it' }
  if (voting % 2 === 0) {
    return { ...base, read, level: 'note', advice: 'an even number survives no more than one less: 3 or 5' }
  }
  if (named < voting)
    return { ...base, read, level: 'note', advice: 'name all members, so that each can take its turn' }
  return { ...base, read, level: 'ok', advice: '' }
}

async function alarmsFinding(endpoint: string): Promise<Finding> {
  const base = { what: 'alarms', touches: [] }
  const answer = await tried(() =>
    askEtcd<{ alarms?: { alarm?: string }[] }>(endpoint, '/v3/maintenance/alarm', { action: 'GET' }),
  )
  if (answer === undefined) return { ...base, read: 'may not be asked', level: 'note', advice: '' }
  const alarms = [...new Set((answer.alarms ?? []).map(({ alarm = 'unknown' }) => alarm))]
  if (alarms.length === 0) return { ...base, read: 'none', level: 'ok', advice: '' }
  return {
    ...base,
    read: alarms.join(', '),
    level: 'problem',
    advice: alarms.includes('NOSPACE')
      ? 'writes are refused: compact, defragment, then etcdctl alarm disarm'
      : 'see the documentation of etcd on disaster recovery',
  }
}

function spaceFinding(answered: readonly Status[]): Finding {
  const used = Math.max(0, ...answered.map(({ dbSize }) => Number(dbSize ?? 0)))
  const quota = Math.min(...answered.map(({ dbSizeQuota }) => Number(dbSizeQuota ?? QUOTA_BYTES)), QUOTA_BYTES * 64)
  const mebibytes = (bytes: number) => `${Math.ceil(bytes / 1024 ** 2)} MiB`
  const base = {
    what: 'space',
    read: `${mebibytes(used)} of ${mebibytes(quota)} (the default, unless it says)`,
    touches: [],
  }
  if (used < 0.8 * quota) return { ...base, level: 'ok', advice: '' }
  return {
    ...base,
    level: 'warning',
    advice:
      'at the quota etcd refuses writes: set --auto-compaction-retention, defragment, or raise --quota-backend-bytes',
  }
}

async function tried<Answer>(ask: () => Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await ask()
  } catch {
    return undefined
  }
}
