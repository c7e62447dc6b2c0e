// The command line on real servers of Redis: one, behind TLS, on a socket, through Sentinel, in a Cluster, as nodes of a quorum.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli, RedisCluster, RedisReplication, RedisServer } from '../../holdfast/test/redis/servers.js'
import { freePort } from '../../holdfast/test/servers/ports.js'
import { beating, lives, MAIN, type Place, place, tokensInTurn, waitUntil } from './harness.js'

const SECRET = 'pa/ss@wörd,%'

let server: RedisServer
beforeAll(async () => {
  server = await RedisServer.start()
  await cli(server.port, 'acl', 'setuser', 'worker', 'on', `>${SECRET}`, 'allkeys', 'allchannels', 'allcommands')
})
afterAll(() => server.stop())

const urlOf = (port: number) => `redis://127.0.0.1:${port}`

/** A place whose store is this. */
function placeOn(url: string): Place {
  const at = place()
  at.env.HOLDFAST_STORE = url
  return at
}

/** Each test has a database of its own. */
let databases = 0
const own = () => `${urlOf(server.port)}/${++databases}`

const holding = ['sh', '-c', 'echo "$HOLDFAST_TOKEN" >> started; while [ ! -e go ]; do sleep 0.01; done']

describe('on one server', () => {
  it('run, ls, show, watch and revoke work as on SQLite', async () => {
    const at = placeOn(own())
    const watch = at.start('watch', 'jobs/k')
    await waitUntil('it watches', () => watch.stdout().includes('unknown'))
    const run = at.start('run', 'jobs/k', '--holder', 'first', '--', ...holding)
    await waitUntil('it runs', () => at.lines('started').length > 0)
    const waiting = at.start('run', 'jobs/k', '--holder', 'second', '--wait', '1m', '--', 'true')
    await waitUntil('it is seen to wait', () => /1 waiting/.test(watch.stdout()))
    expect((await at.holdfast('ls', '--prefix', 'jobs/')).stdout).toMatch(
      /\njobs\/k +first +\d+ +[\d.]+ s +1 +second\n$/,
    )
    expect((await at.holdfast('ls', '--prefix', 'other/')).stderr).toBe('holdfast: no leases are held\n')
    const shown = JSON.parse((await at.holdfast('show', 'jobs/k', '--json')).stdout) as {
      token: number
      claim?: string
    }
    expect(shown.token).toBe(Number(at.lines('started')[0]))
    expect(shown).not.toHaveProperty('claim')
    expect((await at.holdfast('show', 'none')).code).toBe(1)
    expect((await at.holdfast('revoke', 'jobs/k', '--force')).code).toBe(0)
    expect((await waiting.ended).code).toBe(0)
    expect((await run.ended).code).toBe(79)
    watch.kill('SIGINT')
    expect(await watch.ended).toMatchObject({ code: 0, stderr: '' })
    expect(at.processes()).toEqual([])
  })

  it.each([
    ['that obeys SIGTERM', false],
    ['that ignores SIGTERM', true],
  ])('nobody overlaps when the holder is stopped past its ttl, with a command %s', async (_, stubborn) => {
    const at = placeOn(own())
    const run = at.start('run', 'k', '--ttl', '3s', '--', ...beating({ stubborn }))
    await waitUntil('it writes', () => at.lines('beats').length > 0)
    const command = at.processes().find(({ command }) => command.startsWith('sh -c'))?.pid ?? 0
    run.kill('SIGSTOP')
    const write = 'echo "$HOLDFAST_TOKEN" >> beats'
    expect((await at.holdfast('run', 'k', '--ttl', '3s', '--wait', '1m', '--', 'sh', '-c', write)).code).toBe(0)
    expect(lives(command)).toBe(false)
    run.kill('SIGCONT')
    expect((await run.ended).code).toBe(79)
    expect(tokensInTurn(at.lines('beats'))).toHaveLength(2)
  })

  it('the command is ended when the server dies for good, before its ttl is over; and nothing hangs', async () => {
    const mortal = await RedisServer.start()
    try {
      const at = placeOn(urlOf(mortal.port))
      const run = at.start('run', 'k', '--ttl', '3s', '--', ...beating())
      await waitUntil('it writes', () => at.lines('beats').length > 0)
      await mortal.kill()
      const { code, stderr } = await run.ended
      expect(code).toBe(79)
      expect(stderr.split('\n').filter((line) => line !== '' && !line.startsWith('holdfast: '))).toEqual([])
      expect(at.processes()).toEqual([])
    } finally {
      await mortal.stop()
    }
  })

  it('watch ends with 69 in one line when the server dies under it', async () => {
    const mortal = await RedisServer.start()
    try {
      const watch = placeOn(urlOf(mortal.port)).start('watch', 'k')
      await waitUntil('it watches', () => watch.stdout().includes('unknown'))
      await mortal.kill()
      expect(await watch.ended).toMatchObject({ code: 69, stderr: expect.stringMatching(/^holdfast: [^\n]*\n$/) })
    } finally {
      await mortal.stop()
    }
  })

  it('plays the demo with the fence of Redis, and leaves only the record of its lease', async () => {
    const at = placeOn(own())
    const { code, stdout, stderr } = await at.holdfast('demo', '--store')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(
      /writes to the fenced register with token \d+: refused as stale, since its fence has seen token/,
    )
    expect((await cli({ port: server.port, db: databases }, 'keys', '*')).split('\n')).toEqual([
      expect.stringMatching(/^holdfast:holdfast-demo-[0-9a-f]+$/),
    ])
    expect(at.processes()).toEqual([])
  })

  it.each(['SIGTERM', 'SIGKILL'] as const)('clears the demo away when %s ends it', async (signal) => {
    const at = placeOn(own())
    const demo = at.start('demo', '--store')
    await waitUntil('a is frozen', () => demo.stdout().includes('b waits for it'))
    demo.kill(signal)
    await demo.ended
    await waitUntil('all have ended', () => at.processes().length === 0)
    expect(await cli({ port: server.port, db: databases }, 'keys', '*fence*')).toBe('')
  })

  it('has a prefix of its own in the URL', async () => {
    const url = own()
    const at = placeOn(`${url}?prefix=%7Bbilling%7D%3A`)
    expect((await at.holdfast('run', 'k', '--', 'true')).code).toBe(0)
    expect(await cli({ port: server.port, db: databases }, 'keys', '*')).toBe('{billing}:k')
    expect((await at.holdfast('ls', '--all', '--store', url)).stdout).not.toContain('k ')
  })
})

