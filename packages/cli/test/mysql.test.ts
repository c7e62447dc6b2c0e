// The command line on a real server of MariaDB: the commands, the demo with its fence, doctor, and the SQL of the tables.
import { execFileSync } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MysqlServer } from '../../holdfast/test/mysql/servers.js'
import { type Place, place, waitUntil } from './harness.js'

let server: MysqlServer
beforeAll(async () => {
  server = await MysqlServer.start()
})
afterAll(() => server.stop())

function here(parameters = ''): Place {
  const at = place()
  at.env.HOLDFAST_STORE = `mysql://root@127.0.0.1:${server.port}/test${parameters}`
  return at
}

const holding = ['sh', '-c', 'echo "$HOLDFAST_TOKEN" >> started; while [ ! -e go ]; do sleep 0.01; done']

async function sql(text: string): Promise<unknown[]> {
  const pool = server.pool()
  const [rows] = await pool.query(text)
  await pool.end()
  return rows as unknown[]
}

describe('on one server', () => {
  it('run, ls, show, watch and revoke work as on SQLite', async () => {
    const at = here('?database=cli')
    const watch = at.start('watch', 'jobs/k')
    await waitUntil('it watches', () => watch.stdout().includes('unknown'))
    const run = at.start('run', 'jobs/k', '--holder', 'first', '--', ...holding)
    await waitUntil('it runs', () => at.lines('started').length > 0)
    const waiting = at.start('run', 'jobs/k', '--holder', 'second', '--wait', '1m', '--', 'true')
    await waitUntil('it is seen to wait', () => /1 waiting/.test(watch.stdout()))
    expect((await at.holdfast('ls')).stdout).toMatch(/\njobs\/k +first +\d+ +[\d.]+ s +1 +second\n$/)
    expect((await at.holdfast('show', 'none')).code).toBe(1)
    expect((await at.holdfast('revoke', 'jobs/k', '--force')).code).toBe(0)
    expect((await waiting.ended).code).toBe(0)
    expect((await run.ended).code).toBe(79)
    watch.kill('SIGINT')
    expect(await watch.ended).toMatchObject({ code: 0, stderr: '' })
  })

  it('plays the demo with the fence of MySQL, and leaves nothing but the record of its lease', async () => {
    const { code, stdout } = await here().holdfast('demo', '--store')
    expect(code).toBe(0)
    expect(stdout).toMatch(/stale|refused/i)
    expect(await sql("SHOW TABLES LIKE '%registers%'")).toEqual([])
    expect(await sql("SHOW TABLES LIKE '%fence%'")).toEqual([])
  })

  it('doctor calls no problem what is none, and says what is one', async () => {
    const { stdout } = await here().holdfast('doctor', '--json')
    const { findings } = JSON.parse(stdout) as { findings: { what: string; level: string }[] }
    expect(findings.filter(({ level }) => level === 'problem' || level === 'warning')).toEqual([])
    expect(findings.map(({ what }) => what)).toEqual(
      expect.arrayContaining(['version', 'transaction_isolation', 'sql_mode', 'time_zone', 'wait_timeout']),
    )
    await sql('SET GLOBAL innodb_flush_log_at_trx_commit = 2')
    await sql('SET GLOBAL wait_timeout = 5')
    const worse = await here().holdfast('doctor')
    await sql('SET GLOBAL innodb_flush_log_at_trx_commit = 1')
    await sql('SET GLOBAL wait_timeout = 28800')
    expect(worse.stdout).toMatch(/warning +innodb_flush_log_at_trx_commit +2/)
    expect(worse.stdout).toMatch(/warning +wait_timeout +5 s/)
    expect(worse.code).toBe(0)
    await sql('SET GLOBAL read_only = 1')
    const replica = await here().holdfast('doctor')
    await sql('SET GLOBAL read_only = 0')
    expect(replica.stdout).toMatch(/problem +read_only +ON/)
    expect(replica.code).toBe(78)
  })

  it('schema prints SQL that the mariadb command takes, twice, for the store, the fence and the records', async () => {
    const client = ['--no-defaults', '-h', '127.0.0.1', '-P', String(server.port), '-u', 'root', 'test']
    const there = ['--schema', 'other `one`', '--table', 't']
    for (const args of [[], ['--fence'], ['--records'], there, [...there, '--records', '--table', 'r'], []]) {
      const { code, stdout } = await here().holdfast('schema', 'mysql', ...args)
      expect(code).toBe(0)
      execFileSync('mariadb', client, { input: stdout, stdio: ['pipe', 'ignore', 'pipe'] })
    }
    const sql = 'DESCRIBE holdfast_record; DESCRIBE holdfast_fence; DESCRIBE `other ``one```.r'
    execFileSync('mariadb', client, { input: sql, stdio: ['pipe', 'ignore', 'pipe'] })
    expect(await here().holdfast('schema', 'mysql', '--table', '')).toMatchObject({ code: 64 })
    const by = await here('?database=other%20%60one%60&table=t').holdfast('run', 'k', '--', 'true')
    expect(by).toMatchObject({ code: 0 })
  })
})

