// Who waits for a key in this process. One connection listens for all. Who stands in a queue is told on a channel of this process,
// so that a turn wakes no other; everybody else, and everybody in a sharded Cluster, on one with the name of the key. A channel
// stays open for a while after its last watcher, so that on a busy key nobody has to subscribe anew. Messages are hints (G8):
// "!token claim", its turn has come, and with a token it holds; "*", anybody may ask; "?id", this process asks whether the
// connection still hears.
import type { Clock, Timer } from '../../lease/clock.js'
import type { Random } from '../../lease/random.js'
import type { Turn } from '../../store/contract.js'
import { Watcher } from '../../store/watcher.js'
import type { Subscriber, SubscriberEvents } from './client.js'
import { failure, isForbidden } from './failure.js'

/** For how long a channel stays open that nobody watches. */
const LINGER_MS = 10_000
/** How often a connection that has to hear something is put to the test, and how long it may take. */
const PROBE_EVERY_MS = 5_000
const PROBE_TIMEOUT_MS = 2_500
/** A failed subscription is tried again after this, then after twice as long, up to the longest. */
const AGAIN_MS = 50
const AGAIN_MS_MAX = 2_000
/** So many wake-ups of a channel for claims that do not watch here, or not yet, are kept. */
const MISSED_MAX = 1_024
/** So many claims are known to stand in the queue. */
const QUEUED_MAX = 20_000

export interface WatchesOptions {
  readonly clock: Clock
  readonly random: Random
  /** The channel of this process; empty where there can be none. */
  readonly inbox: string
  open(events: SubscriberEvents): Promise<Subscriber>
  /** Whether the watcher of a claim should ask now; leaves word that it waits, if it is not in the queue. */
  look(name: string, claim: string): Promise<unknown>
  /** Sends a message to the channel by way of the server. */
  probe(name: string, message: string): Promise<unknown>
}

interface Channel {
  readonly name: string
  readonly watchers: Map<string, Set<KeyWatcher>>
  /** Which subscription it is, counted over all; 0 while there is none. */
  generation: number
  subscribing: boolean
  attempts: number
  idleSinceMs: number
  readonly missed: Map<string, Turn | undefined>
}

export class Watches {
  readonly #options: WatchesOptions
  readonly #channels = new Map<string, Channel>()
  /** Under which subscription a claim joined the queue: what came after that has been heard. */
  readonly #queued = new Map<string, number>()
  #subscriber: Promise<Subscriber> | undefined
  #connection = 0
  #generation = 0
  #timer: Timer | undefined
  #nextProbeMs = 0
  #probing: { readonly message: string; readonly untilMs: number } | undefined
  #probed = 0
  #closed = false

  constructor(options: WatchesOptions) {
    this.#options = options
  }

