// The clients that the store is tested with, by name, and how each is made.
import { Cluster as Cluster6, Redis as Redis6 } from 'ioredis'
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5'
import * as nodeRedis6 from 'redis'
import * as nodeRedis5 from 'redis5'
import type { RedisClient } from '../../src/stores/redis/index.js'
import type { RedisCluster, RedisReplication } from './servers.js'

/** A client that is connected, and how it is closed. */
export interface Connected {
  readonly client: RedisClient
  close(): Promise<void> | void
}

export interface ClientKind {
  readonly name: string
  standalone(port: number): Promise<Connected>
  cluster(cluster: RedisCluster): Promise<Connected>
  sentinel(replication: RedisReplication): Promise<Connected>
}

const quiet = () => {}
const host = '127.0.0.1'

const ioredis = (name: string, Redis: typeof Redis6, Cluster: typeof Cluster6): ClientKind => ({
  name,
  async standalone(port) {
    const client = new Redis({ host, port })
    client.on('error', quiet)
    return { client, close: () => client.disconnect() }
  },
  async cluster({ ports }) {
    const client = new Cluster(ports.map((port) => ({ host, port })))
    client.on('error', quiet)
    return { client, close: () => client.disconnect() }
  },
  async sentinel({ name: group, sentinelPorts }) {
    const client = new Redis({ sentinels: sentinelPorts.map((port) => ({ host, port })), name: group })
    client.on('error', quiet)
    return { client, close: () => client.disconnect() }
  },
})

const nodeRedis = (name: string, driver: typeof nodeRedis6): ClientKind => ({
  name,
  async standalone(port) {
    const client = driver.createClient({ socket: { host, port } })
    client.on('error', quiet)
    await client.connect()
    return { client, close: () => client.destroy() }
  },
  async cluster({ ports }) {
    const client = driver.createCluster({ rootNodes: ports.map((port) => ({ socket: { host, port } })) })
    client.on('error', quiet)
    await client.connect()
    return { client, close: () => client.destroy() }
  },
  async sentinel({ name: group, sentinelPorts }) {
    const client = driver.createSentinel({
      name: group,
      sentinelRootNodes: sentinelPorts.map((port) => ({ host, port })),
      scanInterval: 200,
    })
    client.on('error', quiet)
    await client.connect()
    return { client, close: () => client.destroy() }
  },
})

export const clientKinds: readonly ClientKind[] = [
  ioredis('ioredis 6', Redis6, Cluster6),
  ioredis('ioredis 5', Redis5 as unknown as typeof Redis6, Cluster5 as unknown as typeof Cluster6),
  nodeRedis('node-redis 6', nodeRedis6),
  nodeRedis('node-redis 5', nodeRedis5 as unknown as typeof nodeRedis6),
]

export function clientKind(name: string): ClientKind {
  const found = clientKinds.find((kind) => kind.name === name)
  if (found === undefined) throw new Error(`no client ${name}`)
  return found
}
