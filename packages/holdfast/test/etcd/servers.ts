// Real etcd servers for the tests: private instances on free ports, started as children of the test process, stopped by their
// process. Alone, or three that form a cluster.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { waitUntil } from '../redis/servers.js'
import { freePort } from '../servers/ports.js'
import { PeerNetwork } from './peers.js'

export { pass, waitUntil } from '../redis/servers.js'

const exec = promisify(execFile)
const HOST = '127.0.0.1'

/** What runs: a test that fails before it has stopped its servers leaves none behind. */
const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

interface Member {
  readonly name: string
  readonly port: number
  readonly peerPort: number
  /** Where the other members dial it, when that is not where it listens. */
  readonly dialedAt?: number
  readonly folder: string
}

/** A server that takes nothing but TLS. */
export interface Secure {
  readonly args: readonly string[]
  isHealthy(url: string): Promise<boolean>
}

/** One process of etcd. */
export class EtcdServer {
  readonly port: number
  readonly folder: string
  readonly #args: readonly string[]
  readonly #secure: Secure | undefined
  #child: ChildProcess | undefined

  constructor(
    { name, port, peerPort, dialedAt = peerPort, folder }: Member,
    cluster: string,
    more: readonly string[],
    secure?: Secure,
  ) {
    this.port = port
    this.folder = folder
    this.#secure = secure
    this.#args = [
      ...['--name', name, '--data-dir', folder],
      ...['--listen-client-urls', this.url, '--advertise-client-urls', this.url],
      ...['--listen-peer-urls', `http://${HOST}:${peerPort}`, '--initial-cluster', cluster],
      ...['--initial-advertise-peer-urls', `http://${HOST}:${dialedAt}`],
      ...['--logger', 'zap', '--log-level', 'panic', ...more, ...(secure?.args ?? [])],
    ]
  }

  /** By default nothing waits for the disk. */
  static async start(more: readonly string[] = ['--unsafe-no-fsync'], secure?: Secure): Promise<EtcdServer> {
    const [member] = await members(1)
    if (member === undefined) throw new Error('no member')
    const server = new EtcdServer(member, `${member.name}=http://${HOST}:${member.peerPort}`, more, secure)
    await server.start()
    return server
  }

  get url(): string {
    return `${this.#secure === undefined ? 'http' : 'https'}://${HOST}:${this.port}`
  }

  launch(): void {
    const child = spawn('etcd', this.#args, { stdio: 'ignore' })
    child.on('error', () => {})
    child.once('exit', () => running.delete(child))
    running.add(child)
    this.#child = child
  }

  async healthy(): Promise<void> {
    await waitUntil(
      `etcd on ${this.port}`,
      async () => {
        try {
          if (this.#secure !== undefined) return await this.#secure.isHealthy(this.url)
          const { status } = await fetch(`${this.url}/health`, { signal: AbortSignal.timeout(2_000) })
          return status === 200
        } catch {
          return false
        }
      },
      60_000,
    )
  }

  /** What the members call it, as hexadecimal digits. */
  async id(): Promise<string> {
    const { header } = await post(this.url, '/v3/maintenance/status', {})
    return BigInt((header as { member_id: string }).member_id).toString(16)
  }

  /** Starts it, again with what is on its disk. */
  async start(): Promise<void> {
    this.launch()
    await this.healthy()
  }

  /** It keeps its connections, and answers nothing until `thaw`. */
  freeze(): void {
    this.#child?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#child?.kill('SIGCONT')
  }

  /** Lets this process end while it runs. */
  unref(): void {
    this.#child?.unref()
  }

  async kill(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  async stop(): Promise<void> {
    await this.kill()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Three that vote. */
export class EtcdCluster {
  readonly nodes: readonly EtcdServer[]
  readonly #network: PeerNetwork | undefined

  private constructor(nodes: readonly EtcdServer[], network: PeerNetwork | undefined) {
    this.nodes = nodes
    this.#network = network
  }

  /** `cuttable`: the members' network goes through this process, which then must not be busy for as long as an election takes. */
  static async start({ cuttable = false } = {}): Promise<EtcdCluster> {
    const made = await members(3)
    const network = cuttable ? await PeerNetwork.start(made.map(({ peerPort }) => peerPort)) : undefined
    const all = made.map((member, i) => ({ ...member, dialedAt: network?.ports[i] ?? member.peerPort }))
    const cluster = all.map(({ name, dialedAt }) => `${name}=http://${HOST}:${dialedAt}`).join(',')
    const nodes = all.map((member) => new EtcdServer(member, cluster, ['--unsafe-no-fsync']))
    for (const node of nodes) node.launch()
    await Promise.all(nodes.map((node) => node.healthy()))
    network?.knows(await Promise.all(nodes.map((node) => node.id())))
    return new EtcdCluster(nodes, network)
  }

  /** These hear nobody any more, and nobody hears them, save who asks them as a client. Where it was started as `cuttable`. */
  cutOff(...nodes: readonly EtcdServer[]): void {
    this.#network?.cutOff(...nodes.map((node) => this.nodes.indexOf(node)))
  }

  heal(): void {
    this.#network?.heal()
  }

  get urls(): string[] {
    return this.nodes.map(({ url }) => url)
  }

  /** The member that leads now, as those that answer see it. */
  async leader(): Promise<EtcdServer> {
    return await waitUntil(
      'a leader',
      async () => {
        for (const node of this.nodes) {
          const status = await post(node.url, '/v3/maintenance/status', {}).catch(() => undefined)
          if (status?.leader === undefined) continue
          if (status.leader === (status.header as { member_id?: string } | undefined)?.member_id) return node
        }
        return undefined
      },
      60_000,
    )
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()))
    await this.#network?.close()
  }
}

async function members(count: number): Promise<Member[]> {
  const made: Member[] = []
  for (let i = 0; i < count; i++) {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-etcd-'))
    made.push({ name: `n${i}`, port: await freePort(), peerPort: await freePort(), folder })
  }
  return made
}

/** One request to a gateway, as a person with curl would send it. */
export async function post(url: string, path: string, body: unknown): Promise<Record<string, unknown>> {
  const init = { method: 'POST', body: JSON.stringify(body), signal: AbortSignal.timeout(3_000) }
  const response = await fetch(url + path, init)
  const answer = (await response.json()) as Record<string, unknown>
  if (response.status !== 200) throw new Error(JSON.stringify(answer))
  return answer
}

/** Runs etcdctl. */
export async function etcdctl(url: string, ...command: string[]): Promise<string> {
  const env = { ...process.env, ETCDCTL_API: '3' }
  const { stdout } = await exec('etcdctl', ['--endpoints', url, ...command], { timeout: 20_000, env })
  return stdout.trim()
}

/** From now on nobody is let in without a name: `app`, password `p`, has what stands under `holdfast/`. Gives what root sends along. */
export async function askForUsers(url: string): Promise<{ readonly authorization: string }> {
  const ctl = (...command: string[]) => etcdctl(url, ...command)
  await ctl('user', 'add', 'root:r')
  await ctl('user', 'grant-role', 'root', 'root').catch(async () => {
    await ctl('role', 'add', 'root')
    await ctl('user', 'grant-role', 'root', 'root')
  })
  await ctl('user', 'add', 'app:p')
  await ctl('role', 'add', 'leases')
  await ctl('role', 'grant-permission', 'leases', 'readwrite', '--prefix=true', 'holdfast/')
  await ctl('user', 'grant-role', 'app', 'leases')
  await ctl('auth', 'enable')
  const { token } = await post(url, '/v3/auth/authenticate', { name: 'root', password: 'r' })
  return { authorization: String(token) }
}

/** All tokens of the user are void from now on; its password is what it was. */
export async function voidTokens(url: string, headers: { readonly authorization: string }): Promise<void> {
  const body = JSON.stringify({ name: 'app', password: 'p' })
  await fetch(`${url}/v3/auth/user/changepw`, { method: 'POST', headers, body })
}
