// The command line on a real server of Postgres: the commands, the demo with its fence, doctor, and the SQL of the tables.
import { execFileSync } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PostgresServer } from '../../holdfast/test/postgres/servers.js'
import { type Place, place, waitUntil } from './harness.js'

let server: PostgresServer
beforeAll(async () => {
  server = await PostgresServer.start()
})
afterAll(() => server.stop())

function here(parameters = ''): Place {
  const at = place()
  at.env.HOLDFAST_STORE = `${server.url}${parameters}`
  return at
}

const holding = ['sh', '-c', 'echo "$HOLDFAST_TOKEN" >> started; while [ ! -e go ]; do sleep 0.01; done']

describe('on one server', () => {
  it('run, ls, show, watch and revoke work as on SQLite', async () => {
    const at = here('?schema=cli')
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

  it('plays the demo with the fence of Postgres, and leaves nothing but the record of its lease', async () => {
    const { code, stdout } = await here().holdfast('demo', '--store')
    expect(code).toBe(0)
    expect(stdout).toMatch(/stale|refused/i)
    expect(await server.sql("select nspname from pg_namespace where nspname like '%demo%'")).toEqual([])
  })

  it('doctor finds nothing but what the test server lacks, and calls no problem what is none', async () => {
    const { stdout } = await here().holdfast('doctor', '--json')
    const { findings } = JSON.parse(stdout) as { findings: { what: string; level: string }[] }
    expect(findings.filter(({ level }) => level === 'problem' || level === 'warning').map(({ what }) => what)).toEqual([
      'durability', // the servers of the tests run with fsync off
    ])
    await server.sql("alter role postgres set default_transaction_isolation = 'serializable'")
    await server.sql("alter role postgres set synchronous_commit = 'off'")
    const worse = await here().holdfast('doctor')
    await server.sql('alter role postgres reset all')
    expect(worse.stdout).toMatch(/warning +synchronous_commit +off/)
    expect(worse.stdout).toMatch(/note +default_transaction_isolation +serializable/)
    expect(worse.code).toBe(78)
  })

  it('schema prints SQL that psql takes, twice, for the store, the fence and the records', async () => {
    const there = ['--schema', 'other "one"', '--table', 't']
    for (const args of [[], ['--fence'], ['--records'], there, [...there, '--fence', '--table', 'f'], []]) {
      const { code, stdout } = await here().holdfast('schema', 'postgres', ...args)
      expect(code).toBe(0)
      execFileSync('psql', ['-q', '-v', 'ON_ERROR_STOP=1', server.url], {
        input: stdout,
        stdio: ['pipe', 'ignore', 'pipe'],
      })
    }
    const tables = await server.sql(
      "select schemaname, tablename from pg_tables where tablename in ('holdfast_fence', 'holdfast_record', 't', 'f') order by 2",
    )
    expect(tables).toEqual([
      { schemaname: 'other "one"', tablename: 'f' },
      { schemaname: 'public', tablename: 'holdfast_fence' },
      { schemaname: 'public', tablename: 'holdfast_record' },
      { schemaname: 'other "one"', tablename: 't' },
    ])
    expect(await here().holdfast('schema', 'postgres', '--fence', '--records')).toMatchObject({ code: 64 })
    expect(await here().holdfast('schema', 'oracle')).toMatchObject({ code: 64 })
    expect(await here().holdfast('schema', 'postgres', '--table', '')).toMatchObject({ code: 64 })
  })
})

describe('doctor', () => {
  let primary: PostgresServer
  let standby: PostgresServer
  beforeAll(async () => {
    primary = await PostgresServer.start({ clock: true, settings: ['fsync = on'] })
    standby = await PostgresServer.start({ standbyOf: { primary, name: 'other' } })
  })
  afterAll(() => Promise.all([primary.stop(), standby.stop()]))

  const doctor = async (server: PostgresServer) => {
    const { stdout } = await place().holdfast('doctor', '--json', '--store', server.url)
    const { findings } = JSON.parse(stdout) as { findings: { what: string; level: string; read: string }[] }
    return Object.fromEntries(findings.map(({ what, level, read }) => [what, `${level}: ${read}`]))
  }

  it('says of replicas whether they keep what was granted, and of a standby that it grants nothing', async () => {
    await waitUntil('replication', async () => (await primary.sql('select from pg_stat_replication')).length === 1)
    expect((await doctor(primary)).replicas).toBe('warning: 1, 0 of them synchronous')
    await primary.sql("alter system set synchronous_standby_names = 'other'")
    await primary.sql('select pg_reload_conf()')
    await waitUntil('it is synchronous', async () => {
      return (await primary.sql("select from pg_stat_replication where sync_state = 'sync'")).length === 1
    })
    expect((await doctor(primary)).replicas).toBe('ok: 1, 1 of them synchronous')
    await primary.sql("alter role postgres set synchronous_commit = 'local'")
    expect((await doctor(primary)).replicas).toBe('warning: 1, 1 of them synchronous')
    await primary.sql('alter role postgres reset all')
    expect((await doctor(standby)).primary).toBe('problem: no, a standby')
  })

  it('says what each setting of the session does, and how far the clocks are apart', async () => {
    for (const set of ["idle_session_timeout = '5s'", "statement_timeout = '100ms'", "timezone = 'Asia/Seoul'"]) {
      await primary.sql(`alter role postgres set ${set}`)
    }
    await primary.sql('alter role postgres set default_transaction_read_only = on')
    primary.setClock(3)
    const found = await doctor(primary)
    primary.setClock(0)
    await primary.sql('begin read write; alter role postgres reset all; commit')
    expect(found).toMatchObject({
      idle_session_timeout: 'warning: 5000 ms',
      statement_timeout: 'warning: 100 ms',
      TimeZone: 'ok: Asia/Seoul',
      default_transaction_read_only: 'note: on',
      durability: 'ok: fsync on, full_page_writes on',
      primary: 'ok: yes',
    })
    expect(found.clock).toMatch(/^warning: (2[89]|3[01])\d\d\.\d ms ahead of/)
  })
})

describe('URLs', () => {
  it.each([
    ['postgres://me:secret@db', /ends with the name of one database/],
    ['postgres://me:secret@db/a/b', /ends with the name of one database/],
    ['postgres://me:secret@db/a?sslmode=prefer', /sslmode .* one of/],
    ['postgres://me:secret@db/a?listen=no', /listen .* true or false/],
    ['postgres://me:secret@db/a?nothing=1', /no parameter/],
    ['postgres://me:secret@db/a?retentionMs=x', /whole number/],
  ])('%s is refused without its password', async (url, message) => {
    const { code, stderr } = await place().holdfast('ls', '--store', url)
    expect(code).toBe(64)
    expect(stderr).toMatch(message)
    expect(stderr).not.toContain('secret')
  })

  it('a server that cannot be reached is told in one line, code 69, without the password', async () => {
    const { code, stderr } = await place().holdfast('ls', '--store', 'postgres://me:secret@127.0.0.1:1/x')
    expect(code).toBe(69)
    expect(stderr).toMatch(/^holdfast: cannot reach postgres:\/\/127\.0\.0\.1:1\/x: .*\n$/)
    expect(stderr).not.toContain('secret')
  })
})
