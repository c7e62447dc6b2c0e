// Real Redis servers for the tests: private instances on free ports, started as children of the test process, stopped by their
// process. Alone, a primary with a replica and three sentinels, or a Cluster of three masters.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Redis } from 'ioredis5' // says nothing of itself to a server: what is counted there is what the tests send
import { systemClock } from '../../src/lease/clock.js'
import { freePort } from '../servers/ports.js'

const run = promisify(execFile)
const HOST = '127.0.0.1'

/** Waits for so many ms: the tests' one way to let real time pass. */
export const pass = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    systemClock.setTimer(ms, resolve)
  })

/** Resolves with the first truthy answer. Rejects when it does not come. */
export async function waitUntil<T>(
  what: string,
  condition: () => Promise<T> | T,
  withinMs = 20_000,
): Promise<NonNullable<T>> {
  const untilMs = systemClock.monoMs() + withinMs
  while (true) {
    const answer = await condition()
    if (answer) return answer
    if (systemClock.monoMs() > untilMs) throw new Error(`not within ${withinMs} ms: ${what}`)
    await pass(10)
  }
}

/**
 * Runs a command on a server and gives its answer as text, as `redis-cli` does: errors too, and a list line by line. On a connection of
 * its own, but in this process: to start a program for each stalls a busy one, and with it the clients under test.
 */
