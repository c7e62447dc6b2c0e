// Real Redis masters that know nothing of each other: what a quorum is made of in earnest.
import type { ClientKind, Connected } from '../redis/clients.js'
import { RedisServer } from '../redis/servers.js'

/** Independent masters. */
export class Masters {
  readonly servers: readonly RedisServer[]

  private constructor(servers: readonly RedisServer[]) {
    this.servers = servers
  }

  static async start(count: number): Promise<Masters> {
    return new Masters(await Promise.all(Array.from({ length: count }, () => RedisServer.start())))
  }

  /** Lets this process end while they run. */
  unref(): void {
    for (const server of this.servers) server.unref()
  }

  get ports(): number[] {
    return this.servers.map(({ port }) => port)
  }

  at(place: number): RedisServer {
    const server = this.servers[place]
    if (server === undefined) throw new Error(`no master ${place}`)
    return server
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()))
  }
}

export const connectAll = (kind: ClientKind, ports: readonly number[]): Promise<Connected[]> =>
  Promise.all(ports.map((port) => kind.standalone(port)))
