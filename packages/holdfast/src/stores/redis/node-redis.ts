// The clients of node-redis 5 and 6, as far as they are called.
import { InvalidArgumentError } from '../../lease/errors.js'
import type { Command, Subscriber, SubscriberEvents, Wire } from './client.js'
import { redirectionOf } from './failure.js'
import { slotOf } from './slot.js'

type OnMessage = (message: string, channel: string) => void

/** What can be subscribed to. */
interface Subscribes {
  subscribe(channel: string, listener: OnMessage): Promise<unknown>
  unsubscribe(channel: string, listener: OnMessage): Promise<unknown>
}

/** The client of `createClient`. */
export interface NodeRedisClient {
  readonly isOpen: boolean
  readonly isReady: boolean
  connect(): Promise<unknown>
  sendCommand(command: string[]): Promise<unknown>
  subscribe(channel: string, listener: never): Promise<unknown>
  duplicate(): unknown
}

/** The client of `createCluster`. */
export interface NodeRedisCluster {
  readonly isOpen: boolean
  readonly masters: readonly object[]
  connect(): Promise<unknown>
  sendCommand(key: string | undefined, readonly: boolean | undefined, command: string[]): Promise<unknown>
  duplicate(): unknown
  nodeClient(node: never): unknown
}

/** The client of `createSentinel`. */
export interface NodeRedisSentinel {
  readonly isOpen: boolean
  connect(): Promise<unknown>
  sendCommand(readonly: boolean | undefined, command: string[]): Promise<unknown>
  getMasterNode(): unknown
  /** Runs on a connection of its own to the primary. */
  use(work: never): Promise<unknown>
}

type Known =
  | { readonly kind: 'client'; readonly client: NodeRedisClient }
  | { readonly kind: 'cluster'; readonly client: NodeRedisCluster }
  | { readonly kind: 'sentinel'; readonly client: NodeRedisSentinel }

interface Sends {
  sendCommand(command: string[]): Promise<unknown>
}

/** What the client of `createSentinel` has beside its commands. */
interface Sentinel {
  on(event: 'topology-change', listener: (change: { readonly type: string }) => void): unknown
  off(event: 'topology-change', listener: (change: { readonly type: string }) => void): unknown
  /** Does something with the client that it has for the primary. */
  _execute<T>(readonly: false, work: (primary: { duplicate(): unknown }) => Promise<T>): Promise<T>
}

/** A duplicate. */
interface Listener extends Subscribes {
  on(event: string, listener: () => void): unknown
  connect(): Promise<unknown>
  destroy(): void
  sSubscribe(channel: string, listener: OnMessage): Promise<unknown>
  sUnsubscribe(channel: string, listener: OnMessage): Promise<unknown>
  /** In a Cluster: who has a slot, and its connection for subscriptions. */
  readonly slots?: readonly { readonly master?: { readonly pubSub?: { readonly client: Reconnects } } }[]
}

interface Reconnects {
  on(event: 'ready', listener: () => void): unknown
}

export function nodeRedisWire(known: Known): Wire {
  const { kind, client } = known
  if ((client as { _keyPrefix?: unknown })._keyPrefix) {
    throw new InvalidArgumentError(
      'client',
      client,
      'must have no keyPrefix, which is not applied to every command: give the prefix to redisStore instead',
    )
  }
  return {
    client: kind === 'client' ? 'the node-redis client' : `the node-redis ${kind} client`,
    cluster: kind === 'cluster',

    send(key, command) {
      const words = command
      if (known.kind === 'client') return known.client.sendCommand(words)
      if (known.kind === 'sentinel') return known.client.sendCommand(false, words)
      return known.client.sendCommand(key, false, words)
    },

    async sendAndWait(key, command, replicas, timeoutMs) {
      const both = (to: Sends): Promise<[unknown, unknown]> =>
        Promise.all([to.sendCommand(command), to.sendCommand(['WAIT', String(replicas), String(timeoutMs)])])
      if (known.kind === 'client') return await both(known.client)
      if (known.kind === 'sentinel') {
        const work = (own: Own) => both({ sendCommand: (words) => own.sendCommand(false, words) })
        return (await known.client.use(work as never)) as [unknown, unknown]
      }
      try {
        return await both(await nodeOf(known.client, key))
      } catch (error) {
        const redirection = redirectionOf(error)
        if (redirection === undefined) throw error
        // One node does not follow. The Cluster does, and learns.
        await known.client.sendCommand(key, false, ['PTTL', key])
        if (!redirection.asks) return await both(await nodeOf(known.client, key))
        const node = await nodeAt(known.client, redirection.address)
        if (node === undefined) throw error
        const [, answers] = await Promise.all([node.sendCommand(['ASKING']), both(node)])
        return answers
      }
    },

    async masters() {
      if (known.kind !== 'cluster') return [(command) => this.send(undefined, command)]
      const nodes = known.client.masters.map((node) => known.client.nodeClient(node as never) as Sends | Promise<Sends>)
      return (await Promise.all(nodes)).map((node) => (command: Command) => node.sendCommand(command))
    },

    subscriber: (sharded, events) =>
      known.kind === 'sentinel'
        ? listenToPrimary(known.client as unknown as Sentinel, events)
        : listen(known.client.duplicate() as Listener, sharded, events),

    unusable() {
      if (client.isOpen) return undefined
      return `${this.client} is not connected: await client.connect() before the first lease, and close the store before the client`
    },
  }
}

