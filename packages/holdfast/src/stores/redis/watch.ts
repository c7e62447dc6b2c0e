// Who waits for a key in this process. One connection listens for all; a channel has the name of its key, and stays open for a
// while after the last watcher, so that on a busy key nobody has to subscribe anew. Messages are hints (G8): "!claim", its turn
// has come; "*", anybody may ask; "?id", this process asks whether the connection still hears.
import type { Clock, Timer } from '../../lease/clock.js'
import type { Random } from '../../lease/random.js'
import type { Subscriber, SubscriberEvents } from './client.js'
import { failure, isForbidden } from './failure.js'
import { Watcher } from './watcher.js'

/** For how long a channel stays open that nobody watches. */
const LINGER_MS = 10_000
/** How often a connection that has to hear something is put to the test, and how long it may take. */
const PROBE_EVERY_MS = 5_000
const PROBE_TIMEOUT_MS = 2_500
/** A failed subscription is tried again after this, then after twice as long, up to the longest. */
const AGAIN_MS = 50
const AGAIN_MS_MAX = 2_000
/** So many wake-ups for claims that do not watch here, or not yet, are kept. */
const MISSED_MAX = 64
/** So many claims are known to stand in the queue. */
const QUEUED_MAX = 20_000

export interface WatchesOptions {
  readonly clock: Clock
  readonly random: Random
  open(events: SubscriberEvents): Promise<Subscriber>
  /** Whether the watcher of a claim should ask now; leaves word that it waits, if it is not in the queue. */
  look(name: string, claim: string): Promise<unknown>
  /** Sends a message to the channel by way of the server. */
  probe(name: string, message: string): Promise<unknown>
}

interface Channel {
  readonly name: string
  readonly watchers: Set<Watcher>
  /** Which subscription it is, counted over all; 0 while there is none. */
  generation: number
  subscribing: boolean
  attempts: number
  idleSinceMs: number
  readonly missed: Set<string>
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

  watch(name: string, claim: string, signal: AbortSignal): AsyncIterableIterator<void> {
    const watcher = new Watcher(claim, signal, () => this.#left(name, watcher))
    if (this.#closed) watcher.end()
    if (signal.aborted || this.#closed) return watcher
    const channel = this.#channel(name)
    channel.watchers.add(watcher)
    this.#tickSoon()
    if (channel.generation === 0) this.#subscribe(channel)
    else if (this.#queued.get(claim) !== channel.generation) this.#settle(channel, watcher)
    else if (channel.missed.delete(claim)) watcher.hint()
    return watcher
  }

  /** The subscription to a key's channel; 0 when there is none yet. To be asked before an acquire is sent. */
  generationOf(name: string): number {
    return this.#channels.get(name)?.generation ?? 0
  }

  /** The claim stands in the queue, under this subscription. */
  queued(claim: string, generation: number): void {
    if (this.#queued.size >= QUEUED_MAX && !this.#queued.has(claim)) {
      for (const oldest of this.#queued.keys()) {
        this.#queued.delete(oldest)
        break
      }
    }
    this.#queued.set(claim, generation)
  }

  /** The claim waits no more. */
  unqueued(claim: string): void {
    this.#queued.delete(claim)
  }

  close(): void {
    this.#closed = true
    this.#timer?.cancel()
    for (const { watchers } of this.#channels.values()) for (const watcher of [...watchers]) watcher.end()
    this.#channels.clear()
    this.#dropSubscriber()
  }

  #channel(name: string): Channel {
    let channel = this.#channels.get(name)
    if (channel === undefined) {
      channel = {
        name,
        watchers: new Set(),
        generation: 0,
        subscribing: false,
        attempts: 0,
        idleSinceMs: 0,
        missed: new Set(),
      }
      this.#channels.set(name, channel)
    }
    return channel
  }

  #left(name: string, watcher: Watcher): void {
    this.#queued.delete(watcher.claim)
    const channel = this.#channels.get(name)
    channel?.watchers.delete(watcher)
    if (channel?.watchers.size === 0) channel.idleSinceMs = this.#options.clock.monoMs()
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
          for (const watcher of channel.watchers) this.#settle(channel, watcher)
        },
        (error) => {
          channel.subscribing = false
          if (this.#closed) return
          if (isForbidden(error)) {
            const why = failure(error, 'a subscription')
            for (const watcher of [...channel.watchers]) watcher.fail(why)
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
  #settle(channel: Channel, watcher: Watcher): void {
    if (this.#queued.has(watcher.claim)) {
      this.#queued.set(watcher.claim, channel.generation)
      watcher.hint()
      return
    }
    this.#options.look(channel.name, watcher.claim).then(
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
      for (const watcher of channel.watchers) this.#settle(channel, watcher)
    } else if (message.startsWith('!')) {
      const claim = message.slice(1)
      let told = false
      for (const watcher of channel.watchers) {
        if (watcher.claim !== claim) continue
        watcher.hint()
        told = true
      }
      // It may have overtaken the answer that puts the claim in the queue, on the other connection: kept for its watch.
      if (!told) remember(channel.missed, claim)
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

function remember(claims: Set<string>, claim: string): void {
  claims.add(claim)
  if (claims.size <= MISSED_MAX) return
  for (const oldest of claims) {
    claims.delete(oldest)
    return
  }
}
