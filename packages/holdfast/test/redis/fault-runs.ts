// Faults of a server in the middle of a hold, as data: what happens, and whether two may believe at once afterwards, which is
// where the server did not keep its record (A3). The holder writes as long as it believes; the next one waits all the time.
import { createLeases, type Leases } from '../../src/lease/leases.js'
import { type RedisStore, redisStore } from '../../src/stores/redis/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import type { ClientKind, Connected } from './clients.js'
import { cli, pass, RedisServer, waitUntil } from './servers.js'

export interface FaultRun {
  readonly title: string
  /** What the docs say: with true, the plain register must show the overlap; with false, none. */
  readonly overlap: boolean
  /** What the server is started with. */
  readonly args?: readonly string[]
  /** The holder's. Default 60,000, so that it is told of a loss only long after. */
  readonly ttlMs?: number
  readonly renewEveryMs?: number
  /** Resolves when the fault is over, and the next one may get in. `giveBack` ends the first hold. */
  happen(world: World, giveBack: () => Promise<void>): Promise<void>
}

/** A server behind a proxy, and clients of one kind. */
export class World {
  readonly server: RedisServer
  readonly proxy: TcpProxy
  /** Where who comes now finds the server. */
  port: number
  readonly #kind: ClientKind
  readonly #closing: (() => unknown)[] = []

  private constructor(server: RedisServer, proxy: TcpProxy, kind: ClientKind) {
    this.server = server
    this.proxy = proxy
    this.port = server.port
    this.#kind = kind
  }

  static async start(kind: ClientKind, args: readonly string[]): Promise<World> {
    const server = await RedisServer.start(...args)
    return new World(server, await tcpProxy({ port: server.port }), kind)
  }

  /** A client through the proxy, or straight to where the server is now. */
  async leases(port = this.port): Promise<Leases> {
    const { client, close } = await this.#connect(port)
    const leases = createLeases({ store: redisStore(client) })
    this.atEnd(async () => {
      leases.close({ drainMs: 0 }).catch(() => {})
      await close()
    })
    return leases
  }

  /** A store that goes straight to where the server is now: to look. */
  async store(): Promise<RedisStore> {
    const { client, close } = await this.#connect(this.port)
    this.atEnd(close)
    return redisStore(client)
  }

  /** A client that is just being connected to a server that is killed may try for ever: it is given up. */
  async #connect(port: number): Promise<Connected> {
    const connecting = this.#kind.standalone(port)
    const connected = await Promise.race([connecting, pass(5_000)])
    if (connected !== undefined) return connected
    connecting.then(
      ({ close }) => close(),
      () => {},
    )
    throw new Error(`no connection to port ${port}`)
  }

  on(...command: string[]): Promise<string> {
    return cli(this.server.port, ...command)
  }

  atEnd(close: () => unknown): void {
    this.#closing.push(close)
  }

  async end(): Promise<void> {
    for (const close of this.#closing.reverse()) await close()
    await this.proxy.close()
    await this.server.stop()
  }
}

/** Each look is compared with the one before it: with a look right after a renewal, hardly any later one could compare well. */
async function aRenewal({ server }: World): Promise<void> {
  let before = Number.POSITIVE_INFINITY
  await waitUntil('a renewal', async () => {
    const leftMs = Number(await cli(server.port, 'pttl', 'holdfast:k'))
    const isRenewed = leftMs > before
    before = leftMs
    return isRenewed
  })
}

