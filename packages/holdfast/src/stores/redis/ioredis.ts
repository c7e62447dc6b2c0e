// The clients of ioredis 5 and 6, as far as they are called.
import { InvalidArgumentError } from '../../lease/errors.js'
import type { Command, Subscriber, SubscriberEvents, Wire } from './client.js'
import { redirectionOf } from './failure.js'

/** `Redis` of ioredis, connected directly or through Sentinel. */
export interface IoredisClient {
  readonly status: string
  readonly options: object
  call(command: string, ...args: string[]): Promise<unknown>
  duplicate(override?: object): unknown
}

/** `Cluster` of ioredis. */
export interface IoredisCluster {
  readonly status: string
  readonly options: object
  readonly isCluster: boolean
  call(command: string, ...args: string[]): Promise<unknown>
  duplicate(nodes?: never[], override?: object): unknown
  nodes(role?: 'master'): { call(command: string, ...args: string[]): Promise<unknown> }[]
}

/** What a duplicate of either is used for. */
interface Listener {
  on(event: string, listener: (...values: string[]) => void): unknown
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  ssubscribe(channel: string): Promise<unknown>
  sunsubscribe(channel: string): Promise<unknown>
  disconnect(): void
}

/** What keeps back what is written, so that it goes out in one packet. */
interface Corks {
  readonly stream?: { cork?(): void; uncork(): void }
}

interface Piped {
  pipeline(commands: (readonly (string | number)[])[]): {
    exec(): Promise<[Error | null, unknown][] | null>
  }
}

interface Place {
  readonly host: string
  readonly port: number
}

/** How a client outside finds what the nodes of a Cluster call by addresses of their own. */
type NatMap = Readonly<Record<string, Place>> | ((address: string) => Place | null | undefined)

export function ioredisWire(client: IoredisClient | IoredisCluster, cluster: boolean): Wire {
  const { keyPrefix, redisOptions } = client.options as { keyPrefix?: string; redisOptions?: { keyPrefix?: string } }
  if (keyPrefix || redisOptions?.keyPrefix) {
    throw new InvalidArgumentError(
      'client',
      client,
      `must have no keyPrefix, which is not applied to every command: give it none, and redisStore(client, { prefix: '${keyPrefix || redisOptions?.keyPrefix}' })`,
    )
  }
  const call = (command: Command) => client.call(...command)
  return {
    client: cluster ? 'the ioredis Cluster' : 'the ioredis client',
    cluster,

    send(_key, command, passes) {
      const { stream } = client as Corks
      if (passes !== true || cluster || typeof stream?.cork !== 'function') return call(command)
      stream.cork()
      client.call('ping').catch(() => {})
      const answer = call(command)
      stream.uncork()
      return answer
    },

    async sendAndWait(key, command, replicas, timeoutMs) {
      const both = async (to: unknown, ...before: string[][]): Promise<[unknown, unknown]> => {
        const answers = await (to as Piped).pipeline([...before, command, ['wait', replicas, timeoutMs]]).exec()
        const [first, second] = (answers ?? []).slice(before.length)
        if (first?.[0]) throw first[0]
        return [first?.[1], second?.[0] ?? second?.[1]]
      }
      try {
        return await both(client)
      } catch (error) {
        const redirection = redirectionOf(error)
        if (!cluster || redirection === undefined) throw error
        // A pipeline does not follow where WAIT is answered and the command is not. A command by itself does, and Cluster learns.
        await client.call('pttl', key)
        if (!redirection.asks) return await both(client)
        const node = nodeAt(client as IoredisCluster, redirection.address)
        if (node === undefined) throw error
        return await both(node, ['asking'])
      }
    },

    async masters() {
      if (!cluster) return [call]
      return (client as IoredisCluster).nodes('master').map((node) => (command: Command) => node.call(...command))
    },

    subscriber(sharded, events) {
      // A subscription may take longer than a command: it is tried again only when the connection is not there.
      const patient = { commandTimeout: undefined }
      const options = { ...patient, autoResubscribe: false, enableReadyCheck: false, maxRetriesPerRequest: null }
      const shards = { redisOptions: patient, shardedSubscribers: sharded, lazyConnect: false }
      const listener = (
        cluster
          ? (client as IoredisCluster).duplicate([], shards)
          : (client as IoredisClient).duplicate({ ...options, lazyConnect: false })
      ) as Listener
      return listen(listener, sharded, events)
    },

    unusable() {
      const { manuallyClosing } = client as { manuallyClosing?: boolean }
      if (client.status !== 'end' && manuallyClosing !== true) return undefined
      return 'the ioredis client has been closed: give the store one that is open, and close the store before the client'
    },
  }
}

/** The node that the Cluster calls by this address. */
function nodeAt(client: IoredisCluster, address: string): unknown {
  const { natMap } = client.options as { natMap?: NatMap }
  const colon = address.lastIndexOf(':')
  const named: Place = { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) }
  const { host, port } = (typeof natMap === 'function' ? natMap(address) : natMap?.[address]) ?? named
  return client.nodes('master').find((node) => {
    const { options } = node as { options?: Partial<Place> }
    return options?.host === host && options.port === port
  })
}

function listen(listener: Listener, sharded: boolean, events: SubscriberEvents): Subscriber {
  listener.on('error', () => {}) // it reconnects by itself
  listener.on('ready', () => events.onUp())
  if (sharded) listener.on('subscribersReady', () => events.onUp()) // of one shard: the Cluster itself was ready all the time
  listener.on(sharded ? 'smessage' : 'message', (channel = '', message = '') => events.onMessage(channel, message))
  return {
    subscribe: (channel) => (sharded ? listener.ssubscribe(channel) : listener.subscribe(channel)),
    unsubscribe: (channel) => (sharded ? listener.sunsubscribe(channel) : listener.unsubscribe(channel)),
    close: () => listener.disconnect(),
  }
}