describe('a password', () => {
  const withPassword = () => `redis://worker:${encodeURIComponent(SECRET)}@127.0.0.1:${server.port}/${++databases}`

  it('is decoded, and stands in no list of processes', async () => {
    const at = placeOn(withPassword())
    const run = at.start('run', 'k', '--', ...holding)
    await waitUntil('it runs', () => at.lines('started').length > 0)
    expect(at.processes().length).toBeGreaterThanOrEqual(3)
    for (const { command } of at.processes()) expect(command).not.toContain('wörd')
    await at.spawn('touch', ['go']).ended
    expect(await run.ended).toMatchObject({ code: 0, stderr: '', stdout: '' })
  })

  it.each(['', '1'])('is not repeated when it is wrong, with HOLDFAST_DEBUG=%j', async (debug) => {
    const at = placeOn(`redis://worker:wrong-secret@127.0.0.1:${server.port}`)
    at.env.HOLDFAST_DEBUG = debug
    const { code, stdout, stderr } = await at.holdfast('ls')
    expect({ code, stdout }).toEqual({ code: 69, stdout: '' })
    expect(stderr).toMatch(
      /^holdfast: cannot reach redis:\/\/127\.0\.0\.1:\d+\/0: WRONGPASS .*check the user name and the password in the URL\n/,
    )
    expect(stderr).not.toContain('wrong-secret')
    if (debug === '') expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    else expect(stderr).toMatch(/\n +at /)
  })
})

