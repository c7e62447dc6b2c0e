// What this process remembers of the claims that it took to the quorum: the token, so that a repeat keeps it (G3) and a node that
// lost the record can be given it back; and which nodes may still be about to receive an acquire, so that a release reaches
// those too (G6).
import type { AcquireRequest, Json } from '../../store/contract.js'

/** One claim, as this process knows it. */
export interface Term {
  holder: string
  meta: Json | undefined
  /** What was proposed as token. */
  ballot: number
  /** The token, once a majority has granted it. */
  token: number | undefined
  /** The claim that it replaces was held no longer when this one was asked for, by this process's clock. */
  replacedOver: boolean
  /** Until when it is surely held at a majority, on this process's monotonic clock; before the grant, when it may be forgotten. */
  untilMs: number
  readonly open: OnTheWay
  /** Nodes whose vote for an earlier attempt came while a later one was under way: that one decides what becomes of it. */
  readonly stray: Set<number>
}

/** The acquires of one claim that may still be on their way, by node. */
export class OnTheWay {
  readonly #counts: number[]
  readonly #waiting: (() => void)[][]

  constructor(nodes: number) {
    this.#counts = Array.from({ length: nodes }, () => 0)
    this.#waiting = Array.from({ length: nodes }, () => [])
  }

  sent(place: number): void {
    this.#counts[place] = (this.#counts[place] ?? 0) + 1
  }

  /** The node has said what became of one. */
  arrived(place: number): void {
    this.#counts[place] = (this.#counts[place] ?? 1) - 1
    if (this.has(place)) return
    for (const resolve of this.#waiting[place]?.splice(0) ?? []) resolve()
  }

  has(place: number): boolean {
    return (this.#counts[place] ?? 0) > 0
  }

  get isEmpty(): boolean {
    return this.#counts.every((count) => count === 0)
  }

  /** Resolves when nothing is on its way to the node any more. */
  settled(place: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.has(place)) this.#waiting[place]?.push(resolve)
      else resolve()
    })
  }
}

/** Two texts as one, and no two pairs as the same. */
export const idOf = (key: string, claim: string): string => `${key.length}:${key}${claim}`

const PRUNE_FROM = 1_000

export class Terms {
  readonly #nodes: number
  readonly #terms = new Map<string, Term>()
  #pruneAt = PRUNE_FROM

  constructor(nodes: number) {
    this.#nodes = nodes
  }

  /** The claim's term, made if it has none. */
  begin(id: string, request: Pick<AcquireRequest, 'holder' | 'meta' | 'ttlMs'>, nowMs: number): Term {
    const known = this.#terms.get(id)
    if (known !== undefined && !isOver(known, nowMs)) {
      known.untilMs = Math.max(known.untilMs, known.token === undefined ? nowMs + request.ttlMs : 0)
      return known
    }
    if (this.#terms.size >= this.#pruneAt) this.#prune(nowMs)
    const open = known?.open ?? new OnTheWay(this.#nodes)
    const { holder, meta, ttlMs } = request
    const term: Term = {
      holder,
      meta,
      ballot: 0,
      token: undefined,
      replacedOver: false,
      untilMs: nowMs + ttlMs,
      open,
      stray: new Set(),
    }
    this.#terms.set(id, term)
    return term
  }

  get(id: string): Term | undefined {
    return this.#terms.get(id)
  }

  /** A claim that another process acquired: a term whose token is still to be learned. Undefined when the claim is known here. */
  adopt(id: string, ttlMs: number, nowMs: number): Term | undefined {
    const known = this.#terms.get(id)
    if (known !== undefined && !isOver(known, nowMs)) return undefined
    return this.begin(id, { holder: '', ttlMs }, nowMs)
  }

  /** The claim's term if a majority holds it now, as far as this process knows. */
  held(id: string, nowMs: number): Term | undefined {
    const term = this.#terms.get(id)
    return term?.token === undefined || isOver(term, nowMs) ? undefined : term
  }

  end(id: string): void {
    this.#terms.delete(id)
  }

  /** Terms that nobody ended, such as those of leases that were lost. */
  #prune(nowMs: number): void {
    for (const [id, term] of this.#terms) if (isOver(term, nowMs)) this.#terms.delete(id)
    this.#pruneAt = Math.max(PRUNE_FROM, 2 * this.#terms.size)
  }
}

const isOver = (term: Term, nowMs: number) => term.untilMs <= nowMs

const KEYS_MAX = 1_000
/** Two proposals of one ms differ by chance, so that of two who ask at the same moment one came first. */
const MICROS_PER_MS = 1_000

/** What is proposed as token: the wall clock in microseconds, above the last answer for the key. A ballot, not a time. */
export class Ballots {
  readonly #last = new Map<string, number>()

  next(key: string, wallMs: number, unit: number): number {
    const ballot = Math.floor(wallMs) * MICROS_PER_MS + Math.floor(unit * MICROS_PER_MS)
    return Math.min(Math.max(ballot, (this.#last.get(key) ?? 0) + 1), Number.MAX_SAFE_INTEGER)
  }

  /** A node has named this token. */
  saw(key: string, token: number): void {
    const last = this.#last.get(key) ?? 0
    if (last === token) return
    this.#last.delete(key)
    this.#last.set(key, Math.max(last, token))
    if (this.#last.size <= KEYS_MAX) return
    for (const oldest of this.#last.keys()) {
      this.#last.delete(oldest)
      return
    }
  }

  last(key: string): number {
    return this.#last.get(key) ?? 0
  }
}