export async function cli(
  at: number | { port: number; db: number },
  ...[verb = '', ...args]: string[]
): Promise<string> {
  const client = new Redis({
    ...(typeof at === 'number' ? { port: at } : at),
    host: HOST,
    lazyConnect: true,
    enableReadyCheck: false,
    disableClientInfo: true,
    retryStrategy: () => null,
    commandTimeout: 10_000,
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return textOf(await client.call(verb, ...args)).trim()
  } catch (error) {
    if (error instanceof Error && error.name === 'ReplyError') return error.message
    throw error
  } finally {
    client.disconnect()
  }
}

const textOf = (answer: unknown): string =>
  Array.isArray(answer) ? answer.map(textOf).join('\n') : String(answer ?? '')

const cliOrNothing = (port: number, ...command: string[]) => cli(port, ...command).catch(() => '')

/** What runs: a test that fails before it has stopped its servers leaves none behind. */
const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** One process of Redis. */
export class RedisServer {
  readonly port: number
  readonly folder = mkdtempSync(join(tmpdir(), 'holdfast-redis-'))
  readonly #args: readonly string[]
  readonly #program: string
  #child: ChildProcess | undefined

  constructor(port: number, args: readonly string[] = [], program = 'redis-server') {
    this.port = port
    this.#args = args
    this.#program = program
  }

  static async start(...args: string[]): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), args)
    await server.start()
    return server
  }

  /** Starts it, again with what is on its disk: nothing, unless it was told to save. */
  async start(): Promise<void> {
    const common = ['--port', String(this.port), '--bind', HOST, '--dir', this.folder]
    const unsaved = ['--save', '', '--appendonly', 'no', '--repl-diskless-sync-delay', '0']
    const args = this.#program === 'redis-sentinel' ? [...this.#args] : [...common, ...unsaved, ...this.#args]
    const child = spawn(this.#program, args, { stdio: 'ignore' })
    child.on('error', () => {})
    child.once('exit', () => running.delete(child))
    running.add(child)
    this.#child = child
    await waitUntil(`${this.#program} on ${this.port}`, async () => {
      if (child.exitCode !== null) throw new Error(`${this.#program} on ${this.port} ended with ${child.exitCode}`)
      return /PONG|NOAUTH|LOADING|NOPERM/.test(await cliOrNothing(this.port, 'ping'))
    })
  }

  /** Ends it as a power failure does. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
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

  async stop(): Promise<void> {
    this.thaw()
    await this.#end('SIGKILL')
    rmSync(this.folder, { recursive: true, force: true })
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill(signal)
    await exited
  }
}

/** Three masters that share the slots, each with a replica if that is asked for. */
export class RedisCluster {
  readonly nodes: readonly RedisServer[]
  readonly replicas: readonly RedisServer[]

  private constructor(all: readonly RedisServer[]) {
    this.nodes = all.slice(0, 3)
    this.replicas = all.slice(3)
  }

  static async start({ replicas = false } = {}): Promise<RedisCluster> {
    const nodes: RedisServer[] = []
    for (let i = 0; i < (replicas ? 6 : 3); i++) {
      const args = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf', '--cluster-node-timeout', '2000']
      nodes.push(await RedisServer.start(...args))
    }
    const hosts = nodes.map(({ port }) => `${HOST}:${port}`)
    await run('redis-cli', [
      '--cluster',
      'create',
      ...hosts,
      '--cluster-replicas',
      replicas ? '1' : '0',
      '--cluster-yes',
    ])
    for (const { port } of nodes) {
      await waitUntil('the cluster', async () => (await cliOrNothing(port, 'cluster', 'info')).includes('state:ok'))
    }
    const cluster = new RedisCluster(nodes)
    for (const { port } of cluster.replicas) {
      await waitUntil('the replicas', async () =>
        (await cliOrNothing(port, 'info', 'replication')).includes('master_link_status:up'),
      )
    }
    return cluster
  }

  get ports(): number[] {
    return this.nodes.map(({ port }) => port)
  }

  /** The node that has a slot. */
  async ownerOf(slot: number): Promise<{ port: number; id: string }> {
    const lines = (await cli(this.nodes[0]?.port ?? 0, 'cluster', 'nodes')).split('\n')
    for (const line of lines) {
      const [id = '', address = '', , , , , , , ...ranges] = line.split(' ')
      const has = ranges.some((range) => {
        const [from = '', to = from] = range.split('-')
        return slot >= Number(from) && slot <= Number(to)
      })
      if (has) return { id, port: Number(/:(\d+)@/.exec(address)?.[1]) }
    }
    throw new Error(`nobody has slot ${slot}`)
  }

  /** Moves a slot with its keys to another node. `between` is called when so many keys have moved: by default all. */
  async moveSlot(slot: number, between: () => Promise<void> = async () => {}, after = 100): Promise<void> {
    const from = await this.ownerOf(slot)
    const target = this.nodes.find(({ port }) => port !== from.port)
    if (target === undefined) throw new Error('no other node')
    const to = await cli(target.port, 'cluster', 'myid')
    await cli(target.port, 'cluster', 'setslot', String(slot), 'importing', from.id)
    await cli(from.port, 'cluster', 'setslot', String(slot), 'migrating', to)
    const keys = (await cli(from.port, 'cluster', 'getkeysinslot', String(slot), '100')).split('\n').filter(Boolean)
    const migrate = async (some: string[]) => {
      for (const key of some) await cli(from.port, 'migrate', HOST, String(target.port), key, '0', '5000')
    }
    await migrate(keys.slice(0, after))
    await between()
    await migrate(keys.slice(after))
    for (const { port } of [target, ...this.nodes.filter((node) => node !== target)]) {
      await cli(port, 'cluster', 'setslot', String(slot), 'node', to)
    }
  }

  /** The node that has a slot, and its replica. */
  async shardOf(slot: number): Promise<{ node: RedisServer; replica: RedisServer }> {
    const { port } = await this.ownerOf(slot)
    const node = this.nodes.find((one) => one.port === port)
    for (const replica of this.replicas) {
      const of = /master_port:(\d+)/.exec(await cli(replica.port, 'info', 'replication'))?.[1]
      if (node !== undefined && Number(of) === port) return { node, replica }
    }
    throw new Error(`the node on port ${port} has no replica`)
  }

  async stop(): Promise<void> {
    await Promise.all([...this.nodes, ...this.replicas].map((node) => node.stop()))
  }
}

/** A primary with a replica, watched by three sentinels. */
export class RedisReplication {
  readonly name = 'holdfast'
  readonly servers: readonly RedisServer[]
  readonly sentinels: readonly RedisServer[]

  private constructor(servers: readonly RedisServer[], sentinels: readonly RedisServer[]) {
    this.servers = servers
    this.sentinels = sentinels
  }

  static async start(): Promise<RedisReplication> {
    const primary = await RedisServer.start()
    const replica = await RedisServer.start('--replicaof', `${HOST} ${primary.port}`)
    await waitUntil('the replica', async () =>
      (await cliOrNothing(replica.port, 'info', 'replication')).includes('master_link_status:up'),
    )
    const sentinels: RedisServer[] = []
    for (let i = 0; i < 3; i++) {
      const port = await freePort()
      const folder = mkdtempSync(join(tmpdir(), 'holdfast-sentinel-'))
      const config = join(folder, 'sentinel.conf')
      const lines = [
        `port ${port}`,
        `bind ${HOST}`,
        `dir ${folder}`,
        `sentinel monitor holdfast ${HOST} ${primary.port} 2`,
        'sentinel down-after-milliseconds holdfast 1000',
        'sentinel failover-timeout holdfast 5000',
      ]
      writeFileSync(config, `${lines.join('\n')}\n`)
      const sentinel = new RedisServer(port, [config], 'redis-sentinel')
      await sentinel.start()
      sentinels.push(sentinel)
    }
    for (const { port } of sentinels) {
      await waitUntil('the sentinels', async () => {
        const words = (await cliOrNothing(port, 'sentinel', 'master', 'holdfast')).split('\n')
        const field = (name: string) => words[words.indexOf(name) + 1]
        return field('num-other-sentinels') === '2' && field('num-slaves') === '1'
      })
    }
    return new RedisReplication([primary, replica], sentinels)
  }

  get sentinelPorts(): number[] {
    return this.sentinels.map(({ port }) => port)
  }

  /** The port of the primary, as the sentinels see it. */
  async primary(): Promise<number> {
    const port = this.sentinels[0]?.port ?? 0
    return Number((await cli(port, 'sentinel', 'get-master-addr-by-name', this.name)).split('\n')[1])
  }

  async stop(): Promise<void> {
    await Promise.all([...this.sentinels, ...this.servers].map((server) => server.stop()))
  }
}
