// Cases of the field on a real server, as data: each runs against Holdfast, which must pass, and against what people write
// themselves, which must fail for the reason that the case names. Each has a server of its own, and proxies where it wants them.
import { createLeases } from '../../src/lease/leases.js'
import type { LeaseStore } from '../../src/store/contract.js'
import { type RedisClient, redisStore } from '../../src/stores/redis/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import type { ClientKind } from './clients.js'
import { pass, type RedisCluster, RedisServer } from './servers.js'

export interface CaseLease {
  readonly token: number
  readonly held: boolean
  readonly remainingMs: number
  readonly signal: AbortSignal
  renew(): Promise<void>
  release(): Promise<unknown>
}

export interface CaseOptions {
  ttlMs?: number
  waitMs?: number
  renewEveryMs?: number
  renew?: boolean
  signal?: AbortSignal
  /** How a naive client waits. Holdfast has one way. */
  wait?: 'by polling' | 'for a message' | 'in line'
}

export interface CaseClient {
  acquire(key: string, options?: CaseOptions): Promise<CaseLease>
  hold<T>(key: string, options: CaseOptions, work: (lease: CaseLease) => T | PromiseLike<T>): Promise<T>
  close(): unknown
}

export interface Place {
  /** Where commands go. */
  readonly port: number
  /** Where the connection for wake-ups goes; default the same. */
  readonly listenPort?: number
  /** Time-out of one command. Default: that of the client. */
  readonly callTimeoutMs?: number
}

/** What is seen of a key by somebody else, straight from the server. */
export interface Look {
  readonly held: boolean
  readonly remainingMs: number
}

/** How clients of one make are made. */
export interface Maker {
  readonly name: string
  /** The key in Redis. */
  keyOf(key: string): string
  client(place: Place): Promise<CaseClient>
  clusterClient(cluster: RedisCluster): Promise<CaseClient>
  look(place: Place, key: string): Promise<Look>
}

export interface ServerCase {
  /** The number of the case: it stands in the test's title. */
  readonly id: `C${string}`
  readonly title: string
  /** What is said of the naive client, and so why it fails. */
  readonly naive: RegExp
  run(stage: Stage): Promise<void>
}

/** A case that needs a Cluster. */
export interface ClusterCase extends Omit<ServerCase, 'run'> {
  run(client: CaseClient): Promise<void>
}

export type Outcome<T> = { readonly value: T; readonly error?: undefined } | { readonly error: Error }

/** What a case plays on: a server of its own. */
export class Stage {
  readonly server: RedisServer
  readonly #maker: Maker
  readonly #closing: { close(): unknown }[] = []

  private constructor(server: RedisServer, maker: Maker) {
    this.server = server
    this.#maker = maker
  }

  static async play({ run }: ServerCase, maker: Maker): Promise<void> {
    const stage = new Stage(await RedisServer.start(), maker)
    try {
      await run(stage)
    } finally {
      for (const thing of stage.#closing.reverse()) await thing.close()
      await stage.server.stop()
    }
  }

  /** A client, by default straight to the server. */
  async client(place: Partial<Place> = {}): Promise<CaseClient> {
    const client = await this.#maker.client({ port: this.server.port, ...place })
    this.#closing.push(client)
    return client
  }

  async proxy(): Promise<TcpProxy> {
    const proxy = await tcpProxy({ port: this.server.port })
    this.#closing.push(proxy)
    return proxy
  }

  look(key: string): Promise<Look> {
    return this.#maker.look({ port: this.server.port }, key)
  }

  keyOf(key: string): string {
    return this.#maker.keyOf(key)
  }
}

/** Holdfast with one of the drivers. */
export function holdfast(kind: ClientKind): Maker {
  const make = (client: RedisClient, close: () => unknown, callTimeoutMs?: number): CaseClient => {
    const leases = createLeases({
      store: redisStore(client),
      ...(callTimeoutMs === undefined ? undefined : { callTimeoutMs }),
    })
    const plain = ({ wait: _, ...options }: CaseOptions = {}) => options
    return {
      acquire: (key, options) => leases.acquire(key, plain(options)),
      hold: (key, options, work) => leases.hold(key, plain(options), work),
      async close() {
        leases.close({ drainMs: 0 }).catch(() => {})
        await close()
      },
    }
  }
  return {
    name: `Holdfast, ${kind.name}`,
    keyOf: (key) => `holdfast:${key}`,
    async client({ port, listenPort, callTimeoutMs }) {
      const { client, close } = await kind.standalone(port)
      if (listenPort !== undefined) kind.listenThrough(client, listenPort)
      return make(client, close, callTimeoutMs)
    },
    async clusterClient(cluster) {
      const { client, close } = await kind.cluster(cluster)
      return make(client, close)
    },
    async look({ port }, key) {
      const { client, close } = await kind.standalone(port)
      const record = await (redisStore(client) as LeaseStore).inspect(key)
      await close()
      return { held: record?.state === 'held', remainingMs: record?.remainingMs ?? 0 }
    },
  }
}

/** The case has failed, and this is why. */
export function fail(why: string): never {
  throw new Error(why)
}

export function check(condition: unknown, why: string): asserts condition {
  if (!condition) fail(why)
}

/** The outcome of a promise, which must come within so many ms. */
export async function outcome<T>(
  promise: PromiseLike<T>,
  withinMs = 10_000,
  late = `no answer within ${withinMs} ms`,
): Promise<Outcome<T>> {
  const settled = Promise.resolve(promise).then(
    (value) => ({ value }),
    (error: Error) => ({ error }),
  )
  return (await Promise.race([settled, pass(withinMs)])) ?? fail(late)
}

/** Waits until a condition holds; `why` is what is said of a client with which it never does. */
export async function comes(
  why: string,
  condition: () => Promise<boolean> | boolean,
  withinMs = 10_000,
): Promise<void> {
  const untilMs = performance.now() + withinMs
  while (!(await condition())) {
    if (performance.now() > untilMs) fail(why)
    await pass(10)
  }
}
