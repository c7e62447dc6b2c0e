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
  standalone(port: number, user?: { username: string; password: string }): Promise<Connected>
  cluster(cluster: RedisCluster): Promise<Connected>
  sentinel(replication: RedisReplication): Promise<Connected>
  /**
   * Sends what the client opens for its wake-ups elsewhere: to this port, or in a Cluster and through Sentinel to that of each node.
   * `heard` is told of every message that comes that way.
   */
  listenThrough(client: RedisClient, port: number | ReadonlyMap<number, number>, heard?: () => void): void
}

const quiet = () => {}
const host = '127.0.0.1'

/** Where each node of a Cluster is to be looked for, as both drivers want it. */
const addresses = (ports: ReadonlyMap<number, number>) =>
  Object.fromEntries([...ports].map(([port, other]) => [`${host}:${port}`, { host, port: other }]))

/** Lets a client's `duplicate` add these options, and shows what it made. */
function duplicateWith<Made>(
  client: RedisClient,
  more: (given: unknown[]) => unknown[],
  look: (made: Made) => void,
): void {
  const able = client as unknown as { duplicate(...options: unknown[]): Made }
  const duplicate = able.duplicate.bind(able)
  able.duplicate = (...given) => {
    const made = duplicate(...more(given))
    look(made)
    return made
  }
}

type Primary = RedisClient & { readonly options?: { readonly socket?: { readonly port?: number } } }
type Execute = (readonly: boolean, work: (primary: Primary) => unknown) => Promise<unknown>

type Subscribe = (channel: string, listener: (...message: string[]) => void) => Promise<unknown>

const ioredis = (name: string, Redis: typeof Redis6, Cluster: typeof Cluster6): ClientKind => ({
  name,
  async standalone(port, user) {
    const client = new Redis({ host, port, ...user })
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
  listenThrough(client, port, heard = quiet) {
    const more = ([first, second]: unknown[]): unknown[] =>
      typeof port === 'number'
        ? [{ ...(first as object), port }]
        : 'isCluster' in client && client.isCluster
          ? [first, { ...(second as object), natMap: addresses(port) }]
          : [{ ...(first as object), natMap: addresses(port) }]
    duplicateWith<InstanceType<typeof Redis6>>(client, more, (made) => {
      made.on('message', heard).on('smessage' as 'message', heard)
    })
  },
})

const nodeRedis = (name: string, driver: typeof nodeRedis6): ClientKind => ({
  name,
  async standalone(port, user) {
    const client = driver.createClient({ ...user, socket: { host, port } })
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
  listenThrough(client, port, heard = quiet) {
    if ('getMasterNode' in client && typeof port !== 'number') {
      // Through sentinels it duplicates its client of the primary.
      const sentinel = client as unknown as { _execute: Execute }
      const execute = sentinel._execute.bind(sentinel)
      sentinel._execute = (readonly, work) =>
        execute(readonly, (primary) => {
          const nodePort = primary.options?.socket?.port ?? 0
          this.listenThrough(primary, port.get(nodePort) ?? nodePort, heard)
          return work(primary)
        })
      return
    }
    const other = typeof port === 'number' ? { socket: { host, port } } : { nodeAddressMap: addresses(port) }
    const more = ([given]: unknown[]) => [{ ...(given as object | undefined), ...other }]
    duplicateWith<{ subscribe: Subscribe; sSubscribe: Subscribe }>(client, more, (made) => {
      const through =
        (subscribe: Subscribe): Subscribe =>
        (channel, listener) =>
          subscribe(channel, (...message) => {
            heard()
            listener(...message)
          })
      made.subscribe = through(made.subscribe.bind(made))
      made.sSubscribe = through(made.sSubscribe.bind(made))
    })
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
