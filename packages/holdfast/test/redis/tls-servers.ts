// Redis behind TLS, with certificates of an authority that is made for the test: alone, through Sentinel, in a Cluster. Each server
// has a plain port as well, for the tests' own looks; what is under test is given the other one.
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../servers/ports.js'
import { cli, RedisServer, waitUntil } from './servers.js'

const run = promisify(execFile)
const HOST = '127.0.0.1'

/** An authority, and a certificate of it for this machine. */
export class Authority {
  readonly #folder: string

  private constructor(folder: string) {
    this.#folder = folder
  }

  static async make(): Promise<Authority> {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-tls-'))
    const at = (name: string) => join(folder, name)
    const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    const openssl = (...args: string[]) => run('openssl', args)
    await openssl(
      ...[
        'req',
        '-x509',
        ...newKey,
        '-days',
        '2',
        '-subj',
        '/CN=test authority',
        '-keyout',
        at('ca.key'),
        '-out',
        at('ca.pem'),
      ],
    )
    await openssl('req', ...newKey, '-subj', '/CN=localhost', '-keyout', at('key.pem'), '-out', at('request.pem'))
    writeFileSync(at('names'), `subjectAltName=DNS:localhost,IP:${HOST}\n`)
    await openssl(
      ...['x509', '-req', '-days', '2', '-in', at('request.pem'), '-CA', at('ca.pem'), '-CAkey', at('ca.key')],
      ...['-CAcreateserial', '-extfile', at('names'), '-out', at('cert.pem')],
    )
    return new Authority(folder)
  }

  /** The file of the authority's own certificate. */
  get file(): string {
    return join(this.#folder, 'ca.pem')
  }

  /** What a client has to be told. */
  get tls(): { ca: Buffer } {
    return { ca: readFileSync(this.file) }
  }

  /** Settings of a server, as its command line has them. */
  settings(port: number): string[] {
    const at = (name: string) => join(this.#folder, name)
    return [
      ...['--tls-port', String(port), '--tls-auth-clients', 'no'],
      ...['--tls-cert-file', at('cert.pem'), '--tls-key-file', at('key.pem'), '--tls-ca-cert-file', this.file],
    ]
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** Servers, and the ports at which they speak TLS. */
export interface TlsServers {
  readonly ports: readonly number[]
  stop(): Promise<void>
}

const stopAll = (servers: readonly RedisServer[]) => async () => {
  await Promise.all(servers.map((server) => server.stop()))
}

/** A primary and two sentinels, which call it `holdfast`. The ports are those of the sentinels. */
export async function tlsSentinels(authority: Authority): Promise<TlsServers> {
  const primaryPort = await freePort()
  const servers = [await RedisServer.start(...authority.settings(primaryPort), '--tls-replication', 'yes')]
  const ports: number[] = []
  for (let i = 0; i < 2; i++) {
    const [plain, port] = [await freePort(), await freePort()]
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-sentinel-'))
    const config = join(folder, 'sentinel.conf')
    const settings = authority
      .settings(port)
      .join(' ')
      .split('--')
      .map((line) => line.trim())
    const own = [`port ${plain}`, `bind ${HOST}`, `dir ${folder}`, 'tls-replication yes']
    writeFileSync(config, [...settings, ...own, `sentinel monitor holdfast ${HOST} ${primaryPort} 1`, ''].join('\n'))
    const sentinel = new RedisServer(plain, [config], 'redis-sentinel')
    await sentinel.start()
    await waitUntil('the primary', async () =>
      /\nflags\nmaster\n/.test(await cli(plain, 'sentinel', 'master', 'holdfast')),
    )
    servers.push(sentinel)
    ports.push(port)
  }
  return { ports, stop: stopAll(servers) }
}

/** Three masters that talk to each other by TLS as well. */
export async function tlsCluster(authority: Authority): Promise<TlsServers> {
  const servers: RedisServer[] = []
  const ports: number[] = []
  for (let i = 0; i < 3; i++) {
    const port = await freePort()
    const own = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf', '--tls-cluster', 'yes']
    servers.push(await RedisServer.start(...authority.settings(port), ...own))
    ports.push(port)
  }
  const hosts = ports.map((port) => `${HOST}:${port}`)
  await run('redis-cli', ['--tls', '--cacert', authority.file, '--cluster', 'create', ...hosts, '--cluster-yes'])
  for (const { port } of servers)
    await waitUntil('the cluster', async () => (await cli(port, 'cluster', 'info')).includes('state:ok'))
  return { ports, stop: stopAll(servers) }
}
