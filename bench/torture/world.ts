// The servers of one fault and what stands between them and a library: real redis-servers, real sockets, a TCP proxy. All of it is
// cleared away at the end, whatever happened.
import { type TcpProxy, tcpProxy } from 'holdfast/testing/proxy'
import { Redis } from 'ioredis5'
import { RedisServer } from '../../packages/holdfast/test/redis/servers.js'
import { countSent } from '../measure/sent.js'
import type { Library, Locks, OpenOptions } from '../peers/library.js'
import { KEY } from './fault.js'

export interface ConnectOptions extends OpenOptions {
  /** The ports, where they are not those of all servers. */
  readonly ports?: readonly number[]
  /** The ttl that the fault will use, where the library has to know the lock by then. */
  readonly ttlMs?: number
  /** ioredis' own limit for a command. Default none, as in ioredis. */
  readonly commandTimeoutMs?: number
}

export class World {
  readonly servers: readonly RedisServer[]
  readonly #closing: (() => unknown)[] = []
  readonly #counts: (() => number)[] = []

  private constructor(servers: readonly RedisServer[]) {
    this.servers = servers
  }

  static async start(servers: number): Promise<World> {
    return new World(await Promise.all(Array.from({ length: servers }, () => RedisServer.start())))
  }

  get server(): RedisServer {
    const [server] = this.servers
    if (server === undefined) throw new Error('this fault asked for no server')
    return server
  }

  /** A proxy in front of a server. */
  async proxy(server = this.server): Promise<TcpProxy> {
    const proxy = await tcpProxy({ port: server.port })
    this.#closing.push(() => proxy.close())
    return proxy
  }

  /** An ioredis client, with the options that ioredis has by default. */
  client(port = this.server.port, commandTimeoutMs?: number): Redis {
    const client = new Redis(
      port,
      '127.0.0.1',
      commandTimeoutMs === undefined ? {} : { commandTimeout: commandTimeoutMs },
    )
    client.on('error', () => {}) // what befalls a connection is the fault; without a listener ioredis prints it
    this.#counts.push(countSent(client))
    this.#closing.push(() => client.disconnect())
    return client
  }

  /** A library in use: it has taken and given back the lock, so that connections are up and scripts are known to the servers. */
  async open(library: Library, options: ConnectOptions = {}): Promise<Locks> {
    const { ports = this.servers.map(({ port }) => port), commandTimeoutMs, ttlMs = 1_000, ...rest } = options
    const locks = await library.open(
      ports.map((port) => this.client(port, commandTimeoutMs)),
      rest,
    )
    if (locks.close !== undefined) this.#closing.push(() => locks.close?.())
    const lock = await locks.acquire(KEY, ttlMs)
    await lock.release()
    return locks
  }

  /** Counts the commands that clients of this world send from now on. */
  counter(): () => number {
    const before = this.#sent()
    return () => this.#sent() - before
  }

  #sent(): number {
    return this.#counts.reduce((sum, count) => sum + count(), 0)
  }

  async close(): Promise<void> {
    for (const server of this.servers) server.thaw()
    for (const close of this.#closing.reverse()) await Promise.race([Promise.resolve(close()).catch(() => {}), soon()])
    await Promise.all(this.servers.map((server) => server.stop()))
  }
}

/** A library that cannot be closed holds nobody up. */
const soon = () => new Promise((resolve) => setTimeout(resolve, 1_000))
