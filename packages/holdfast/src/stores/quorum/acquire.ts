// One acquire, as one attempt at a majority:
//
//   ask all nodes with one ballot as floor
//   a majority answers one and the same token  granted
//   a majority answers different tokens        the greatest is written back, until a majority has answered it
//   a majority holds for another               refused; what a node that lags behind gave is taken back there
//   nobody has a majority                      the first of those who ask keeps its votes and asks again; the others give way
//   otherwise                                  refused or failed; what was given is withdrawn, on every node
//
// Late answers find nobody who counts them: a vote that came too late is taken back, unless the lease was granted meanwhile.
import { StoreError } from '../../lease/errors.js'
import type { AcquireRequest, CallOptions, Granted, Held, LeaseStore } from '../../store/contract.js'
import { isUnknown, type Reply, TimeLimit } from './node.js'
import { checkCall, hasForgotten, nodeMs, noMajority, noVote, type Quorum } from './quorum.js'
import { idOf, type Term } from './terms.js'
import { count, isFirst, isHeldByAnother, judge, mergeHeld, mergeReplaced, type Vote } from './vote.js'

/** A question, its answers to a raise, and one more time for those who split the vote. */
const ROUNDS = 3
/** How often the first of several contenders asks the others' nodes again. */
const TRIES = 3
/** How many times its round one that gives way waits: the first waits for up to one and a half, and asks for one more. */
const YIELD = 3

/** A node that granted, but may have forgotten who held before: its grant is no vote. */
interface Silent {
  readonly is: 'silent'
  readonly keptForMs: number
}
type Answer = Granted | Held | Silent

/** The attempts that are under way, by claim. */
export class Attempts {
  readonly #running = new Map<string, Set<Attempt>>()
  #last = 0

  add(id: string, attempt: Attempt): void {
    this.#running.set(id, (this.#running.get(id) ?? new Set()).add(attempt))
  }

  delete(id: string, attempt: Attempt): void {
    const running = this.#running.get(id)
    running?.delete(attempt)
    if (running?.size === 0) this.#running.delete(id)
  }

  has(id: string): boolean {
    return this.#running.has(id)
  }

