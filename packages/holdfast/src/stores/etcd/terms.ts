// The etcd leases that keys are put on. A key whose holder renews it until it has ended shares one with others (sharing.ts); any other
// has one of its own, which is used again once it is given back. One request keeps hundreds alive. How much is left of one is told by
// the timeline: etcd goes on counting while this machine sleeps, and its monotonic clock may not (G1, G5).
import { StoreError } from '../../lease/errors.js'
import type { Timeline } from '../../lease/timeline.js'
import { nothingDone, refused } from './failure.js'
import type { Gateway, Limits } from './gateway.js'
import { messageIn } from './gateway.js'
import type { Joint } from './joint.js'
import type { SharedUse } from './sharing.js'
import { parsed } from './wire.js'

/** An etcd lease, as this process knows it. */
export interface Term {
  readonly id: string
  readonly seconds: number
  /** Instants of the timeline. */
  readonly madeMs: number
  /** When the request was sent and answered that made or kept it: it ends after the one and before the other, plus its seconds. */
  sentMs: number
  answeredMs: number
  /** Who is on it, where many may be. */
  readonly shared?: SharedUse
}

/** etcd counts in seconds: rounded up, never down. */
export const secondsOf = (ms: number): number => Math.max(1, Math.ceil(ms / 1_000))

/** From how long ago an etcd lease may be for a key to be put on it. What a network repeats later than all memory finds it gone. */
export const AGE_MS_MAX = 600_000

/** Longer by this than asked, so that one that was given back is long enough for a while without another request. */
export const spareSeconds = (seconds: number) => Math.min(5, Math.ceil(seconds / 10))

/** So many that nobody uses are kept for each length. */
const IDLE_MAX = 1_024
/** So many are kept alive by one request. */
const ALIVE_AT_ONCE = 500

export class Terms {
  readonly #gateway: Gateway
  readonly #timeline: Timeline
  readonly #idle = new Map<number, Term[]>()
  readonly #retained = new Map<number, Joint<Term>>()

  constructor(gateway: Gateway, timeline: Timeline) {
    this.#gateway = gateway
    this.#timeline = timeline
  }

  /** One that lasts for at least `ttlMs` from now, with nothing on it. */
  async take(ttlMs: number, limits: Limits): Promise<Term> {
    const seconds = secondsOf(ttlMs)
    const idle = this.#idle.get(seconds) ?? []
    for (let term = idle.pop(); term !== undefined; term = idle.pop()) {
      const nowMs = this.#timeline.now()
      const endsMs = endOf(term)
      if (term.madeMs < nowMs - AGE_MS_MAX) continue
      if (endsMs >= nowMs + ttlMs) return term
      if (endsMs <= nowMs) {
        idle.length = 0 // those below were given back earlier, and have run out as well or will have soon
        break
      }
      if (await this.keepOne(term, limits)) return term
    }
    return await this.grant(seconds + spareSeconds(seconds), limits)
  }

  /** Nothing is on it any more, and nothing is on its way to it. */
  giveBack(term: Term, ttlMs: number): void {
    if (term.shared !== undefined) return
    const seconds = secondsOf(ttlMs)
    const idle = this.#idle.get(seconds)
    if (idle === undefined) this.#idle.set(seconds, [term])
    else if (idle.length < IDLE_MAX) idle.push(term)
  }

  /** One that nobody knows of yet: whether or not it came to be, nothing was done of what the caller asks for. */
  async grant(seconds: number, limits: Limits): Promise<Term> {
    const sentMs = this.#timeline.now()
    const ask = { TTL: String(seconds) }
    const answer = await this.#gateway
      .ask<{ ID?: string; TTL?: string; error?: string }>('an etcd lease', '/v3/lease/grant', ask, limits)
      .catch((error) => {
        throw nothingDone(error)
      })
    const granted = Number(answer.TTL ?? 0)
    if (answer.ID === undefined || !(granted >= seconds)) {
      throw new StoreError(`etcd granted no lease of ${seconds} s: ${answer.error ?? JSON.stringify(answer)}`, {
        outcome: 'none',
      })
    }
    const answeredMs = this.#timeline.now()
    return { id: answer.ID, seconds: granted, madeMs: sentMs, sentMs, answeredMs }
  }

