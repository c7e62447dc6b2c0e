// `doctor` on MySQL and MariaDB: what the settings of the server do to the promises, and whether this user may do what the store does.
// The settings are those of a session of this user, as the store's own would be.
import { StoreError } from 'holdfast'
import type { MysqlStore } from 'holdfast/mysql'
import type { Pool, RowDataPacket } from 'mysql2/promise'
import { type ClockReading, readClock } from './clock.js'
import type { Finding } from './finding.js'
import { clockFinding, roundTripFinding } from './times.js'

/** Settings by name; those that a server does not know are missing. */
type Settings = ReadonlyMap<string, string>

export async function doctorOfMysql(pool: Pool, store: Pick<MysqlStore, 'acquire' | 'withdraw'>): Promise<Finding[]> {
  const settings = await read(pool, 'SHOW VARIABLES')
  const status = await read(pool, 'SHOW GLOBAL STATUS')
  const clock = await clockOfMysql(pool)
  const readOnly = settings.get('read_only') === 'ON'
  return [
    versionFinding(settings),
    primaryFinding(readOnly),
    ...(readOnly ? [] : [await rightsFinding(store)]),
    isolationFinding(settings),
    modeFinding(settings),
    zoneFinding(settings),
    commitFinding(settings),
    ...binaryLogFindings(settings),
    replicasFinding(settings, status),
    galeraFinding(status),
    ...timeoutFindings(settings),
    clockFinding(clock),
    roundTripFinding(clock),
  ].filter((finding) => finding !== undefined)
}

async function read(pool: Pool, sql: string): Promise<Settings> {
  const [rows] = await pool.query<RowDataPacket[]>(sql)
  return new Map(rows.map((row) => [String(row.Variable_name), String(row.Value)]))
}

export const clockOfMysql = (pool: Pool): Promise<ClockReading> =>
  readClock(async () => {
    const [[row]] = await pool.query<RowDataPacket[]>(
      "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1 AS us",
    )
    return Number(row?.us) / 1000
  })

function versionFinding(settings: Settings): Finding {
  const version = settings.get('version') ?? 'unknown'
  const isMariaDB = /mariadb/i.test(version)
  const [, major = '0', minor = '0'] = /^(\d+)\.(\d+)/.exec(version) ?? []
  const number = Number(major) * 100 + Number(minor)
  const base = { what: 'version', read: isMariaDB ? version : `MySQL ${version}`, touches: [] }
  if (number < (isMariaDB ? 1006 : 800)) {
    return { ...base, level: 'problem', advice: 'Holdfast needs MariaDB 10.6 or MySQL 8.0, or newer' }
  }
  if (isMariaDB) return { ...base, level: 'ok', advice: '' }
  return {
    ...base,
    level: 'note',
    advice: 'Holdfast is tested on MariaDB; MySQL 8 is written for, and has not been run',
  }
}

function primaryFinding(readOnly: boolean): Finding {
  const base = { what: 'read_only', read: readOnly ? 'ON' : 'OFF', touches: ['G1'] }
  if (!readOnly) return { ...base, level: 'ok', advice: '' }
  return { ...base, level: 'problem', advice: 'leases are granted by the primary alone: connect to it' }
}

async function rightsFinding(store: Pick<MysqlStore, 'acquire' | 'withdraw'>): Promise<Finding> {
  const [key, claim] = ['holdfast doctor', `doctor ${crypto.randomUUID()}`]
  const base = { what: 'rights of this user', touches: ['G1'] }
  try {
    await store.acquire({ key, claim, holder: 'holdfast doctor', ttlMs: 1 })
    await store.withdraw(key, claim)
    return { ...base, read: 'as needed', level: 'ok', advice: '' }
  } catch (error) {
    const advice = error instanceof Error ? error.message : String(error)
    return { ...base, read: isOpen(error) ? 'not known' : 'not enough', level: 'problem', advice }
  }
}

/** No answer says nothing of rights. */
const isOpen = (error: unknown) => error instanceof StoreError && error.outcome === 'unknown'

/** The store opens transactions of its own that are READ COMMITTED, at no cost; the fence stands in those of the application. */
function isolationFinding(settings: Settings): Finding {
  const read = settings.get('transaction_isolation') ?? settings.get('tx_isolation') ?? 'unknown'
  const base = { what: 'transaction_isolation', read, touches: ['G7'] }
  if (read !== 'READ-UNCOMMITTED') return { ...base, level: 'ok', advice: '' }
  return {
    ...base,
    level: 'note',
    advice: 'the store and the fence are not concerned; what else the application reads is',
  }
}

/** Procedures keep the mode in which they were made: said, since people ask. */
const modeFinding = (settings: Settings): Finding => ({
  what: 'sql_mode',
  read: settings.get('sql_mode') || 'none',
  level: 'ok',
  touches: [],
  advice: '',
})