describe('a server that cannot be used gives 69 in one line:', () => {
  const failing = async (url: string) => {
    const { code, stdout, stderr } = await placeOn(url).holdfast('run', 'k', '--', 'true')
    expect({ code, stdout }).toEqual({ code: 69, stdout: '' })
    expect(stderr).toMatch(/^holdfast: cannot reach [^\n]*\n$/)
    return stderr
  }

  it.each([
    ['one that is not there', 'redis://127.0.0.1:1', /ECONNREFUSED.*nobody listens there/],
    ['a name without an address', 'redis://no-such-host.invalid', /(ENOTFOUND|EAI_AGAIN).*the host has no address/],
    ['sentinels that are not there', 'redis+sentinel://127.0.0.1:1/x', /check the addresses of the sentinels/],
    ['a Cluster that is not there', 'redis+cluster://127.0.0.1:1', /none of the servers in the URL can be reached/],
    ['a socket that is not there', 'redis://?socket=/no/such.sock', /ENOENT/],
    [
      'a quorum without a majority',
      'quorum:redis://127.0.0.1:1,redis://127.0.0.1:2',
      /no majority \(2\) of its 2 nodes/,
    ],
  ])('%s', async (_, url, message) => {
    expect(await failing(url)).toMatch(message)
  })

  it('a database that it does not have: nothing is kept in another one', async () => {
    expect(await failing(`${urlOf(server.port)}/99`)).toMatch(
      /DB index is out of range; check the number of the database/,
    )
    expect(await cli(server.port, 'keys', '*')).toBe('')
  })

  it('one that is no Cluster', async () => {
    expect(await failing(`redis+cluster://127.0.0.1:${server.port}`)).toMatch(/this is no Cluster: use a redis: URL/)
  })

  it('one that hangs', async () => {
    const hung = await RedisServer.start()
    try {
      hung.freeze()
      expect(await failing(urlOf(hung.port))).toMatch(/did not answer within 5 s/)
    } finally {
      await hung.stop()
    }
  })

  it('a replica, when it is asked to write', async () => {
    const replica = await RedisServer.start('--replicaof', `127.0.0.1 ${server.port}`)
    try {
      const { code, stderr } = await placeOn(urlOf(replica.port)).holdfast('run', 'k', '--wait', '0s', '--', 'true')
      expect(code).toBe(69)
      expect(stderr).toMatch(/this server is a replica/)
    } finally {
      await replica.stop()
    }
  })
})

describe('TLS and sockets', () => {
  it('rediss: trusts the authority that the URL names, and no other', async () => {
    const at = place()
    const [cert, key] = [at.file('cert.pem'), at.file('key.pem')]
    execFileSync(
      'openssl',
      [
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
        ...[
          '-subj',
          '/CN=localhost',
          '-addext',
          'subjectAltName=DNS:localhost,IP:127.0.0.1',
          '-keyout',
          key,
          '-out',
          cert,
        ],
      ],
      { stdio: 'ignore' },
    )
    const port = await freePort()
    const secure = await RedisServer.start(
      ...['--tls-port', String(port), '--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file', cert],
    )
    try {
      const store = (query: string) => `rediss://127.0.0.1:${port}${query}`
      const mine = `?ca=${encodeURIComponent(cert)}&cert=${encodeURIComponent(cert)}&key=${encodeURIComponent(key)}`
      expect(await at.holdfast('run', 'k', '--store', store(mine), '--', 'true')).toMatchObject({ code: 0, stderr: '' })
      const { code, stderr } = await at.holdfast('ls', '--store', store(''))
      expect(code).toBe(69)
      expect(stderr).toMatch(/certificate.*\?ca=FILE\n$/)
    } finally {
      await secure.stop()
    }
  })

  it('redis://?socket= is a socket of this machine', async () => {
    const at = place()
    const local = await RedisServer.start('--unixsocket', join(at.folder, 'redis.sock'))
    try {
      at.env.HOLDFAST_STORE = `redis://?socket=${join(at.folder, 'redis.sock')}`
      expect(await at.holdfast('run', 'k', '--', 'true')).toMatchObject({ code: 0, stderr: '' })
      expect((await at.holdfast('ls', '--all')).stdout).toMatch(/\nk /)
    } finally {
      await local.stop()
    }
  })
})

