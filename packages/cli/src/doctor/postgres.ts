// `doctor` on Postgres: what the settings of the server, of the database and of the role do to the promises; and whether this role may
// do what the store does. The settings are those of a session of this role, as the store's own would be.
import { StoreError } from 'holdfast'
import type { PostgresStore } from 'holdfast/postgres'
import type pg from 'pg'
import { type ClockReading, readClock } from './clock.js'
import type { Finding } from './finding.js'
import { clockFinding, roundTripFinding } from './times.js'

const SETTINGS = [
  'server_version',
  'server_encoding',
  'default_transaction_isolation',
  'default_transaction_read_only',
  'TimeZone',
  'synchronous_commit',
  'fsync',
  'full_page_writes',
  'synchronous_standby_names',
  'idle_session_timeout',
  'idle_in_transaction_session_timeout',
  'statement_timeout',
  'transaction_timeout',
] as const

type Settings = ReadonlyMap<(typeof SETTINGS)[number], string>

export async function doctorOfPostgres(
  pool: pg.Pool,
  store: Pick<PostgresStore, 'acquire' | 'withdraw'>,
): Promise<Finding[]> {
  const { rows } = await pool.query('select name, setting from pg_settings where name = any($1)', [[...SETTINGS]])
  const settings: Settings = new Map(rows.map(({ name, setting }) => [name, setting]))
  const { rows: server } = await pool.query('select pg_is_in_recovery() as standby')
  const clock = await clockOfPostgres(pool)
  const standby = server[0]?.standby === true
  return [
    versionFinding(settings),
    standbyFinding(standby),
    ...(standby ? [] : [await rightsFinding(store)]),
    isolationFinding(settings),
    readOnlyFinding(settings),
    encodingFinding(settings),
    { what: 'TimeZone', read: settings.get('TimeZone') ?? 'unknown', level: 'ok', touches: [], advice: '' },
    commitFinding(settings),
    fsyncFinding(settings),
    await replicasFinding(pool, settings),
    ...timeoutFindings(settings),
    clockFinding(clock),
    roundTripFinding(clock),
  ]
}

export const clockOfPostgres = (pool: pg.Pool): Promise<ClockReading> =>
  readClock(async () => {
    const { rows } = await pool.query('select extract(epoch from clock_timestamp()) * 1000 as ms')
    return Number(rows[0]?.ms)
  })

function versionFinding(settings: Settings): Finding {
  const version = settings.get('server_version') ?? 'unknown'
  const base = { what: 'version', read: `PostgreSQL ${version}`, touches: [] }
  if (Number.parseInt(version, 10) >= 12) return { ...base, level: 'ok', advice: '' }
  return { ...base, level: 'problem', advice: 'Holdfast needs PostgreSQL 12 or newer' }
}

function standbyFinding(standby: boolean): Finding {
  const base = { what: 'primary', touches: ['G1'] }
  if (!standby) return { ...base, read: 'yes', level: 'ok', advice: '' }
  return {
    ...base,
    read: 'no, a standby',
    level: 'problem',
    advice: 'leases are granted by the primary alone: connect to it',
  }
}

async function rightsFinding(store: Pick<PostgresStore, 'acquire' | 'withdraw'>): Promise<Finding> {
  const [key, claim] = ['holdfast doctor', `doctor ${crypto.randomUUID()}`]
  const base = { what: 'rights of this role', touches: ['G1'] }
  try {
    await store.acquire({ key, claim, holder: 'holdfast doctor', ttlMs: 1 })
    await store.withdraw(key, claim)
    return { ...base, read: 'as needed', level: 'ok', advice: '' }
  } catch (error) {
    return {
      ...base,
      read: isOpen(error) ? 'not known' : 'not enough',
      level: 'problem',
      advice: error instanceof Error ? error.message : String(error),
    }
  }
}

/** No answer says nothing of rights. */
const isOpen = (error: unknown) => error instanceof StoreError && error.outcome === 'unknown'

function isolationFinding(settings: Settings): Finding {
  const read = settings.get('default_transaction_isolation') ?? 'unknown'
  const base = { what: 'default_transaction_isolation', read, touches: ['G1'] }
  if (read === 'read committed') return { ...base, level: 'ok', advice: '' }
  return {
    ...base,
    level: 'note',
    advice:
      'the store opens transactions of its own that are READ COMMITTED: three round trips instead of one. alter role … set default_transaction_isolation makes it faster',
  }
}