const zoneFinding = (settings: Settings): Finding => ({
  what: 'time_zone',
  read: `${settings.get('time_zone')} (${settings.get('system_time_zone')})`,
  level: 'ok',
  touches: [],
  advice: '',
})

function commitFinding(settings: Settings): Finding {
  const read = settings.get('innodb_flush_log_at_trx_commit') ?? 'unknown'
  const base = { what: 'innodb_flush_log_at_trx_commit', read, touches: ['A3', 'holdSurvives'] }
  if (read === '1') return { ...base, level: 'ok', advice: '' }
  const of = read === '2' ? 'machine' : 'server'
  return {
    ...base,
    level: 'warning',
    advice: `a crash of the ${of} may undo the last grants, while their holders believe: set it to 1; fences hold all the same`,
  }
}

function binaryLogFindings(settings: Settings): Finding[] {
  if (settings.get('log_bin') !== 'ON') return []
  const [format = 'unknown', sync = 'unknown'] = [settings.get('binlog_format'), settings.get('sync_binlog')]
  const formatBase = { what: 'binlog_format', read: format, touches: ['G1'] }
  const syncBase = { what: 'sync_binlog', read: sync, touches: ['A3', 'holdSurvives'] }
  return [
    format === 'STATEMENT'
      ? {
          ...formatBase,
          level: 'problem',
          advice: 'the server refuses the store at READ COMMITTED: set it to ROW or MIXED',
        }
      : { ...formatBase, level: 'ok', advice: '' },
    sync === '1'
      ? { ...syncBase, level: 'ok', advice: '' }
      : {
          ...syncBase,
          level: 'warning',
          advice:
            'a crash of the machine may lose the last grants on the way to the replicas, and after a fail-over: set it to 1',
        },
  ]
}

/** How replicas are fed, which decides what a fail-over keeps. The names differ among versions. */
function replicasFinding(settings: Settings, status: Settings): Finding {
  const of = (names: readonly string[], from: Settings) =>
    names.map((name) => from.get(name)).find((value) => value !== undefined)
  const semi = of(['Rpl_semi_sync_source_status', 'Rpl_semi_sync_master_status'], status)
  const replicas = of(['Rpl_semi_sync_source_clients', 'Rpl_semi_sync_master_clients'], status) ?? '0'
  const timeout = of(['rpl_semi_sync_source_timeout', 'rpl_semi_sync_master_timeout'], settings)
  const base = { what: 'replicas', touches: ['A3', 'G2', 'holdSurvives'] }
  if (semi === 'ON') {
    const read = `semi-synchronous, ${replicas} connected`
    if (Number(timeout) >= 3_600_000) return { ...base, read, level: 'ok', advice: '' }
    return {
      ...base,
      read,
      level: 'note',
      advice: `after ${timeout} ms without an answer the server goes on without its replicas: then a fail-over may lose the last grants`,
    }
  }
  if (settings.get('log_bin') !== 'ON') {
    return { ...base, read: 'none, there is no binary log', level: 'note', advice: 'nothing to fail over to' }
  }
  return {
    ...base,
    read: 'asynchronous, if there are any',
    level: 'warning',
    advice:
      'a fail-over may lose the last grants: then another is granted a lease that is held, with a bigger token. For leases that must survive it use semi-synchronous replication; fences hold all the same',
  }
}

function galeraFinding(status: Settings): Finding | undefined {
  const size = Number(status.get('wsrep_cluster_size') ?? 0)
  if (status.get('wsrep_ready') !== 'ON' || size < 2) return undefined
  return {
    what: 'Galera',
    read: `${size} nodes`,
    level: 'warning',
    touches: ['G1', 'G13'],
    advice: 'decides at the commit, on any node: send the leases of all processes to one node',
  }
}

function timeoutFindings(settings: Settings): Finding[] {
  const findings: Finding[] = []
  const add = (what: string, read: string, tooShort: boolean, advice: string) =>
    findings.push({ what, read, level: tooShort ? 'warning' : 'ok', touches: ['G13'], advice: tooShort ? advice : '' })
  const wait = Number(settings.get('wait_timeout'))
  add(
    'wait_timeout',
    `${wait} s`,
    wait < 30,
    'the server ends idle connections of the pool so soon that calls meet dead ones: raise it, or set idleTimeout of the pool below it',
  )
  const statement = Number(settings.get('max_statement_time') ?? 0)
  if (statement > 0) {
    add(
      'max_statement_time',
      `${statement} s`,
      statement < 1,
      'shorter than a call may take: calls end with an unknown outcome under load',
    )
  }
  if (settings.get('innodb_rollback_on_timeout') === 'ON') {
    findings.push({
      what: 'innodb_rollback_on_timeout',
      read: 'ON',
      level: 'note',
      touches: [],
      advice: 'of calls that share a statement all are tried again when one of them meets a lock',
    })
  }
  return findings
}
