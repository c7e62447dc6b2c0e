// The user's client, of whatever kind: ioredis (Redis, Sentinel, Cluster) or node-redis (client, cluster, sentinel), told
// apart by what they are. No types of theirs are imported, so that nobody needs a client that he does not use.
import { InvalidArgumentError } from '../../lease/errors.js'
import { type IoredisClient, type IoredisCluster, ioredisWire } from './ioredis.js'
import { type NodeRedisClient, type NodeRedisCluster, type NodeRedisSentinel, nodeRedisWire } from './node-redis.js'

/**
 * A client of ioredis 5 or 6 (`Redis`, also through Sentinel, or `Cluster`) or of node-redis 5 or 6 (`createClient`,
 * `createCluster`, `createSentinel`): only what is called.
 */
export type RedisClient = IoredisClient | IoredisCluster | NodeRedisClient | NodeRedisCluster | NodeRedisSentinel

/** A command, name first. */
export type Command = [name: string, ...args: string[]]

/** What the store needs of a client, said once for all kinds. */
export interface Wire {
  /** How the client is called in messages. */
  readonly client: string
  /** Whether keys have slots, and a command may only touch one. */
  readonly cluster: boolean
  /**
   * Sends a command to the server that has the key; without one, to any. `passes`: it will publish a turn, to whose claim the server
   * should write first. Redis writes what is to be written after a round of commands, to the client that came last first; so a
   * client that had an answer coming to it before, that of a PING in the same packet, is written to after the one that was published
   * to. The other way round that one waits for both to be written, and for a processor that the first is using.
   */
  send(key: string | undefined, command: Command, passes?: boolean): Promise<unknown>
  /** Sends a command and then WAIT on the same connection. Gives the answers of both. */
  sendAndWait(key: string, command: Command, replicas: number, timeoutMs: number): Promise<[unknown, unknown]>
  /** A way to each master, for what has to be asked of all. */
  masters(): Promise<((command: Command) => Promise<unknown>)[]>
  /** A connection of its own for subscriptions. `sharded`: those that go to the shard of a key. */
  subscriber(sharded: boolean, events: SubscriberEvents): Subscriber
  /** Why no command can be sent now, and what to do; undefined when one can. */
  unusable(): string | undefined
}

export interface SubscriberEvents {
  onMessage(channel: string, message: string): void
  /** The connection is there, for the first time or again: subscriptions that were there may be gone. */
  onUp(): void
}

export interface Subscriber {
  /** Resolves when the subscription is in place. */
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  /** Ends the connection, at once. */
  close(): void
}

const EXPECTED =
  'must be a client of ioredis 5 or 6 (new Redis, new Cluster) or of node-redis 5 or 6 (createClient, createCluster, createSentinel)'

/** Tells the clients apart. Throws InvalidArgumentError for what is none of them. */
export function wireOf(client: unknown): Wire {
  if (typeof client !== 'object' || client === null) throw new InvalidArgumentError('client', client, EXPECTED)
  if (has(client, 'call', 'duplicate') && 'status' in client) {
    const { isCluster } = client as { isCluster?: unknown }
    return ioredisWire(client as IoredisClient | IoredisCluster, isCluster === true)
  }
  if (has(client, 'sendCommand', 'connect') && 'isOpen' in client) {
    if (has(client, 'nodeClient')) return nodeRedisWire({ kind: 'cluster', client: client as NodeRedisCluster })
    if (has(client, 'getMasterNode', 'use')) {
      return nodeRedisWire({ kind: 'sentinel', client: client as NodeRedisSentinel })
    }
    if (has(client, 'subscribe', 'duplicate') && !('totalClients' in client)) {
      return nodeRedisWire({ kind: 'client', client: client as NodeRedisClient })
    }
    if ('totalClients' in client) {
      throw new InvalidArgumentError(
        'client',
        client,
        `${EXPECTED}, and not a pool: give it the client of createClient`,
      )
    }
  }
  if (has(client, 'multi', 'exec') && 'isPipeline' in client) {
    throw new InvalidArgumentError('client', client, `${EXPECTED}, and not a pipeline`)
  }
  throw new InvalidArgumentError('client', client, EXPECTED)
}

const has = (client: object, ...methods: string[]) =>
  methods.every((name) => typeof (client as Record<string, unknown>)[name] === 'function')