interface Own {
  sendCommand(readonly: boolean, command: string[]): Promise<unknown>
}

/** The connection to the master that has the key. */
async function nodeOf(client: NodeRedisCluster, key: string): Promise<Sends> {
  const { slots } = client as unknown as { slots: readonly { master: object }[] }
  return (await client.nodeClient(slots[slotOf(key)]?.master as never)) as Sends
}

/** The connection to the node that the Cluster calls by this address. */
async function nodeAt(client: NodeRedisCluster, address: string): Promise<Sends | undefined> {
  const { nodeByAddress } = client as unknown as { nodeByAddress: ReadonlyMap<string, object> }
  const node = nodeByAddress.get(address)
  return node === undefined ? undefined : ((await client.nodeClient(node as never)) as Sends)
}

function listen(listener: Listener, sharded: boolean, events: SubscriberEvents): Subscriber {
  const heard: OnMessage = (message, channel) => events.onMessage(channel, message)
  const shards = new WeakSet<Reconnects>()
  listener.on('error', () => {}) // it reconnects by itself
  listener.on('ready', () => events.onUp())
  const connected = listener.connect()
  connected.then(
    () => sharded && events.onUp(),
    () => {},
  )
  return {
    async subscribe(channel) {
      await connected
      if (!sharded) return void (await listener.subscribe(channel, heard))
      await listener.sSubscribe(channel, heard)
      // The driver subscribes again by itself when a shard's connection comes back, and tells nobody but that connection.
      const shard = listener.slots?.[slotOf(channel)]?.master?.pubSub?.client
      if (shard === undefined || shards.has(shard)) return
      shards.add(shard)
      shard.on('ready', () => events.onUp())
    },
    async unsubscribe(channel) {
      await (sharded ? listener.sUnsubscribe(channel, heard) : listener.unsubscribe(channel, heard))
    },
    close() {
      try {
        listener.destroy()
      } catch {
        // It was closed already.
      }
    },
  }
}

/**
 * Through sentinels: a connection to the primary, and another to the next. The client has one for subscriptions itself, but does not
 * tell when that came back, and cannot replace one that died without a word.
 */
function listenToPrimary(client: Sentinel, events: SubscriberEvents): Subscriber {
  let opening: Promise<Subscriber> | undefined
  const open = async () => {
    const primary = await client._execute(false, async (node) => node)
    return listen(primary.duplicate() as Listener, false, events)
  }
  const close = () => {
    opening?.then((subscriber) => subscriber.close()).catch(() => {})
    opening = undefined
  }
  const changed = ({ type }: { readonly type: string }) => {
    if (type !== 'MASTER_CHANGE' || opening === undefined) return
    close()
    events.onUp()
  }
  client.on('topology-change', changed)
  return {
    async subscribe(channel) {
      opening ??= open()
      const asked = opening
      try {
        await (await asked).subscribe(channel)
      } catch (error) {
        if (opening === asked) close()
        throw error
      }
    },
    async unsubscribe(channel) {
      await (await opening)?.unsubscribe(channel)
    },
    close() {
      client.off('topology-change', changed)
      close()
    },
  }
}