  watch(name: string, claim: string, signal: AbortSignal): AsyncIterableIterator<Turn | undefined> {
    const queued = this.#queued.get(claim)
    const watcher: KeyWatcher = new KeyWatcher(name, claim, signal, () => this.#left(watcher))
    if (this.#closed) watcher.end()
    if (signal.aborted || this.#closed) return watcher
    const channel = this.#channel(queued === undefined ? name : this.#options.inbox || name)
    const others = channel.watchers.get(claim)
    if (others === undefined) channel.watchers.set(claim, new Set([watcher]))
    else others.add(watcher)
    this.#tickSoon()
    if (channel.generation === 0) this.#subscribe(channel)
    else if (queued !== channel.generation) this.#settle(channel, watcher)
    else if (channel.missed.has(claim)) watcher.hint(channel.missed.get(claim))
    channel.missed.delete(claim)
    return watcher
  }

  /** The subscription under which a claim that joins a key's queue will be told; 0 when there is none yet. To be asked before. */
  generationOf(name: string): number {
    return this.#channels.get(this.#options.inbox || name)?.generation ?? 0
  }

  /** The claim stands in the queue of a key, under this subscription. Who watched before that is told on both channels. */
  queued(name: string, claim: string, generation: number): void {
    const { inbox } = this.#options
    const early = inbox === '' ? undefined : this.#channels.get(name)?.watchers.get(claim)
    if (early !== undefined) {
      const channel = this.#channel(inbox)
      channel.watchers.set(claim, early)
      if (channel.generation === 0) this.#subscribe(channel)
    }
    if (this.#queued.size >= QUEUED_MAX && !this.#queued.has(claim)) {
      for (const oldest of this.#queued.keys()) {
        this.#queued.delete(oldest)
        break
      }
    }
    this.#queued.set(claim, generation)
  }

  /** Whether the claim has stood in the queue until just now: then others probably do. */
  waited(claim: string): boolean {
    return this.#queued.has(claim)
  }

  /** The claim waits no more. */
  unqueued(claim: string): void {
    if (this.#queued.size > 0) this.#queued.delete(claim)
  }

  close(): void {
    this.#closed = true
    this.#timer?.cancel()
    for (const channel of this.#channels.values()) for (const watcher of watchersOf(channel)) watcher.end()
    this.#channels.clear()
    this.#dropSubscriber()
  }

  #channel(name: string): Channel {
    let channel = this.#channels.get(name)
    if (channel === undefined) {
      channel = {
        name,
        watchers: new Map(),
        generation: 0,
        subscribing: false,
        attempts: 0,
        idleSinceMs: 0,
        missed: new Map(),
      }
      this.#channels.set(name, channel)
    }
    return channel
  }

  #left(watcher: KeyWatcher): void {
    this.#queued.delete(watcher.claim)
    for (const name of [watcher.name, this.#options.inbox]) {
      const channel = this.#channels.get(name)
      const others = channel?.watchers.get(watcher.claim)
      others?.delete(watcher)
      if (others?.size === 0) channel?.watchers.delete(watcher.claim)
      if (channel?.watchers.size === 0) channel.idleSinceMs = this.#options.clock.monoMs()
    }
  }

  #subscribe(channel: Channel): void {
    if (channel.subscribing) return
    channel.subscribing = true
    const connection = this.#connection
    this.#connect()
      .then((subscriber) => subscriber.subscribe(channel.name))
      .then(
        () => {
          channel.subscribing = false
          if (connection !== this.#connection) return this.#subscribeAgain(channel)
          channel.attempts = 0
          channel.generation = ++this.#generation
          channel.missed.clear()
          for (const watcher of watchersOf(channel)) this.#settle(channel, watcher)
        },
        (error) => {
          channel.subscribing = false
          if (this.#closed) return
          if (isForbidden(error)) {
            const why = failure(error, 'a subscription')
            for (const watcher of watchersOf(channel)) watcher.fail(why)
          } else this.#subscribeAgain(channel)
        },
      )
  }

  #subscribeAgain(channel: Channel): void {
    if (this.#closed || channel.watchers.size === 0) return
    const { clock, random } = this.#options
    const delayMs = Math.min(AGAIN_MS_MAX, AGAIN_MS * 2 ** Math.min(channel.attempts++, 10)) * (0.5 + random.unit() / 2)
    clock
      .setTimer(delayMs, () => {
        if (!this.#closed && channel.generation === 0 && channel.watchers.size > 0) this.#subscribe(channel)
      })
      .keepAlive(false)
  }

  /** The subscription is in place: one hint, since a release just before it went unheard. */
  #settle(channel: Channel, watcher: KeyWatcher): void {
    if (this.#queued.has(watcher.claim)) {
      this.#queued.set(watcher.claim, channel.generation)
      watcher.hint()
      return
    }
    this.#options.look(watcher.name, watcher.claim).then(
      () => watcher.hint(),
      () => watcher.hint(), // its own next question brings the trouble to light
    )
  }

  #connect(): Promise<Subscriber> {
    if (this.#subscriber !== undefined) return this.#subscriber
    const connection = this.#connection
    const mine = () => connection === this.#connection && !this.#closed
    const opened = this.#options.open({
      onMessage: (name, message) => mine() && this.#heard(name, message),
      onUp: () => mine() && this.#up(),
    })
    this.#subscriber = opened
    opened.catch(() => {
      if (this.#subscriber === opened) this.#subscriber = undefined
    })
    return opened
  }

  /** A connection that came back may have lost its subscriptions, and what was said meanwhile. */
  #up(): void {
    for (const channel of this.#channels.values()) {
      if (channel.generation === 0) continue
      channel.generation = 0
      if (channel.watchers.size > 0) this.#subscribe(channel)
      else this.#channels.delete(channel.name)
    }
  }

  #heard(name: string, message: string): void {
    if (message === this.#probing?.message) this.#probing = undefined
    const channel = this.#channels.get(name)
    if (channel === undefined) return
    if (message === '*') {
      for (const watcher of watchersOf(channel)) this.#settle(channel, watcher)
    } else if (message.startsWith('!')) {
      const space = message.indexOf(' ')
      const token = Number(message.slice(1, space))
      const claim = message.slice(space + 1)
      const turn = token > 0 ? { token } : undefined
      const watchers = channel.watchers.get(claim)
      // It may have overtaken the answer that puts the claim in the queue, on the other connection: kept for its watch.
      if (watchers === undefined) remember(channel.missed, claim, turn)
      else for (const watcher of watchers) watcher.hint(turn)
    }
  }

  #dropSubscriber(): void {
    this.#connection++
    this.#subscriber?.then(
      (subscriber) => subscriber.close(),
      () => {},
    )
    this.#subscriber = undefined
    this.#probing = undefined
  }