  /** Whether a later attempt for this claim is under way. */
  hasLater(id: string, attempt: Attempt): boolean {
    return [...(this.#running.get(id) ?? [])].some((other) => other.number > attempt.number)
  }

  /** Attempts are numbered as they begin. */
  nextNumber(): number {
    return ++this.#last
  }

  /** The claim has been ended: what its attempts have counted is worth nothing any more. */
  cancel(id: string): void {
    for (const attempt of this.#running.get(id) ?? []) attempt.cancel()
  }
}

/** Asks the quorum for a lease. */
export function acquire(quorum: Quorum, request: AcquireRequest, call?: CallOptions): Promise<Granted | Held> {
  return new Promise((resolve, reject) => {
    checkCall(quorum, call, 'an acquire')
    new Attempt(quorum, request, call, { resolve, reject }).start()
  })
}

interface Caller {
  resolve(answer: Granted | Held): void
  reject(error: unknown): void
}

export class Attempt {
  readonly number: number
  readonly #quorum: Quorum
  readonly #request: AcquireRequest
  readonly #id: string
  readonly #caller: Caller
  readonly #votes: Vote[]
  readonly #startedMs: number
  readonly #endsMs: number
  readonly #nodeMs: number
  readonly #term: Term
  #tries = 0
  /** Questions that no node has answered, and whose time is not over. */
  #asked = 0
  #answered = false
  /** How it was answered, as far as later answers of nodes are concerned: their votes are taken back when it was refused. */
  #takesBack = false

  constructor(quorum: Quorum, request: AcquireRequest, call: CallOptions | undefined, caller: Caller) {
    const { clock, nodes, terms, attempts, ballots, random } = quorum
    this.number = attempts.nextNumber()
    this.#quorum = quorum
    this.#request = request
    this.#id = idOf(request.key, request.claim)
    this.#caller = caller
    this.#votes = nodes.map(() => PENDING)
    this.#startedMs = clock.monoMs()
    this.#nodeMs = nodeMs(quorum, call, ROUNDS)
    this.#endsMs = this.#startedMs + (call?.timeoutMs ?? ROUNDS * this.#nodeMs)
    const replaced = request.replaces === undefined ? undefined : terms.get(idOf(request.key, request.replaces))
    const isReplacedOver = replaced?.token !== undefined && replaced.untilMs <= this.#startedMs
    this.#term = terms.begin(this.#id, request, this.#startedMs)
    if (isReplacedOver) this.#term.replacedOver = true
    if (this.#term.token === undefined && !attempts.has(this.#id))
      this.#term.ballot = ballots.next(request.key, clock.wallMs(), random.unit())
  }

  start(): void {
    const { attempts, nodes, withdrawals, majority, ballots } = this.#quorum
    const { key, tokenFloor = 0, replaces } = this.#request
    attempts.add(this.#id, this)
    if (replaces !== undefined) {
      const old = idOf(key, replaces)
      attempts.cancel(old)
      this.#quorum.terms.end(old)
    }
    const ending = withdrawals.of(this.#id)
    if (ending !== undefined && ending.size > nodes.length - majority) {
      this.#end({ is: 'held', because: 'ended', holder: '', token: ballots.last(key), remainingMs: 0 })
      return
    }
    const floor = Math.max(this.#term.token ?? this.#term.ballot, tokenFloor)
    const places = nodes.map(({ place }) => place)
    if (ending === undefined) this.#ask(places, floor)
    else {
      for (const place of ending) this.#votes[place] = ENDED
      this.#ask(
        places.filter((place) => !ending.has(place)),
        floor,
      )
    }
  }

  /** The claim was withdrawn or released while this was under way. */
  cancel(): void {
    if (!this.#answered) this.#end({ ...this.#held(), because: 'ended' })
  }

  /** Asks these nodes, at once. */
  #ask(places: readonly number[], tokenFloor: number): void {
    const { nodes, clock } = this.#quorum
    const { queue: _, ...rest } = this.#request
    const request = { ...rest, tokenFloor }
    const limit = new TimeLimit(clock, this.#nodeMs)
    const send = (store: LeaseStore, call: CallOptions) => this.#send(store, request, call)
    for (const place of places) {
      this.#votes[place] = PENDING
      this.#asked++
      this.#term.open.sent(place)
      nodes[place]?.ask<Answer>('an acquire', limit, send, {
        reply: (reply) => this.#reply(place, reply),
        late: (reply) => this.#late(place, reply),
      })
    }
  }

  #send(store: LeaseStore, request: AcquireRequest, call: CallOptions): Promise<Answer> {
    const answer = store.acquire(request, call)
    return this.#quorum.waitAfterLossMs === 0 ? answer : this.#unlessForgotten(store, answer, call)
  }

  async #unlessForgotten(store: LeaseStore, asked: Promise<Granted | Held>, call: CallOptions): Promise<Answer> {
    const answer = await asked
    if (answer.is !== 'granted') return answer
    const keptForMs = await hasForgotten(this.#quorum, store, call)
    return keptForMs === undefined ? answer : { is: 'silent', keptForMs }
  }

  #reply(place: number, reply: Reply<Answer>): void {
    this.#asked--
    this.#note(place, reply)
    this.#votes[place] = voteOf(reply)
    if (this.#answered) {
      this.#straggler(place, reply)
      this.#tidy()
    } else this.#look()
  }

  #late(place: number, reply: Reply<Answer>): void {
    this.#note(place, reply)
    this.#straggler(place, reply)
  }

  /** What a reply tells beside its vote: the token, and that the request is no longer on its way. */
  #note(place: number, reply: Reply<Answer>): void {
    if (reply.is === 'answer' || !isUnknown(reply.error)) this.#term.open.arrived(place)
    if (reply.is === 'answer' && reply.answer.is !== 'silent')
      this.#quorum.ballots.saw(this.#request.key, reply.answer.token)
  }

  #look(): void {
    const verdict = judge(this.#votes, this.#quorum.majority)
    if (verdict.is === 'granted') this.#granted(verdict.token)
    else if (verdict.is === 'raise') this.#raise(verdict.token)
    else if (verdict.is === 'impossible') this.#impossible(verdict.refused)
  }

  /** Not one token yet: who may count which? So the greatest is written back where it is not known, and then it counts. */
  #raise(token: number): void {
    const lower = this.#votes.flatMap((vote, place) =>
      vote.is === 'granted' && vote.granted.token < token ? [place] : [],
    )
    this.#ask(lower, token)
  }

  #granted(token: number): void {
    const { clock } = this.#quorum
    const ttls = this.#votes.flatMap((vote) =>
      vote.is === 'granted' && vote.granted.token === token ? [vote.granted.ttlMs] : [],
    )
    // Counted from before the first request was sent, as the client counts: so nothing is taken off the ttl, but when the
    // rounds took all of it, nothing is left to hold (C10).
    const ttlMs = Math.min(...ttls)
    const untilMs = this.#startedMs + ttlMs
    if (clock.monoMs() >= untilMs) {
      this.#withdraw()
      const error = new StoreError('the quorum granted the lease after its term was over', { outcome: 'unknown' })
      this.#end(error)
      return
    }
    this.#term.token = token
    this.#term.stray.clear()
    this.#term.untilMs = Math.max(this.#term.untilMs, untilMs)
    this.#end({ is: 'granted', token, ttlMs, ...this.#replaced() })
  }

  #impossible(refused: boolean): void {
    const { nodes, majority } = this.#quorum
    if (this.#asksAgain()) return
    const votes = this.#votes
    const granted = count(votes, 'granted')
    const heldBecause = (because: Held['because']) =>
      votes.filter((vote) => vote.is === 'held' && vote.held.because === because).length
    const ended = heldBecause('ended')
    const rivals = count(votes, 'held') - ended
    const isRevoked = heldBecause('revoked') > 0
    const isOthers = granted === 0 || (!isRevoked && isHeldByAnother(votes, majority))
    if (refused && (isOthers || isRevoked)) {
      this.#takesBack = isOthers // what comes late as well
      const held = this.#held()
      this.#end(ended > nodes.length - majority ? { ...held, because: 'ended' } : held)
      const isBack = (vote: Vote) => (vote.is === 'failed' ? vote.applied !== 'no' : vote.is === 'granted' && isOthers)
      for (const [place, vote] of votes.entries())
        if (this.#term.stray.has(place) || isBack(vote)) this.#takeBack(place)
      return
    }
    if (refused || (ended > 0 && granted + ended >= majority)) {
      this.#withdraw()
      this.#end({ ...this.#held(), because: 'ended' }, this.#yieldMs())
      return
    }
    const errors = votes.flatMap((vote) => (vote.is === 'failed' ? [vote.error] : []))
    const maybe = votes.filter((vote) => vote.is === 'failed' && vote.applied === 'maybe').length
    const isWrong = errors.some((error) => !(error instanceof StoreError))
    const mayHold = granted + maybe >= majority && !isWrong
    const isSplit = granted > 0 && rivals > 0
    // Unknown: the caller asks again with the same claim, or withdraws it. But with rivals the votes must not wait for that.
    if (!mayHold || rivals > 0) this.#withdraw()
    const said = `${granted} granted, ${rivals} held by others`
    const error = noMajority(this.#quorum, 'an acquire', errors, mayHold ? 'unknown' : 'none', said)
    this.#end(error, mayHold && isSplit ? this.#yieldMs() : 0)
  }

  /** A split vote: the first of the contenders asks the nodes of the others again, after a moment of random length. */
  #asksAgain(): boolean {
    const { clock, majority, random } = this.#quorum
    if (this.#tries >= TRIES || !isFirst(this.#votes, this.#term.ballot, majority)) return false
    const nowMs = clock.monoMs()
    const delayMs = Math.max(1, Math.min(nowMs - this.#startedMs, this.#nodeMs / 2)) * (0.5 + random.unit())
    if (nowMs + delayMs >= this.#endsMs) return false
    this.#tries++
    const again = this.#votes.flatMap((vote, place) =>
      vote.is === 'held' && vote.held.because !== 'ended' ? [place] : [],
    )
    for (const place of again) this.#votes[place] = PENDING
    clock.setTimer(delayMs, () => {
      if (!this.#answered) this.#ask(again, this.#term.ballot)
    })
    return true
  }

  /** A vote that came after the answer. */
  #straggler(place: number, reply: Reply<Answer>): void {
    if (!this.#takesBack) return
    const given = reply.is === 'answer' ? reply.answer.is !== 'held' : isUnknown(reply.error)
    if (given) this.#takeBack(place)
  }

  /** Takes back one node's vote, unless a later attempt of this claim has a use for it. */
  #takeBack(place: number): void {
    const { attempts, terms, clock, withdrawals } = this.#quorum
    if (attempts.hasLater(this.#id, this)) {
      this.#term.stray.add(place)
      return
    }
    this.#term.stray.delete(place)
    if (terms.held(this.#id, clock.monoMs()) !== undefined) return
    const { key, claim, replaces, ttlMs } = this.#request
    withdrawals.add(key, claim, [place], ttlMs)
    if (replaces !== undefined) withdrawals.add(key, replaces, [place], ttlMs)
  }

  /** Gives the claim up on every node, answered or not. A claim that another attempt has been granted is not given up. */
  #withdraw(): void {
    const { attempts, terms, clock, nodes, withdrawals } = this.#quorum
    if (terms.held(this.#id, clock.monoMs()) !== undefined) return
    const { key, claim, replaces, ttlMs } = this.#request
    const places = nodes.map(({ place }) => place)
    withdrawals.add(key, claim, places, ttlMs)
    if (replaces !== undefined) withdrawals.add(key, replaces, places, ttlMs)
    this.#answered = true // so that it is not cancelled itself
    attempts.cancel(this.#id)
    this.#answered = false
  }

  #held(): Held {
    return { ...mergeHeld(this.#votes, this.#quorum.majority), ...this.#replaced() }
  }

  #replaced(): { replaced?: boolean } {
    if (this.#request.replaces === undefined) return {}
    // Nodes that lag behind may hold it a little longer, and some may not have said yet.
    if (this.#term.replacedOver) return { replaced: false }
    const replaced = mergeReplaced(this.#votes, this.#quorum.majority)
    return replaced === undefined ? {} : { replaced }
  }

  /**
   * How long one that gives way waits before it says so. Its caller asks anew at once, and would take its nearer nodes a second
   * time before the question of the first, who waits for a moment too and may be farther away, has reached them: again and again.
   */
  #yieldMs(): number {
    const nowMs = this.#quorum.clock.monoMs()
    return Math.max(0, Math.min(YIELD * (nowMs - this.#startedMs), (this.#endsMs - nowMs) / 2))
  }

  #end(answer: Granted | Held | Error, afterMs = 0): void {
    this.#answered = true
    this.#tidy()
    const tell = () => (answer instanceof Error ? this.#caller.reject(answer) : this.#caller.resolve(answer))
    if (afterMs > 0) this.#quorum.clock.setTimer(afterMs, tell)
    else tell()
  }

  /** Nothing more will come: it is under way no longer, and of a claim without a grant nothing need be remembered. */
  #tidy(): void {
    if (this.#asked > 0) return
    const { attempts, terms } = this.#quorum
    attempts.delete(this.#id, this)
    if (this.#term.token === undefined && this.#term.open.isEmpty && !attempts.has(this.#id)) terms.end(this.#id)
  }
}

const PENDING: Vote = { is: 'pending' }
const ENDED: Vote = { is: 'held', held: { is: 'held', because: 'ended', holder: '', token: 0, remainingMs: 0 } }

function voteOf(reply: Reply<Answer>): Vote {
  if (reply.is === 'failed')
    return { is: 'failed', error: reply.error, applied: isUnknown(reply.error) ? 'maybe' : 'no' }
  const { answer } = reply
  if (answer.is === 'granted') return { is: 'granted', granted: answer }
  if (answer.is === 'held') return { is: 'held', held: answer }
  return { is: 'failed', error: noVote(answer.keptForMs), applied: 'yes' }
}
