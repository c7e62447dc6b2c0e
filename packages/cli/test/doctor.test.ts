// `holdfast doctor`: each finding provoked by a real setting of a real server, and the few that no server here can have.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { cli, RedisServer, waitUntil } from '../../holdfast/test/redis/servers.js'
import type { Finding } from '../src/doctor/finding.js'
import { findingsOfServer } from '../src/doctor/redis-server.js'
import { sentinelFindings } from '../src/doctor/redis-topology.js'
import { fileSystemOf } from '../src/doctor/sqlite.js'
import { clockFinding, roundTripFinding } from '../src/doctor/times.js'
import { place } from './harness.js'

let server: RedisServer
beforeAll(async () => {
  server = await RedisServer.start()
})
afterAll(() => server.stop())

const set = (...settings: string[]) => cli(server.port, 'config', 'set', ...settings)

interface Report {
  readonly code: number | null
  readonly findings: readonly Finding[]
  get(what: string): Finding | undefined
}

async function doctor(query = '', port = server.port, credentials = ''): Promise<Report> {
  const { code, stdout, stderr } = await place().holdfast(
    ...['doctor', '--json', '--store', `redis://${credentials}127.0.0.1:${port}${query}`],
  )
  expect(stderr).toBe('')
  const { findings, problems } = JSON.parse(stdout) as { findings: Finding[]; problems: number }
  expect(problems).toBe(findings.filter(({ level }) => level === 'problem').length)
  expect(code).toBe(problems > 0 ? 78 : 0)
  // Whatever is not well says what to do, and whatever is touched is a promise or an assumption of the design.
  for (const { level, advice, touches, what } of findings) {
    expect([what, level === 'ok', advice === '']).toEqual([what, advice === '', level === 'ok'])
    for (const one of touches) expect(one).toMatch(/^(G([1-9]|1[0-3])|A[1-3]|holdSurvives|all)$/)
  }
  return { code, findings, get: (what) => findings.find((one) => one.what === what) }
}

