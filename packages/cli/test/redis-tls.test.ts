// `rediss+sentinel:` and `rediss+cluster:` on real servers, whose certificates are of an authority of the test's own.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Authority, type TlsServers, tlsCluster, tlsSentinels } from '../../holdfast/test/redis/tls-servers.js'
import { MAIN, place } from './harness.js'

let authority: Authority
beforeAll(async () => {
  authority = await Authority.make()
})
afterAll(() => authority?.remove())

describe.each([
  ['rediss+sentinel', '/holdfast', () => tlsSentinels(authority)],
  ['rediss+cluster', '', () => tlsCluster(authority)],
] as const)('%s:', (scheme, path, start) => {
  let servers: TlsServers
  beforeAll(async () => {
    servers = await start()
  })
  afterAll(() => servers?.stop())
  const url = (query: string) =>
    `${scheme}://${servers.ports.map((port) => `127.0.0.1:${port}`).join(',')}${path}${query}`

  it('run holds, a second one is refused, ls and doctor look, with ?ca=', async () => {
    const at = place()
    at.env.HOLDFAST_STORE = url(`?ca=${encodeURIComponent(authority.file)}`)
    const again = [process.execPath, MAIN, 'run', 'k', '--wait', '0s', '--', 'true']
    expect(await at.holdfast('run', 'k', '--', ...again)).toMatchObject({
      code: 75,
      stderr: expect.stringContaining('is held by'),
    })
    expect(await at.holdfast('run', 'k', '--', process.execPath, MAIN, 'ls')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/\nk /),
      stderr: '',
    })
    const { code, stdout } = await at.holdfast('doctor')
    expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringMatching(/ok +(-|127\S+) +rights /) })
  })

  it('without ?ca= the certificate is not trusted, and the line says what to do', async () => {
    const { code, stderr } = await place().holdfast('ls', '--store', url(''))
    expect(code).toBe(69)
    expect(stderr).toMatch(/^holdfast: cannot reach [^\n]*certificates are trusted: \?ca=FILE\n$/)
  })
})