function readOnlyFinding(settings: Settings): Finding {
  const read = settings.get('default_transaction_read_only') ?? 'unknown'
  const base = { what: 'default_transaction_read_only', read, touches: [] }
  if (read !== 'on') return { ...base, level: 'ok', advice: '' }
  return {
    ...base,
    level: 'note',
    advice: 'the store opens transactions of its own that may write: three round trips instead of one',
  }
}

function encodingFinding(settings: Settings): Finding {
  const read = settings.get('server_encoding') ?? 'unknown'
  const base = { what: 'server_encoding', read, touches: ['G11'] }
  if (read === 'UTF8') return { ...base, level: 'ok', advice: '' }
  return {
    ...base,
    level: 'warning',
    advice: 'keys with characters that this encoding does not have are refused: use a database in UTF8',
  }
}

function commitFinding(settings: Settings): Finding {
  const read = settings.get('synchronous_commit') ?? 'unknown'
  const base = { what: 'synchronous_commit', read, touches: ['A3', 'holdSurvives'] }
  if (read !== 'off') return { ...base, level: 'ok', advice: '' }
  return {
    ...base,
    level: 'warning',
    advice:
      'a crash of the server may undo the last grants, while their holders believe: alter role … set synchronous_commit = on; fences hold all the same',
  }
}

function fsyncFinding(settings: Settings): Finding {
  const read = `fsync ${settings.get('fsync')}, full_page_writes ${settings.get('full_page_writes')}`
  const base = { what: 'durability', read, touches: ['A3', 'holdSurvives', 'G2'] }
  if (settings.get('fsync') === 'on' && settings.get('full_page_writes') === 'on')
    return { ...base, level: 'ok', advice: '' }
  return {
    ...base,
    level: 'problem',
    advice: 'a crash of the machine may destroy the database, with its leases and fences: turn both on',
  }
}

/** How replicas are fed, which decides what a fail-over keeps. */
async function replicasFinding(pool: pg.Pool, settings: Settings): Promise<Finding> {
  const { rows } = await pool.query(
    "select count(*)::int as all, count(*) filter (where sync_state in ('sync', 'quorum'))::int as sync from pg_stat_replication",
  )
  const { all = 0, sync = 0 } = rows[0] ?? {}
  const base = { what: 'replicas', touches: ['A3', 'G2', 'holdSurvives'] }
  const read = all === 0 ? 'none seen' : `${all}, ${sync} of them synchronous`
  if (all === 0)
    return { ...base, read, level: 'note', advice: 'nothing to fail over to, or this role may not see it (pg_monitor)' }
  if (sync > 0 && !['off', 'local'].includes(settings.get('synchronous_commit') ?? '')) {
    return { ...base, read, level: 'ok', advice: '' }
  }
  return {
    ...base,
    read,
    level: 'warning',
    advice:
      'a fail-over may lose the last grants: then another is granted a lease that is held, with a bigger token. For leases that must survive it set synchronous_standby_names; fences hold all the same',
  }
}

function timeoutFindings(settings: Settings): Finding[] {
  const ms = (name: (typeof SETTINGS)[number]) => Number(settings.get(name) ?? 0)
  const findings: Finding[] = []
  const add = (name: (typeof SETTINGS)[number], tooShort: boolean, advice: string) => {
    const value = ms(name)
    if (!settings.has(name)) return // older than the setting
    if (value === 0) {
      findings.push({ what: name, read: 'off', level: 'ok', touches: [], advice: '' })
      return
    }
    findings.push({
      what: name,
      read: `${value} ms`,
      level: tooShort ? 'warning' : 'note',
      touches: ['G8', 'G13'],
      advice: tooShort ? advice : '',
    })
  }
  add(
    'idle_session_timeout',
    true,
    'ends the connection that listens for wake-ups while nobody is woken; it is opened again, and waiters ask at a steady pace meanwhile',
  )
  add(
    'statement_timeout',
    ms('statement_timeout') < 500,
    'shorter than a call may take: calls end with outcome none under load',
  )
  add(
    'transaction_timeout',
    ms('transaction_timeout') < 500,
    'shorter than a call may take: calls end with an unknown outcome under load',
  )
  return findings
}