  /** How long it lasts at most from now, in ms: whole seconds, as etcd itself tells it to others. */
  remainingMs(term: Term): number {
    const passedMs = this.#timeline.now() - term.answeredMs
    return Math.max(0, Math.ceil(term.seconds - passedMs / 1_000)) * 1_000
  }

  /**
   * One on which what ended is remembered for at least `ms`, and at most four times as long: shared by all that end in one span.
   */
  async retain(ms: number, limits: Limits): Promise<Term> {
    let seconds = 60
    while (seconds * 1_000 < ms) seconds *= 2
    const known = this.#retained.get(seconds)
    if (known !== undefined && !known.isOver) {
      const term = known.value ?? (await this.#gateway.outcomeOf('an etcd lease', known, limits))
      if (this.#timeline.now() - term.sentMs < seconds * 1_000) return term
      if (this.#retained.get(seconds) !== known) return await this.retain(ms, limits)
    }
    const made = this.#gateway.joint(limits, (all) => this.grant(seconds * 2, all))
    this.#retained.set(seconds, made)
    return await this.#gateway.outcomeOf('an etcd lease', made, limits)
  }

  /** Forgets what was to be used again: somebody has revoked it. */
  forgetRetained(): void {
    this.#retained.clear()
  }

  /**
   * Keeps many alive: one request for up to 500, since the gateway takes a stream of messages as one body. For each the seconds
   * from then on, 0 when it has run out. Go's HTTP server may stop reading the body once the answers have begun: those left out were
   * not asked, and are asked again.
   */
  async keepAlive(ids: readonly string[], limits: Limits): Promise<Map<string, number>> {
    const alive = new Map<string, number>()
    let open = [...ids]
    for (let idle = 0; open.length > 0; ) {
      const some = open.slice(0, ALIVE_AT_ONCE)
      const body = some.map((ID) => JSON.stringify({ ID })).join('\n')
      const text = await this.#gateway.text('a keep-alive', '/v3/lease/keepalive', body, limits)
      for (const line of text.split('\n')) {
        if (line === '') continue
        const { result, error } = parsed<{ result?: { ID?: string; TTL?: string }; error?: unknown }>(
          line,
          'a keep-alive',
        )
        if (error !== undefined) throw refused(messageIn(JSON.stringify(error)), 200, 'a keep-alive')
        if (result?.ID !== undefined) alive.set(result.ID, Number(result.TTL ?? 0))
      }
      const left = open.filter((id) => !alive.has(id))
      idle = left.length === open.length ? idle + 1 : 0
      if (idle === 3) throw new StoreError('etcd leaves out the answers to keep-alives', { outcome: 'unknown' })
      open = left
    }
    return alive
  }

  /** An upper bound of what is left of an etcd lease, in ms: etcd tells it in whole seconds, rounded down. 0 when it has run out. */
  async left(id: string, limits: Limits): Promise<number> {
    const answer = await this.#gateway.ask<{ TTL?: string; grantedTTL?: string }>(
      'what is left of a lease',
      '/v3/lease/timetolive',
      { ID: id },
      limits,
    )
    const ttl = Number(answer.TTL ?? 0)
    return ttl < 0 ? 0 : Math.min(ttl + 1, Number(answer.grantedTTL ?? ttl + 1)) * 1_000
  }

  /** Keeps one alive that nothing of the caller's is on yet. False when it has run out. */
  async keepOne(term: Term, limits: Limits): Promise<boolean> {
    const gone = await this.keep([term], limits).catch((error) => {
      throw nothingDone(error)
    })
    return gone.length === 0
  }

  /** Keeps these alive, and takes note. Gives those that have run out. */
  async keep<One extends Term>(terms: readonly One[], limits: Limits): Promise<One[]> {
    const sentMs = this.#timeline.now()
    const alive = await this.keepAlive(
      terms.map(({ id }) => id),
      limits,
    )
    const answeredMs = this.#timeline.now()
    for (const term of terms) {
      if ((alive.get(term.id) ?? 0) === 0) continue
      term.sentMs = Math.max(term.sentMs, sentMs)
      term.answeredMs = Math.max(term.answeredMs, answeredMs)
    }
    return terms.filter(({ id }) => (alive.get(id) ?? 0) === 0)
  }
}

/** Until when it surely lasts, by this process's clock. */
export const endOf = (term: Term): number => term.sentMs + term.seconds * 1_000