describe('doctor on one server', () => {
  const changed = new Map<string, string>()
  const change = async (name: string, value: string) => {
    if (!changed.has(name)) changed.set(name, (await cli(server.port, 'config', 'get', name)).split('\n')[1] ?? '')
    await set(name, value)
  }
  afterEach(async () => {
    for (const [name, value] of changed) await set(name, value)
    changed.clear()
  })

  it('finds a plain server fit, exits with 0, and leaves nothing behind', async () => {
    const { code, findings, get } = await doctor()
    expect(code).toBe(0)
    for (const what of [
      'version',
      'role',
      'maxmemory-policy',
      'timeout',
      'tcp-keepalive',
      'clock',
      'round trip',
      'rights',
    ])
      expect(get(what)).toMatchObject({ level: 'ok' })
    expect(get('clock')?.read).toMatch(/ms (ahead of|behind) this machine, give or take [\d.]+ ms$/)
    expect(get('round trip')?.read).toMatch(/^median [\d.]+ ms, slowest of 15 [\d.]+ ms$/)
    expect(get('persistence')).toMatchObject({
      level: 'warning',
      read: 'none',
      touches: expect.arrayContaining(['G1', 'A3']),
    })
    expect(get('maxmemory')).toMatchObject({ level: 'note' })
    expect(get('replicas')).toMatchObject({ level: 'note', read: '0 connected, min-replicas-to-write 0' })
    expect(new Set(findings.map(({ what }) => what)).size).toBe(findings.length)
    await waitUntil('the probe is gone', async () => (await cli(server.port, 'dbsize')) === '0')
  })

  it('shows them in aligned columns, what to do below, and a sum', async () => {
    await change('maxmemory-policy', 'volatile-ttl')
    const { code, stdout } = await place().holdfast('doctor', '--store', `redis://127.0.0.1:${server.port}`)
    expect(code).toBe(78)
    const lines = stdout.split('\n')
    expect(lines[0]).toBe(`redis://127.0.0.1:${server.port}/0`)
    const column = lines[2]?.indexOf('WHAT') ?? 0
    expect(lines[3]?.slice(column)).toMatch(/^version /)
    expect(stdout).toMatch(/\nproblem: maxmemory-policy: it may evict the record of a held lease/)
    expect(stdout).toMatch(/\n1 problem, 1 warning, 2 notes\n$/)
  })

  it.each([
    ['maxmemory-policy', 'allkeys-lru', 'problem', /the memory of a fence/],
    ['maxmemory-policy', 'volatile-lru', 'problem', /nothing is evicted while maxmemory is 0/],
    ['timeout', '60', 'note', /the next command of a process that was idle/],
    ['tcp-keepalive', '0', 'warning', /pile up at the server/],
    ['client-output-buffer-limit', 'pubsub 1000 500 60', 'warning', /cut off when many are woken/],
  ])('%s %s: %s', async (name, value, level, advice) => {
    await change(name, value)
    expect((await doctor()).get(name)).toMatchObject({ level, advice: expect.stringMatching(advice) })
  })

  it.each([
    ['save', { save: '3600 1' }, 'appendonly no, save 3600 1', 'warning'],
    ['everysec', { appendonly: 'yes', appendfsync: 'everysec' }, 'appendonly yes, appendfsync everysec', 'note'],
    ['no', { appendonly: 'yes', appendfsync: 'no' }, 'appendonly yes, appendfsync no', 'warning'],
    ['always', { appendonly: 'yes', appendfsync: 'always' }, 'appendonly yes, appendfsync always', 'ok'],
  ] as const)('persistence: %s', async (_, settings, read, level) => {
    for (const [name, value] of Object.entries(settings)) await change(name, value)
    expect((await doctor()).get('persistence')).toMatchObject({ read, level })
  })

  it('maxmemory: a limit is well, until it is nearly reached', async () => {
    await change('maxmemory', '1gb')
    expect((await doctor()).get('maxmemory')).toMatchObject({
      level: 'ok',
      read: expect.stringMatching(/^1024 MiB, \d+ % used$/),
    })
    await change(
      'maxmemory',
      String(Number(/used_memory:(\d+)/.exec(await cli(server.port, 'info', 'memory'))?.[1]) + 20_000),
    )
    expect((await doctor()).get('maxmemory')).toMatchObject({ level: 'warning' })
  })

  it('replicas: none, fewer than needed, cut off unnoticed, confirmed', async () => {
    await change('min-replicas-to-write', '1')
    expect((await doctor()).get('replicas')).toMatchObject({
      level: 'problem',
      advice: expect.stringMatching(/NOREPLICAS/),
    })
    await change('min-replicas-to-write', '0')
    expect((await doctor('?replicas=1')).get('replicas')).toMatchObject({
      level: 'problem',
      advice: expect.stringMatching(/replicas=1, and fewer are connected/),
    })
    const replica = await RedisServer.start('--replicaof', `127.0.0.1 ${server.port}`)
    try {
      await waitUntil('it is connected', async () =>
        (await cli(server.port, 'info', 'replication')).includes('state=online'),
      )
      expect((await doctor()).get('replicas')).toMatchObject({
        level: 'warning',
        read: '1 connected, min-replicas-to-write 0',
        advice: expect.stringMatching(/goes on granting while one of them is promoted/),
      })
      await change('min-replicas-to-write', '1')
      expect((await doctor()).get('replicas')).toMatchObject({
        level: 'note',
        read: '1 connected, min-replicas-to-write 1 within 10 s',
      })
      expect((await doctor('?replicas=1')).get('replicas')).toMatchObject({ level: 'ok' })

      const { get, code } = await doctor('', replica.port)
      expect(code).toBe(78)
      expect(get('role')).toMatchObject({ level: 'problem', read: `replica of 127.0.0.1:${server.port}` })
      expect(get('rights')).toBeUndefined()
    } finally {
      await replica.stop()
    }
  })
})

describe('doctor as a user with few rights', () => {
  const rules =
    '~holdfast:* &holdfast:* +evalsha +eval +get +set +setrange +del +type +pttl +time +publish +subscribe +unsubscribe +scan +info +wait'
  const user = async (name: string, ...more: string[]) => {
    await cli(server.port, 'acl', 'setuser', name, 'reset', 'on', '>pw', ...rules.split(' '), ...more)
    return doctor('', server.port, `${name}:pw@`)
  }

  it('those that the page names are enough; what CONFIG would tell is unknown, and not taken for well', async () => {
    const { code, get } = await user('enough')
    expect(get('rights')).toMatchObject({ level: 'ok' })
    expect(code).toBe(0)
    for (const what of ['timeout', 'tcp-keepalive', 'client-output-buffer-limit'])
      expect(get(what)).toMatchObject({ level: 'note', read: expect.stringMatching(/^unknown: /) })
    // INFO tells these.
    expect(get('maxmemory-policy')).toMatchObject({ level: 'ok', read: 'noeviction' })
    expect(get('persistence')).toMatchObject({ level: 'warning', read: 'appendonly no, save unknown' })
    expect(get('replicas')).toMatchObject({ read: '0 connected, min-replicas-to-write unknown' })
  })

  it('without INFO nothing is known, and nothing is taken for well', async () => {
    const { get } = await user('blind', '-info')
    for (const what of ['version', 'role', 'maxmemory', 'persistence'])
      expect(get(what)).toMatchObject({ level: 'note' })
    expect(get('maxmemory-policy')).toMatchObject({ level: 'warning', read: expect.stringMatching(/^unknown: /) })
  })

  it.each([
    ['-evalsha', /cannot acquire, wait in line, .*inspect/],
    ['-subscribe', /cannot listen$/],
    ['-publish', /cannot .*release, and wake up/],
    ['-scan', /cannot list$/],
    ['-time', /cannot acquire/],
    ['resetchannels', /cannot .*listen/],
    ['resetkeys', /cannot acquire/],
  ])('%s is missed', async (rule, read) => {
    const { code, get } = await user('poor', rule)
    expect(code).toBe(78)
    expect(get('rights')).toMatchObject({
      level: 'problem',
      read: expect.stringMatching(read),
      advice: expect.stringMatching(/the ACL needs \+evalsha|ls needs \+scan/),
    })
  })
})