describe('doctor', () => {
  let other: MysqlServer
  beforeAll(async () => {
    const args = ['--log-bin', '--binlog-format=STATEMENT', '--server-id=1', '--sync-binlog=0']
    other = await MysqlServer.start({ stepped: true, args: [...args, '--max-statement-time=0.5'] })
  })
  afterAll(() => other.stop())

  it('says what binary log, replicas and time-outs do, and how far the clocks are apart', async () => {
    const doctor = async () => {
      const url = `mysql://root@127.0.0.1:${other.port}/test`
      const { stdout } = await place().holdfast('doctor', '--json', '--store', url)
      const { findings } = JSON.parse(stdout) as { findings: { what: string; level: string; read: string }[] }
      return Object.fromEntries(findings.map(({ what, level, read }) => [what, `${level}: ${read}`]))
    }
    other.step(3)
    const found = await doctor()
    other.step(0)
    expect(found).toMatchObject({
      binlog_format: 'problem: STATEMENT',
      sync_binlog: 'warning: 0',
      replicas: 'warning: asynchronous, if there are any',
      max_statement_time: 'warning: 0.5 s',
      'rights of this user': 'problem: not enough',
    })
    expect(found.clock).toMatch(/^warning: (2[89]|3[01])\d\d\.\d ms ahead of/)
    const pool = other.pool()
    for (const set of [
      "binlog_format = 'MIXED'",
      'sync_binlog = 1',
      'rpl_semi_sync_master_timeout = 100',
      'rpl_semi_sync_master_enabled = ON',
    ])
      await pool.query(`SET GLOBAL ${set}`)
    await pool.end()
    expect(await doctor()).toMatchObject({
      binlog_format: 'ok: MIXED',
      sync_binlog: 'ok: 1',
      replicas: 'note: semi-synchronous, 0 connected', // and after those 100 ms it goes on without
      'rights of this user': 'ok: as needed',
    })
  })
})

describe('URLs', () => {
  it.each([
    ['mysql://me:secret@db', /ends with the name of one database/],
    ['mariadb://me:secret@db/a/b', /ends with the name of one database/],
    ['mysql://me:secret@db/a?sslmode=prefer', /sslmode .* one of/],
    ['mysql://me:secret@db/a?nothing=1', /no parameter/],
    ['mysql://me:secret@db/a?retentionMs=x', /whole number/],
  ])('%s is refused without its password', async (url, message) => {
    const { code, stderr } = await place().holdfast('ls', '--store', url)
    expect(code).toBe(64)
    expect(stderr).toMatch(message)
    expect(stderr).not.toContain('secret')
  })

  it('a server that cannot be reached is told in one line, code 69, without the password', async () => {
    const { code, stderr } = await place().holdfast('ls', '--store', 'mysql://me:secret@127.0.0.1:1/x')
    expect(code).toBe(69)
    expect(stderr).toMatch(/^holdfast: cannot reach mysql:\/\/127\.0\.0\.1:1\/x: .*\n$/)
    expect(stderr).not.toContain('secret')
  })
})
