// Who waits in this process. One connection listens for all keys, on one channel, and stays for a while after the last watcher.
// Messages are hints (G8): "!claim", its turn has come; "*key", anybody may ask; "?id", this process asks whether the connection
// still hears, as one that died quietly does not, nor one through a proxy that shares connections out by the transaction.
import type { Clock, Timer } from '../../lease/clock.js'
import { StoreError } from '../../lease/errors.js'
import type { Random } from '../../lease/random.js'
import { Watcher } from '../../store/watcher.js'
import type { ListenEvents, Listening } from './client.js'

/** For how long the connection stays that nobody needs. */
const LINGER_MS = 10_000
/** How often it is put to the test while somebody does, and how long that may take. */
const PROBE_EVERY_MS = 5_000
const PROBE_TIMEOUT_MS = 2_000
const TICK_MS = 2_500
/** A lost connection is opened again after this, then after twice as long, up to the longest. */
const AGAIN_MS = 50
const AGAIN_MS_MAX = 2_000
/** So many wake-ups for claims that do not watch here, or not yet, are kept; and so many claims are known to stand in a queue. */
const MISSED_MAX = 256
const QUEUED_MAX = 20_000

const DEAF =
  'the connection that listens for wake-ups hears nothing: it goes through a proxy that shares connections out by the transaction. Give postgresStore { listen } a pool that connects to the server itself, or listen: false to do without'

export interface WatchesOptions {
  readonly clock: Clock
  readonly random: Random
  open(events: ListenEvents): Promise<Listening>
  /** Leaves word that somebody waits for this key who is not in its queue. */
  look(key: string, claim: string): Promise<unknown>
  /** Sends a message to the channel by way of the server. */
  probe(message: string): Promise<unknown>
}

/** A connection that listens, or is to. */
class Connection {
  listening: Listening | undefined
  hasHeard = false
}

export class Watches {
  readonly #options: WatchesOptions
  readonly #byKey = new Map<string, Set<Watcher>>()
  readonly #byClaim = new Map<string, Set<Watcher>>()
  /** Under which subscription a claim joined a queue: what came after that has been heard. */
  readonly #queued = new Map<string, number>()
  readonly #missed = new Set<string>()
  #connection: Connection | undefined
  /** Which subscription is in place, counted; 0 while there is none. */
  #generation = 0
  #generations = 0
  #attempts = 0
  #idleSinceMs = 0
  #timer: Timer | undefined
  #nextProbeMs = 0
  #probing: { readonly message: string; readonly untilMs: number } | undefined
  #closed = false

  constructor(options: WatchesOptions) {
    this.#options = options
  }

