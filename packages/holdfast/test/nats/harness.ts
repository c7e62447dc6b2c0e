// What the tests of the NATS store share: a server, connections to it, straight or through a proxy, and buckets.
import { Kvm } from '@nats-io/kv'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { type NatsKv, type NatsStore, natsStore } from '../../src/stores/nats/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import { NatsServer } from './servers.js'

/** What a store asks of a bucket. */
export interface Asked {
  reads: number
  writes: number
  /** The most writes that were under way at once. */
  writesAtOnce: number
}

/** A bucket that counts what it is asked. */
export function counted(bucket: NatsKv): { kv: NatsKv; asked: Asked } {
  const asked: Asked = { reads: 0, writes: 0, writesAtOnce: 0 }
  let underWay = 0
  const kv: NatsKv = {
    get(key) {
      asked.reads++
      return bucket.get(key)
    },
    put(key, data, options) {
      asked.writes++
      asked.writesAtOnce = Math.max(asked.writesAtOnce, ++underWay)
      return bucket.put(key, data, options).finally(() => underWay--)
    },
    delete: (key, options) => bucket.delete(key, options),
    keys: () => bucket.keys(),
    watch: (options) => bucket.watch(options),
    status: () => bucket.status(),
  }
  return { kv, asked }
}

export class NatsBench {
  readonly server: NatsServer
  readonly #connections: NatsConnection[] = []
  readonly #proxies: TcpProxy[] = []

  private constructor(server: NatsServer) {
    this.server = server
  }

  static async start(): Promise<NatsBench> {
    return new NatsBench(await NatsServer.start())
  }

  async connection(port = this.server.port): Promise<NatsConnection> {
    const connection = await connect({
      servers: `nats://127.0.0.1:${port}`,
      reconnectTimeWait: 100,
      maxReconnectAttempts: -1,
      pingInterval: 500,
      maxPingOut: 2,
    })
    this.#connections.push(connection)
    return connection
  }

  /** A bucket, by a connection of its own. */
  async bucket(name: string, options: object = {}, port = this.server.port) {
    return await new Kvm(await this.connection(port)).create(name, options)
  }

  async store(name: string, port = this.server.port): Promise<NatsStore> {
    return natsStore(await this.bucket(name, {}, port))
  }

  async proxy(): Promise<TcpProxy> {
    const proxy = await tcpProxy({ port: this.server.port })
    this.#proxies.push(proxy)
    return proxy
  }

  async stop(): Promise<void> {
    for (const connection of this.#connections) await connection.close().catch(() => {})
    for (const proxy of this.#proxies) await proxy.close()
    await this.server.stop()
  }
}