describe('through Sentinel', () => {
  it('run, ls and doctor find the primary', async () => {
    const replication = await RedisReplication.start()
    try {
      const hosts = replication.sentinelPorts.map((port) => `127.0.0.1:${port}`)
      const at = placeOn(`redis+sentinel://127.0.0.1:1,${hosts.join(',')}/${replication.name}?replicas=1`)
      expect(await at.holdfast('run', 'k', '--', process.execPath, MAIN, 'show', 'k')).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/state {8}held/),
        stderr: '',
      })
      expect((await at.holdfast('ls', '--all')).stdout).toMatch(/\nk /)
      const { stdout } = await at.holdfast('doctor')
      expect(stdout).toMatch(/warning +127\.0\.0\.1:1 +sentinel +no answer: connect ECONNREFUSED/)
      expect(stdout).toMatch(/ok +127\.0\.0\.1:\d+ +sentinel +quorum 2 of 3, down after 1 s, failover-timeout 5 s/)
      expect(stdout).toMatch(/warning +- +replicas +1 connected, min-replicas-to-write 0/)
      const unknown = await at.holdfast('ls', '--store', `redis+sentinel://${hosts[0]}/other`)
      expect(unknown.code).toBe(69)
      expect(unknown.stderr).toMatch(/check the addresses of the sentinels and the name of the primary\n$/)
    } finally {
      await replication.stop()
    }
  })
})

describe('in a Cluster', () => {
  it('run, ls, the demo and doctor work', async () => {
    const cluster = await RedisCluster.start()
    try {
      const at = placeOn(`redis+cluster://127.0.0.1:1,127.0.0.1:${cluster.ports[0]}`)
      for (const key of ['a', 'b', 'c']) expect((await at.holdfast('run', key, '--', 'true')).code).toBe(0)
      expect((await at.holdfast('ls', '--all')).stdout).toMatch(/\na [^\n]*\nb [^\n]*\nc /)
      const demo = await at.holdfast('demo', '--store')
      expect(demo).toMatchObject({ code: 0, stderr: '' })
      expect(demo.stdout).toContain('refused as stale')
      const { code, stdout } = await at.holdfast('doctor')
      expect(code).toBe(0)
      expect(stdout).toMatch(/ok +- +cluster +ok, 16384 of 16384 slots, 3 masters/)
      expect(stdout).toMatch(/ok +- +cluster-node-timeout +2000 ms/)
      expect(stdout.match(/ maxmemory-policy /g)).toHaveLength(3)
    } finally {
      await cluster.stop()
    }
  })
})

describe('a quorum', () => {
  it('works with one of three nodes down and one that hangs later; doctor says what may fail', async () => {
    const others = [await RedisServer.start(), await RedisServer.start()]
    try {
      const ports = [server.port, ...others.map(({ port }) => port)]
      const at = placeOn(`quorum:${ports.map(urlOf).join(',')},nodeTimeoutMs=3000`)
      expect((await at.holdfast('run', 'k', '--', 'true')).code).toBe(0)
      expect((await at.holdfast('demo', '--store')).stdout).toContain('no fence comes with this store')
      await others[0]?.kill()
      expect(await at.holdfast('run', 'k', '--', process.execPath, MAIN, 'ls')).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/\nk /),
        stderr: '',
      })
      const again = [process.execPath, MAIN, 'run', 'k', '--wait', '0s', '--', 'true']
      expect((await at.holdfast('run', 'k', '--', ...again)).code).toBe(75) // held, though one node fails at once
      const { code, stdout } = await at.holdfast('doctor')
      expect(stdout).toMatch(/warning +- +nodes +3, 2 of them answer; 1 may fail/)
      expect(stdout).toMatch(/warning +node 1 +node +cannot reach/)
      expect(stdout).toMatch(/warning +- +waitAfterLossMs +0 ms/)
      expect(code).toBe(0)
      others[1]?.freeze()
      const down = await at.holdfast('run', 'k', '--', 'true')
      expect(down.code).toBe(69)
      expect(down.stderr).toMatch(/no majority \(2\) of its 3 nodes can be reached: node 1: .*; node 2: /)
      const none = await at.holdfast('doctor')
      expect(none.code).toBe(78)
      expect(none.stdout).toMatch(/problem: nodes: a majority \(2\) does not answer/)
    } finally {
      await Promise.all(others.map((one) => one.stop()))
    }
  })

  it('refuses two nodes that are one server, and doctor names them', async () => {
    const at = placeOn(`quorum:${urlOf(server.port)}/1,${urlOf(server.port)}/2`)
    const run = await at.holdfast('run', 'k', '--', 'true')
    expect(run.code).toBe(64)
    expect(run.stderr).toMatch(/must be another server than/)
    const { code, stdout } = await at.holdfast('doctor')
    expect(code).toBe(78)
    expect(stdout).toMatch(/problem +- +same server +node 0 and node 1 +G1/)
    expect(stdout).toMatch(/warning +- +nodes +2, 2 of them answer; none may fail/)
  })
})