  watch(key: string, claim: string, signal: AbortSignal): AsyncIterableIterator<void> {
    const watcher = new Watcher(claim, signal, () => this.#left(key, watcher))
    if (this.#closed) watcher.end()
    if (signal.aborted || this.#closed) return watcher
    addTo(this.#byKey, key, watcher)
    addTo(this.#byClaim, claim, watcher)
    this.#tickSoon()
    if (this.#generation === 0) this.#open()
    else if (this.#queued.get(claim) !== this.#generation) this.#settle(key, watcher)
    else if (this.#missed.delete(claim)) watcher.hint()
    return watcher
  }

  /** The subscription that is in place; 0 when there is none. To be asked before an acquire is sent. */
  get generation(): number {
    return this.#generation
  }

  /** The claim stands in a queue, since a time when this subscription was in place. */
  queued(claim: string, generation: number): void {
    if (!this.#queued.has(claim)) forgetOldest(this.#queued, QUEUED_MAX)
    this.#queued.set(claim, generation)
  }

  /** The claim waits no more. */
  unqueued(claim: string): void {
    this.#queued.delete(claim)
  }

  close(): void {
    this.#closed = true
    this.#timer?.cancel()
    for (const watchers of [...this.#byKey.values()]) for (const watcher of [...watchers]) watcher.end()
    this.#drop()
  }

  #left(key: string, watcher: Watcher): void {
    this.#queued.delete(watcher.claim)
    removeFrom(this.#byKey, key, watcher)
    removeFrom(this.#byClaim, watcher.claim, watcher)
    if (this.#byKey.size === 0) this.#idleSinceMs = this.#options.clock.monoMs()
  }

  #open(): void {
    if (this.#connection !== undefined) return
    const connection = new Connection()
    this.#connection = connection
    const mine = () => this.#connection === connection && !this.#closed
    const opened = this.#options.open({
      onMessage: (payload) => mine() && this.#heard(connection, payload),
      onLost: (heardAgain) => {
        if (!mine()) return
        if (heardAgain) this.#inPlace()
        else this.#openAgain()
      },
    })
    opened.then(
      (listening) => {
        if (!mine()) return listening.close()
        connection.listening = listening
        this.#attempts = 0
        this.#inPlace()
      },
      () => mine() && this.#openAgain(),
    )
  }

  /** The subscription is in place: one hint for each, since a release just before it went unheard. */
  #inPlace(): void {
    this.#generation = ++this.#generations
    this.#missed.clear()
    this.#probe()
    for (const [key, watchers] of this.#byKey) for (const watcher of watchers) this.#settle(key, watcher)
  }

  #openAgain(): void {
    this.#drop()
    if (this.#byKey.size === 0) return
    const { clock, random } = this.#options
    const delayMs = Math.min(AGAIN_MS_MAX, AGAIN_MS * 2 ** Math.min(this.#attempts++, 10)) * (0.5 + random.unit() / 2)
    const timer = clock.setTimer(delayMs, () => {
      if (!this.#closed && this.#byKey.size > 0) this.#open()
    })
    timer.keepAlive(false)
  }

  #drop(): void {
    this.#connection?.listening?.close()
    this.#connection = undefined
    this.#generation = 0
    this.#probing = undefined
  }

  #settle(key: string, watcher: Watcher): void {
    if (this.#queued.has(watcher.claim)) {
      this.#queued.set(watcher.claim, this.#generation)
      watcher.hint()
      return
    }
    const hint = () => watcher.hint()
    this.#options.look(key, watcher.claim).then(hint, hint) // its own next question brings trouble to light
  }

  #heard(connection: Connection, payload: string): void {
    connection.hasHeard = true
    const rest = payload.slice(1)
    if (payload === this.#probing?.message) this.#probing = undefined
    else if (payload.startsWith('*')) for (const watcher of this.#byKey.get(rest) ?? []) this.#settle(rest, watcher)
    else if (payload.startsWith('!')) {
      const watchers = this.#byClaim.get(rest)
      // It may have overtaken the answer that puts the claim in the queue, on the other connection: kept for its watch.
      if (watchers === undefined) {
        forgetOldest(this.#missed, MISSED_MAX)
        this.#missed.add(rest)
      } else for (const watcher of watchers) watcher.hint()
    }
  }

  /** One timer while there are watchers, and a while longer: puts the connection to the test, and lets it go. */
  #tickSoon(): void {
    if (this.#timer !== undefined) return
    this.#timer = this.#options.clock.setTimer(TICK_MS, () => this.#tick())
    this.#timer.keepAlive(false)
  }

  #tick(): void {
    this.#timer = undefined
    const nowMs = this.#options.clock.monoMs()
    if (this.#byKey.size === 0 && nowMs - this.#idleSinceMs >= LINGER_MS) {
      this.#drop()
      return
    }
    this.#tickSoon()
    if (this.#probing !== undefined && nowMs >= this.#probing.untilMs) this.#deaf()
    else if (this.#probing === undefined && this.#generation !== 0 && nowMs >= this.#nextProbeMs) this.#probe()
  }

  #probe(): void {
    const nowMs = this.#options.clock.monoMs()
    this.#nextProbeMs = nowMs + PROBE_EVERY_MS
    const probing = { message: `?${this.#options.random.claim()}`, untilMs: nowMs + PROBE_TIMEOUT_MS }
    this.#probing = probing
    this.#options.probe(probing.message).catch(() => {
      if (this.#probing === probing) this.#probing = undefined // the server's trouble, not the connection's
    })
  }

  /** The connection hears nothing, and does not know it. One that never did will not: those who wait are told. */
  #deaf(): void {
    const neverHeard = this.#connection?.hasHeard === false
    this.#openAgain()
    if (!neverHeard) return
    const error = new StoreError(DEAF, { outcome: 'none' })
    for (const watchers of [...this.#byKey.values()]) for (const watcher of [...watchers]) watcher.fail(error)
  }
}

function addTo(map: Map<string, Set<Watcher>>, name: string, watcher: Watcher): void {
  const others = map.get(name)
  if (others === undefined) map.set(name, new Set([watcher]))
  else others.add(watcher)
}

function removeFrom(map: Map<string, Set<Watcher>>, name: string, watcher: Watcher): void {
  const watchers = map.get(name)
  watchers?.delete(watcher)
  if (watchers?.size === 0) map.delete(name)
}

/** Makes room for one more. */
function forgetOldest(known: Map<string, unknown> | Set<string>, most: number): void {
  if (known.size < most) return
  for (const oldest of known.keys()) {
    known.delete(oldest)
    return
  }
}
