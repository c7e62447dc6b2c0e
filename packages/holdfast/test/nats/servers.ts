// Real NATS servers for the tests: one, or three with a replicated JetStream, as children of the test process.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { waitUntil } from '../redis/servers.js'
import { freePort } from '../servers/ports.js'

const HOST = '127.0.0.1'

/** A test that fails before it has stopped its servers leaves none behind. */
const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

export class NatsServer {
  readonly port: number
  readonly httpPort: number
  readonly folder = mkdtempSync(join(tmpdir(), 'holdfast-nats-'))
  #child: ChildProcess | undefined

  private constructor(port: number, httpPort: number) {
    this.port = port
    this.httpPort = httpPort
  }

  static async start(more = ''): Promise<NatsServer> {
    const server = new NatsServer(await freePort(), await freePort())
    server.#configure(more)
    await server.begin()
    return server
  }

  /** Three servers that know each other. */
  static async cluster(): Promise<NatsServer[]> {
    const servers: NatsServer[] = []
    const routes: number[] = []
    for (let i = 0; i < 3; i++) {
      servers.push(new NatsServer(await freePort(), await freePort()))
      routes.push(await freePort())
    }
    for (const [i, server] of servers.entries()) {
      const others = routes.map((port) => `nats-route://${HOST}:${port}`).join(', ')
      server.#configure(`cluster { name: "test", listen: "${HOST}:${routes[i]}", routes: [${others}] }`)
      server.#spawn()
    }
    for (const server of servers) await server.ready()
    await waitUntil('a leader of JetStream', async () => {
      for (const { httpPort } of servers) {
        const jsz = await json(httpPort, 'jsz')
        if ((jsz?.meta_cluster as { leader?: string } | undefined)?.leader) return true
      }
      return false
    })
    return servers
  }

  get url(): string {
    return `nats://${HOST}:${this.port}`
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  async begin(): Promise<void> {
    this.#spawn()
    await this.ready()
  }

  ready(): Promise<unknown> {
    return waitUntil(`nats-server on ${this.port}`, async () => {
      const health = await json(this.httpPort, 'healthz')
      return health?.status === 'ok'
    })
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal)
  }

  /** Lets this process end while it runs. */
  unref(): void {
    this.#child?.unref()
  }

  /** Ends it at once; its data stay. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  async stop(): Promise<void> {
    await this.#end('SIGKILL')
    rmSync(this.folder, { recursive: true, force: true })
  }

  #configure(more: string): void {
    const text = `server_name: "n${this.port}"
listen: "${HOST}:${this.port}"
http: "${HOST}:${this.httpPort}"
jetstream { store_dir: "${this.folder}/js" }
${more}
`
    writeFileSync(join(this.folder, 'nats.conf'), text)
  }

  #spawn(): void {
    const child = spawn('nats-server', ['-c', join(this.folder, 'nats.conf')], { stdio: 'ignore' })
    this.#child = child
    running.add(child)
    child.once('exit', () => running.delete(child))
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGCONT')
    child.kill(signal)
    await ended
  }
}

/** What the server says of itself, or nothing yet. */
export async function json(httpPort: number, path: string): Promise<Record<string, unknown> | undefined> {
  try {
    const answer = await fetch(`http://${HOST}:${httpPort}/${path}`, { signal: AbortSignal.timeout(2_000) })
    return (await answer.json()) as Record<string, unknown>
  } catch {
    return undefined
  }
}
