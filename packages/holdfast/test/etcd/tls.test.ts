// TLS is the business of the caller's own `fetch`: etcd with a private authority that demands certificates of its clients, as the page says.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLeases } from '../../src/lease/leases.js'
import { type EtcdFetch, etcdFence, etcdStore } from '../../src/stores/etcd/index.js'
import { EtcdServer, waitUntil } from './servers.js'

/** An authority, a server's certificate and a client's, in a folder. */
function authority(folder: string) {
  const file = (name: string) => join(folder, name)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'ignore' })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl('req', '-x509', ...key, '-days', '2', '-subj', '/CN=ca', '-keyout', file('ca.key'), '-out', file('ca.pem'))
  writeFileSync(file('ext'), 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n')
  for (const name of ['server', 'client']) {
    openssl('req', ...key, '-subj', `/CN=${name}`, '-keyout', file(`${name}.key`), '-out', file(`${name}.csr`))
    const by = ['-CA', file('ca.pem'), '-CAkey', file('ca.key'), '-CAcreateserial', '-extfile', file('ext')]
    openssl('x509', '-req', '-in', file(`${name}.csr`), ...by, '-days', '2', '-out', file(`${name}.pem`))
  }
  return { file, read: (name: string) => readFileSync(file(name)) }
}

/** A `fetch` over node:https, as far as the store calls it. */
function fetchWith(agent: Agent): EtcdFetch {
  return (url, { method, headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const sent = request(url, { method, headers, agent, signal }, (answer) => {
        const text = async () => {
          const chunks: Buffer[] = []
          for await (const chunk of answer) chunks.push(chunk)
          return Buffer.concat(chunks).toString('utf8')
        }
        resolve({ status: answer.statusCode ?? 0, body: answer, text })
      })
      sent.on('error', reject)
      sent.end(body)
    })
}

describe('etcd with TLS', () => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-tls-'))
  const { file, read } = authority(folder)
  const agent = new Agent({ keepAlive: true, ca: read('ca.pem'), cert: read('client.pem'), key: read('client.key') })
  const fetch = fetchWith(agent)
  let server: EtcdServer
  beforeAll(async () => {
    server = await EtcdServer.start(['--unsafe-no-fsync'], {
      args: [
        ...['--cert-file', file('server.pem'), '--key-file', file('server.key')],
        ...['--client-cert-auth', '--trusted-ca-file', file('ca.pem')],
      ],
      async isHealthy(url) {
        const init = { method: 'POST' as const, headers: {}, body: '{}', signal: AbortSignal.timeout(2_000) }
        return (await fetch(`${url}/v3/maintenance/status`, init)).status === 200
      },
    })
  }, 90_000)
  afterAll(async () => {
    agent.destroy()
    await server?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  it('leases, waiting and fences go through a fetch that brings certificates', async () => {
    const store = () => etcdStore({ endpoints: [server.url], fetch })
    const [one, two] = [createLeases({ store: store() }), createLeases({ store: store() })]
    const first = await one.acquire('k')
    await first.renew()
    const waiting = two.acquire('k', { waitMs: 20_000 })
    await waitUntil('a waiter', async () => (await store().inspect('k'))?.waiters.length === 1)
    await first.release()
    const second = await waiting
    expect(second.token).toBeGreaterThan(first.token)
    const fence = etcdFence({ endpoints: [server.url], fetch })
    await fence.put(second.grant, 'register', 'second')
    await expect(fence.put(first.grant, 'register', 'first')).rejects.toMatchObject({ code: 'STALE_TOKEN' })
    await second.release()
    await one.close()
    await two.close()
  })

  it('without them nothing was done, and the error says why', async () => {
    const request = { key: 'k', claim: 'a', holder: 'h', ttlMs: 10_000 }
    const stranger = etcdStore({ endpoints: [server.url] })
    const error = await stranger.acquire(request).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({
      outcome: 'none',
      message: expect.stringMatching(/no connection to etcd.*(CERT|SIGN|VERIFY)/),
    })
    const plain = etcdStore({ endpoints: [server.url.replace('https', 'http')] })
    await expect(plain.acquire(request)).rejects.toMatchObject({ code: 'STORE_ERROR' })
  })
})