  /** One timer while any channel is open: lets idle ones go, and puts the connection to the test. */
  #tickSoon(): void {
    if (this.#timer !== undefined) return
    this.#nextProbeMs = this.#options.clock.monoMs() + PROBE_EVERY_MS
    this.#arm()
  }

  #arm(): void {
    this.#timer = this.#options.clock.setTimer(PROBE_TIMEOUT_MS, () => this.#tick())
    this.#timer.keepAlive(false)
  }

  #tick(): void {
    this.#timer = undefined
    if (this.#closed) return
    const nowMs = this.#options.clock.monoMs()
    for (const channel of this.#channels.values()) {
      if (channel.watchers.size > 0 || nowMs - channel.idleSinceMs < LINGER_MS) continue
      this.#channels.delete(channel.name)
      this.#subscriber?.then((subscriber) => subscriber.unsubscribe(channel.name)).catch(() => {})
    }
    if (this.#channels.size === 0) {
      this.#dropSubscriber()
      return
    }
    this.#arm()
    if (this.#probing !== undefined && nowMs >= this.#probing.untilMs) this.#deaf()
    else if (this.#probing === undefined && nowMs >= this.#nextProbeMs) this.#probe(nowMs)
  }

  #probe(nowMs: number): void {
    this.#nextProbeMs = nowMs + PROBE_EVERY_MS
    const listening = [...this.#channels.values()].filter(({ generation }) => generation !== 0)
    const channel = listening[this.#probed++ % Math.max(1, listening.length)]
    if (channel === undefined) return
    const probing = { message: `?${this.#options.random.claim()}`, untilMs: nowMs + PROBE_TIMEOUT_MS }
    this.#probing = probing
    this.#options.probe(channel.name, probing.message).catch(() => {
      if (this.#probing === probing) this.#probing = undefined // the server's trouble, not the connection's
    })
  }

  /** The connection hears nothing any more, and does not know it: another one. */
  #deaf(): void {
    this.#dropSubscriber()
    for (const channel of this.#channels.values()) {
      channel.generation = 0
      if (channel.watchers.size > 0) this.#subscribe(channel)
      else this.#channels.delete(channel.name)
    }
  }
}

/** One who waits for a key of this name. */
class KeyWatcher extends Watcher<Turn> {
  readonly name: string

  constructor(name: string, claim: string, signal: AbortSignal, left: () => void) {
    super(claim, signal, left)
    this.name = name
  }
}

const watchersOf = ({ watchers }: Channel): KeyWatcher[] => [...watchers.values()].flatMap((same) => [...same])

function remember(missed: Channel['missed'], claim: string, turn: Turn | undefined): void {
  missed.set(claim, turn)
  if (missed.size <= MISSED_MAX) return
  for (const oldest of missed.keys()) {
    missed.delete(oldest)
    return
  }
}
