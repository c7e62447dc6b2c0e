// The command line on a real etcd: URLs, the everyday commands, and doctor.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { EtcdServer, etcdctl } from '../../holdfast/test/etcd/servers.js'
import { type Place, place } from './harness.js'

describe('etcd:', () => {
  let server: EtcdServer
  beforeAll(async () => {
    server = await EtcdServer.start()
  }, 90_000)
  afterAll(() => server?.stop())
  const here = (): Place => {
    const at = place()
    at.env.HOLDFAST_STORE = `etcd://127.0.0.1:${server.port}`
    return at
  }

  it('runs a command under a lease, and shows it', async () => {
    const { code, stdout } = await here().holdfast('run', 'report', '--', 'echo', 'done')
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: 'done\n' })
    expect(await etcdctl(server.url, 'get', '--print-value-only', 'holdfast/r/report')).toContain('"holder"')
  }, 60_000)

  it('doctor reads the cluster', async () => {
    const { code, stdout } = await here().holdfast('doctor')
    expect(code).toBe(0)
    for (const what of [/etcd 3\./, /alarms/, /leader/, /1 that vote/, /rights of this user/])
      expect(stdout).toMatch(what)
  }, 60_000)

  it.each([
    ['etcd://me:secret@db/a', /has no path/],
    ['etcd://me@db', /both user and password/],
    ['etcd://db?nothing=1', /no parameter/],
  ])('%s is refused', async (wrong, why) => {
    const { code, stderr } = await place().holdfast('ls', '--store', wrong)
    expect(code).toBe(64)
    expect(stderr).toMatch(why)
    expect(stderr).not.toContain('secret')
  })
})