export const faultRuns: readonly FaultRun[] = [
  {
    title: 'killed, and started again empty',
    overlap: true,
    async happen({ server }) {
      await server.kill()
      await server.start()
    },
  },
  {
    title: 'FLUSHALL',
    overlap: true,
    async happen(world) {
      await world.on('flushall')
    },
  },
  {
    title: 'killed, and started again with a dump from before the grant',
    overlap: true,
    args: ['--dbfilename', 'dump.rdb'],
    async happen(world) {
      // The dump of before: what the server would have saved then.
      await world.on('del', 'holdfast:k')
      await world.on('save')
      await world.server.kill()
      await world.server.start()
    },
  },
  {
    title: 'the record is evicted at maxmemory',
    overlap: true,
    args: ['--maxmemory', '3mb', '--maxmemory-policy', 'allkeys-random'],
    async happen(world) {
      const fill = "for i = 1, 2000 do redis.call('SET', ARGV[1] .. ':' .. i, string.rep('x', 200)) end"
      for (let i = 0; (await world.on('exists', 'holdfast:k')) === '1'; i++) {
        await world.on('eval', fill, '0', String(i)).catch(() => {})
      }
    },
  },
  {
    title: 'a fail-over to a replica that lacks the grant',
    overlap: true,
    async happen(world) {
      // It was cut off before the grant, and is promoted now.
      const replica = await RedisServer.start()
      world.atEnd(() => replica.stop())
      // First, since a client that is just being connected to a server that is killed may try for ever.
      world.port = replica.port
      await world.server.kill()
    },
  },
  {
    title: 'a fail-over to a replica that has the grant',
    overlap: false,
    ttlMs: 4_000,
    renewEveryMs: 1_000,
    async happen(world) {
      const replica = await RedisServer.start('--replicaof', `127.0.0.1 ${world.server.port}`)
      world.atEnd(() => replica.stop())
      await waitUntil('the record there', async () => (await cli(replica.port, 'exists', 'holdfast:k')) === '1')
      world.port = replica.port
      await world.server.kill()
      await cli(replica.port, 'replicaof', 'no', 'one')
    },
  },
  {
    title: 'SCRIPT FLUSH, over and over',
    overlap: false,
    ttlMs: 10_000,
    renewEveryMs: 100,
    async happen(world, giveBack) {
      for (let i = 0; i < 30; i++) await world.on('script', 'flush')
      await giveBack()
    },
  },
  {
    title: 'the server stands still until the deadline is over (SIGSTOP)',
    overlap: false,
    ttlMs: 3_000,
    renewEveryMs: 500,
    async happen({ server }) {
      server.freeze()
      await pass(3_500)
      server.thaw()
    },
  },
  {
    title: 'the network of the holder hangs until the deadline is over',
    overlap: false,
    ttlMs: 3_000,
    renewEveryMs: 500,
    async happen({ proxy }) {
      proxy.hang()
      await pass(3_500)
      proxy.heal()
    },
  },
  {
    title: 'replies to renewals are lost for a while',
    overlap: false,
    ttlMs: 10_000,
    renewEveryMs: 200,
    async happen(world, giveBack) {
      world.proxy.swallowReplies()
      await pass(1_500)
      world.proxy.heal()
      await giveBack()
    },
  },
  {
    title: 'the reply to the release is lost',
    overlap: false,
    ttlMs: 10_000,
    async happen(world, giveBack) {
      world.proxy.swallowReplies()
      await giveBack()
      world.proxy.heal()
    },
  },
  {
    title: 'replies are lost on a connection that is cut again and again',
    overlap: false,
    ttlMs: 20_000,
    renewEveryMs: 200,
    async happen({ proxy }, giveBack) {
      for (let i = 0; i < 6; i++) {
        if (i % 2 === 0) proxy.swallowReplies()
        await pass(150)
        proxy.cut()
        proxy.heal()
        await pass(150)
      }
      await giveBack()
    },
  },
  {
    title: 'the primary is a replica for a while (READONLY), with its data',
    overlap: false,
    ttlMs: 20_000,
    renewEveryMs: 200,
    async happen(world, giveBack) {
      await world.on('replicaof', '127.0.0.1', '1')
      await pass(1_500)
      await world.on('replicaof', 'no', 'one')
      await aRenewal(world)
      await giveBack()
    },
  },
  {
    title: 'killed, and started again with all its data, which it loads for a second',
    overlap: false,
    args: ['--appendonly', 'no', '--dbfilename', 'dump.rdb', '--key-load-delay', '1000'],
    ttlMs: 20_000,
    renewEveryMs: 500,
    async happen(world, giveBack) {
      await world.on('eval', "for i = 1, 1000 do redis.call('SET', 'filler' .. i, 'x') end", '0')
      await world.on('save')
      await world.server.kill()
      await world.server.start()
      await waitUntil('all its data', async () => !(await world.on('exists', 'holdfast:k')).includes('LOADING'))
      await aRenewal(world)
      await giveBack()
    },
  },
]