describe('doctor on SQLite', () => {
  it('reads its journal and its file system', async () => {
    const { code, stdout } = await place().holdfast('doctor')
    expect(code).toBe(0)
    expect(stdout).toMatch(/ok +version +SQLite 3\./)
    expect(stdout).toMatch(/ok +journal mode +wal +G1/)
    expect(stdout).toMatch(/ file system +\w+ /)
  })

  it('knows what a folder lies on', () => {
    const mounts = [
      '1 0 8:1 / / rw - ext4 /dev/x rw',
      '2 1 0:5 / /tmp rw shared:1 - nfs4 host:/x rw',
      '3 1 0:6 / /tmp\\040x rw - tmpfs x rw',
      '',
    ].join('\n')
    expect(fileSystemOf('/', mounts)).toBe('ext4')
    expect(fileSystemOf('/tmp', mounts)).toBe('nfs4')
    expect(fileSystemOf('/usr', mounts)).toBe('ext4')
    expect(fileSystemOf('/tmp', `${mounts}4 2 0:7 / /tmp rw - xfs x rw\n`)).toBe('xfs')
  })
})

describe('what no server here has', () => {
  const reading = (info: Record<string, string>, settings: Record<string, string> = {}) => ({
    info: new Map(Object.entries(info)),
    setting: (name: string) => settings[name],
  })
  const look = (what: string, ...args: Parameters<typeof reading>) =>
    findingsOfServer(reading(...args), { replicas: 0, failsOver: false }).find((one) => one.what === what)

  it.each([
    [{ redis_version: '6.0.16' }, 'problem', '6.0.16'],
    [{ redis_version: '6.2.0' }, 'note', '6.2.0'],
    [{ redis_version: '7.2.4', server_name: 'valkey' }, 'note', '7.2.4 (Valkey)'],
    [{ redis_version: '7.0.15' }, 'ok', '7.0.15'],
  ])('the version %j: %s', (info, level, read) => {
    expect(look('version', info)).toMatchObject({ level, read })
  })

  it('keys that were evicted, and a disk that fails', () => {
    expect(look('maxmemory-policy', { maxmemory_policy: 'allkeys-lfu', evicted_keys: '7' })).toMatchObject({
      level: 'problem',
      read: 'allkeys-lfu, 7 keys evicted so far',
    })
    expect(
      look('persistence', { aof_last_write_status: 'err' }, { appendonly: 'yes', appendfsync: 'always' }),
    ).toMatchObject({ level: 'problem' })
  })

  it('clocks that are apart, by more than the error', () => {
    expect(clockFinding({ offsetMs: -1_500, errorMs: 400, roundTripsMs: [] })).toMatchObject({
      level: 'warning',
      read: '1500.0 ms behind this machine, give or take 400.0 ms',
    })
    expect(clockFinding({ offsetMs: -1_300, errorMs: 400, roundTripsMs: [] }).level).toBe('ok')
  })

  it('a network that is slow for its ttl', () => {
    const level = (slowest: number) =>
      roundTripFinding({ offsetMs: 0, errorMs: 0, roundTripsMs: [1, 2, slowest] }).level
    expect([3, 93, 95, 900, 1_000].map(level)).toEqual(['ok', 'ok', 'note', 'note', 'warning'])
  })

  it('sentinels that do not agree, are too few, or take the primary for down', async () => {
    const fields = {
      ip: '10.0.0.1',
      port: '1',
      'num-other-sentinels': '2',
      quorum: '2',
      'down-after-milliseconds': '1000',
    }
    const asked = (more: object) => ({
      where: 'a',
      send: async () => Object.entries({ ...fields, 'failover-timeout': '5000', ...more }).flat(),
    })
    const levels = async (...more: object[]) => (await sentinelFindings(more.map(asked), 'x')).map(({ level }) => level)
    expect(await levels({}, {})).toEqual(['ok', 'ok'])
    expect(await levels({}, { port: '2' })).toEqual(['ok', 'ok', 'problem'])
    expect(await levels({ 'num-other-sentinels': '1' })).toEqual(['warning'])
    expect(await levels({ flags: 'master,s_down' })).toEqual(['problem'])
    expect(await levels({ quorum: '1' })).toEqual(['note'])
    expect(await levels({ quorum: '4' })).toEqual(['problem'])
    expect(await levels({ 'down-after-milliseconds': '30000' })).toEqual(['note'])
  })
})
