// The command line on a real NATS server: URLs, the everyday commands, and doctor.
import { writeFileSync } from 'node:fs'
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { NatsServer } from '../../holdfast/test/nats/servers.js'
import { readNatsUrl } from '../src/stores/nats.js'
import { type Place, place, waitUntil } from './harness.js'

describe('nats:', () => {
  let server: NatsServer
  beforeAll(async () => {
    server = await NatsServer.start()
  }, 60_000)
  afterAll(() => server?.stop())
  const here = (bucket = 'leases'): Place => {
    const at = place()
    at.env.HOLDFAST_STORE = `nats://127.0.0.1:${server.port}/${bucket}`
    return at
  }

  it('makes the bucket, runs a command under a lease, shows, lists and revokes it', async () => {
    const at = here()
    const held = at.start(
      'run',
      'report',
      '--ttl',
      '5s',
      '--wait',
      '6s',
      '--',
      'sh',
      '-c',
      'echo $HOLDFAST_TOKEN; read x',
    )
    await waitUntil('it holds', () => held.stdout() !== '')
    const shown = await at.holdfast('show', 'report', '--json')
    expect(JSON.parse(shown.stdout)).toMatchObject({ key: 'report', state: 'held', token: Number(held.stdout()) })
    expect((await at.holdfast('ls')).stdout).toContain('report')
    const watching = at.start('watch', 'report')
    await waitUntil('it watches', () => watching.stdout().includes('held by'))
    expect((await at.holdfast('revoke', 'report')).code).toBe(0)
    await waitUntil('it is told', () => watching.stdout().includes('revoked'))
    expect((await held.ended).code).toBe(79) // at its next renewal
    watching.kill('SIGINT')
    expect((await watching.ended).code).toBe(0)
  }, 60_000)

  it('says at the start that a short wait cannot take over from a dead holder, and again when it could not', async () => {
    const at = here()
    const held = at.start('run', 'busy', '--ttl', '6s', '--', 'sh', '-c', 'echo held; read x')
    await waitUntil('it holds', () => held.stdout() !== '')
    const { code, stderr } = await at.holdfast('run', 'busy', '--ttl', '6s', '--wait', '0s', '--', 'true')
    expect(code).toBe(75)
    expect(stderr).toMatch(/^holdfast: this store has no clock: with --wait 0ms below --ttl 6s it cannot take over/)
    expect(stderr).toMatch(/one that lives shorter than a ttl cannot take over from a dead holder/)
    held.write('go\n')
    expect((await held.ended).code).toBe(0)
  }, 60_000)

  it('plays the demo, without a fence', async () => {
    const at = place()
    const { code, stdout } = await at.holdfast('demo', '--json', '--store', `nats://127.0.0.1:${server.port}/demo`)
    expect(code).toBe(0)
    expect(stdout).toContain('"did":')
  }, 60_000)

  it('doctor reads the bucket, before it is there and after', async () => {
    const at = here('examined')
    const before = await at.holdfast('doctor')
    expect(before.code).toBe(0)
    expect(before.stdout).toMatch(/not there yet/)
    expect((await at.holdfast('run', 'a', '--', 'true')).code).toBe(0)
    const { code, stdout } = await at.holdfast('doctor')
    expect(code).toBe(0)
    for (const what of [
      /nats-server 2\./,
      /replicas +1/,
      /storage +file/,
      /max_age +none/,
      /history +1/,
      /ttl of single keys/,
    ])
      expect(stdout).toMatch(what)
    expect(stdout).toMatch(/rights of this user +as needed/)
  }, 60_000)

  it('doctor finds each setting that breaks a promise', async () => {
    const connection = await connect({ servers: server.url })
    const kvm = new Kvm(connection)
    await kvm.create('wrong', { storage: 'memory' as never, ttl: 60_000, maxValueSize: 1_000 })
    await connection.close()
    const { code, stdout } = await here('wrong').holdfast('doctor', '--json')
    expect(code).toBe(78)
    const { findings } = JSON.parse(stdout) as { findings: { what: string; level: string }[] }
    const problems = findings.filter(({ level }) => level === 'problem').map(({ what }) => what)
    expect(problems).toEqual(['storage', 'max_age', 'maxValueSize', 'rights of this user'])
    const { stderr } = await here('wrong').holdfast('run', 'a', '--wait', 'forever', '--', 'true') // it will not wait
    expect(stderr).toMatch(/bucket "wrong" forgets entries after 60000 ms/)
  }, 60_000)

  it('a server that is not there is told in one line', async () => {
    const { code, stderr } = await place().holdfast('ls', '--store', 'nats://me:secret@127.0.0.1:9/leases')
    expect(code).toBe(69)
    expect(stderr).toMatch(/^holdfast: cannot reach nats:\/\/127\.0\.0\.1:9\/leases: .+\n$/)
    expect(stderr).not.toContain('secret')
  })
})

describe('a URL', () => {
  it.each([
    ['nats://h', { servers: ['h:4222'] }, 'nats://h:4222/holdfast'],
    ['nats://u:p%40@a,b:5/jobs', { servers: ['a:4222', 'b:5'], user: 'u', pass: 'p@' }, 'nats://a:4222,b:5/jobs'],
    ['nats://token@h/jobs', { token: 'token' }, 'nats://h:4222/jobs'],
  ])('%s', (url, options, shown) => {
    const read = readNatsUrl(url)
    expect(read.options).toMatchObject(options)
    expect(read.shown).toBe(shown)
  })

  it('names files', () => {
    const at = place()
    writeFileSync(at.file('ca.pem'), 'CA')
    expect(readNatsUrl(`nats://h?ca=${at.file('ca.pem')}`).options.tls).toEqual({ ca: 'CA' })
  })

  it.each([
    ['nats://:secret@h', /token@ alone/],
    ['nats://h/a.b', /names a bucket/],
    ['nats://h?creds=/nowhere', /must name a file that can be read \(ENOENT\)/],
    ['nats://h?cert=/dev/null', /go together/],
    ['nats://h?nothing=1', /has no parameter/],
  ])('%s is refused', (url, why) => {
    expect(() => readNatsUrl(url)).toThrow(why)
  })
})
