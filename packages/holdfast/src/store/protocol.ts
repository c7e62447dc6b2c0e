// The protocol of one key, as pure functions: what a store does in one atomic step. Each takes the state of the key, a
// request and the store's time, and gives the new state and the answer. The memory store keeps these states in a Map, the
// SQLite store in rows; the stores with scripts or SQL of their own say the same in their language, and the conformance
// suite compares. docs/design.md and docs/concepts/protocol.md say why each line is as it is.
import { StoreError } from '../lease/errors.js'
import type {
  AcquireRequest,
  Granted,
  Held,
  Json,
  LeaseRecord,
  QueueRequest,
  ReleaseOutcome,
  RenewOutcome,
  StoreLostReason,
} from './contract.js'

/** All that a store remembers of one key. Times are on the store's clock, in ms. Treated as immutable. */
export interface KeyState {
  /** The biggest token granted so far; 0 before the first. */
  readonly token: number
  /** Who holds it, or held it last without ending it; empty when the last holder gave it back. */
  readonly claim: string
  readonly holder: string
  readonly ttlMs: number
  readonly grantedMs: number
  readonly expiresMs: number
  readonly revoked: boolean
  readonly changes: number
  readonly meta: Json | null
  /** The last claim that gave the lease back: refused from then on. */
  readonly lastEnded: string
  /** Claims that were withdrawn: refused until the given time. */
  readonly ended: readonly Ended[]
  /** Who waits, first in line first. */
  readonly queue: readonly Waiter[]
  /** Until when a free lease is kept for the head of the queue; 0 when it is not. */
  readonly reservedUntilMs: number
}

export interface Ended {
  readonly claim: string
  readonly untilMs: number
  readonly revoked: boolean
}

export interface Waiter {
  readonly claim: string
  readonly holder: string
  readonly sinceMs: number
  readonly pollMs: number
  /** Dropped when it has not asked again by then: two polls after it last asked. */
  readonly freshUntilMs: number
  /** The ttl of one that may be told its turn with the token; others ask first. */
  readonly toldTtlMs?: number
  /** The token that comes with its turn, once that has come: it holds from then on, as long as the turn is kept (ADR 0025). */
  readonly toldToken?: number
}

/** What differs between stores. */
export interface Rules {
  /** The token of a grant: above `previous`, at least `floor`. */
  nextToken(previous: number, floor: number, nowMs: number): number
  /** How long a withdrawn claim is remembered, at least. Two ttls of the key when those are longer. */
  readonly endedRetentionMs: number
  /** Whether the store's watch tells a turn with its token. */
  readonly tellsTurns?: boolean
}

/** One step: the new state (the very old one when nothing changed), the answer, and whose turn has come, if anybody's. */
export interface Step<Answer> {
  readonly state: KeyState
  readonly answer: Answer
  /** The claim whose turn has come; empty: the key became free for anybody. */
  readonly wake?: string
  /** The token that goes with it, where the turn is told as a grant. */
  readonly told?: number
}

/** The least time for which a withdrawn claim is remembered. */
export const ENDED_RETENTION_MS = 60_000

/** A key of which nothing is known. `token` is the biggest that may have been granted before (what pruning kept). */
export const unknownKey = (token = 0): KeyState => ({
  token,
  claim: '',
  holder: '',
  ttlMs: 0,
  grantedMs: 0,
  expiresMs: 0,
  revoked: false,
  changes: 0,
  meta: null,
  lastEnded: '',
  ended: [],
  queue: [],
  reservedUntilMs: 0,
})

/** Token rule `counter`: one more than the last. */
export const counterToken = (previous: number, floor: number): number => Math.max(previous + 1, floor)

/**
 * Token rule `µs`: the floor if one is given, else the clock in microseconds, so that the rise outlives a loss of the record;
 * never below the last. With a floor the clock has no say: nodes of a quorum that are given the same one answer the same token.
 */
export const microsecondToken = (previous: number, floor: number, clockMicroseconds: number): number =>
  Math.max(previous + 1, floor > 0 ? floor : clockMicroseconds)

/** Whether anybody holds the key at this time. */
export const isHeld = (state: KeyState, nowMs: number): boolean => state.claim !== '' && nowMs < state.expiresMs

export function acquire(before: KeyState, request: AcquireRequest, nowMs: number, rules: Rules): Step<Granted | Held> {
  const { claim, ttlMs, replaces, tokenFloor = 0 } = request
  if (hasEnded(before, claim)) return { state: before, answer: refusal(before, 'ended', nowMs) }

  const own = replaces === undefined ? before : takeTurn(before, replaces, nowMs)
  const replaced = replaces === undefined ? {} : { replaced: mayAct(own, replaces, nowMs) || gaveBack(own, replaces) }
  const passed = passTurn(replaces === undefined ? own : endClaim(own, replaces), nowMs, rules, claim)
  const state = takeTurn(passed, claim, nowMs)

  if (isHeld(state, nowMs)) {
    if (state.claim !== claim) return refuse(before, state, 'held', request, nowMs, rules, replaced)
    if (state.revoked) return { state, answer: { ...refusal(state, 'revoked', nowMs), ...replaced } }
    // G3: a repeat keeps the token, and never shortens the term.
    const token = Math.max(state.token, tokenFloor)
    const again = { ...state, token: checkToken(token), expiresMs: Math.max(state.expiresMs, nowMs + ttlMs) }
    return { state: again, answer: { is: 'granted', token, ttlMs, ...replaced } }
  }
  const head = state.queue[0]
  if (head !== undefined && head.claim !== claim)
    return refuse(before, state, 'reserved', request, nowMs, rules, replaced)

  const token = checkToken(rules.nextToken(state.token, tokenFloor, nowMs))
  const granted: KeyState = {
    token,
    claim,
    holder: request.holder,
    ttlMs,
    grantedMs: nowMs,
    expiresMs: nowMs + ttlMs,
    revoked: false,
    changes: state.changes + 1,
    meta: request.meta ?? null,
    lastEnded: state.lastEnded,
    ended: sweep(state.ended, nowMs),
    queue: head === undefined ? state.queue : state.queue.slice(1),
    reservedUntilMs: 0,
  }
  return { state: granted, answer: { is: 'granted', token, ttlMs, ...replaced } }
}

export function renew(before: KeyState, claim: string, ttlMs: number, nowMs: number): Step<RenewOutcome> {
  const state = takeTurn(before, claim, nowMs)
  if (!mayAct(state, claim, nowMs) || state.revoked)
    return { state, answer: { is: 'lost', reason: whyLost(state, claim) } }
  const expiresMs = Math.max(state.expiresMs, nowMs + ttlMs)
  return { state: { ...state, expiresMs }, answer: { is: 'renewed', ttlMs } }
}

export function release(before: KeyState, claim: string, nowMs: number, rules: Rules): Step<ReleaseOutcome> {
  const state = takeTurn(before, claim, nowMs)
  if (!mayAct(state, claim, nowMs)) {
    const answer: ReleaseOutcome = gaveBack(state, claim)
      ? { is: 'released' }
      : { is: 'lost', reason: whyLost(state, claim) }
    return { state, answer }
  }
  return { ...freed(endClaim(state, claim), nowMs, rules), answer: { is: 'released' } }
}

export function withdraw(state: KeyState, claim: string, nowMs: number, rules: Rules): Step<undefined> {
  return { ...freed(forget(state, claim, nowMs, rules, false), nowMs, rules), answer: undefined }
}

export function revoke(before: KeyState, force: boolean, nowMs: number, rules: Rules): Step<boolean> {
  const state = takeTurn(before, before.queue[0]?.claim ?? '', nowMs)
  if (!isHeld(state, nowMs)) return { state, answer: false }
  if (!force) return { state: { ...state, revoked: true }, answer: true }
  return { ...freed(forget(state, state.claim, nowMs, rules, true), nowMs, rules), answer: true }
}

/** The state as people see it, or null for a key that was never granted and has no queue. */
export function record(key: string, before: KeyState, nowMs: number): LeaseRecord | null {
  const state = takeTurn(before, before.queue[0]?.claim ?? '', nowMs)
  if (state.changes === 0 && state.queue.length === 0) return null
  const held = isHeld(state, nowMs)
  return {
    key,
    state: held ? 'held' : 'free',
    holder: state.holder,
    claim: state.claim,
    token: state.token,
    ttlMs: state.ttlMs,
    remainingMs: held ? state.expiresMs - nowMs : 0,
    heldMs: held ? nowMs - state.grantedMs : 0,
    changes: state.changes,
    revoked: held && state.revoked,
    meta: state.meta,
    waiters: state.queue
      .filter((waiter) => waiter.freshUntilMs > nowMs)
      .map((waiter) => ({ holder: waiter.holder, waitedMs: Math.max(0, nowMs - waiter.sinceMs) })),
  }
}

/** Whether nothing but the token is left to remember: such a record may be forgotten once no request can be on its way. */
export function isForgettable(state: KeyState, nowMs: number): boolean {
  return (
    !isHeld(state, nowMs) &&
    state.ended.every((entry) => entry.untilMs <= nowMs) &&
    state.queue.every((waiter) => waiter.freshUntilMs <= nowMs)
  )
}

/** Whether a watcher should ask now: the key is free, and it is not somebody else's turn. */
export function mayBeFree(state: KeyState, claim: string, nowMs: number): boolean {
  if (isHeld(state, nowMs)) return false
  const head = state.queue.find((waiter) => waiter.freshUntilMs > nowMs)
  return head === undefined || head.claim === claim || nowMs >= state.reservedUntilMs
}

/** G4: only the claim that holds, before its expiry, can act. */
const mayAct = (state: KeyState, claim: string, nowMs: number) => state.claim === claim && isHeld(state, nowMs)

/** Whether the claim was the last to end what it held: asked once more, a release or a handover is answered as the first time. */
const gaveBack = (state: KeyState, claim: string) =>
  state.lastEnded === claim && !state.ended.some((entry) => entry.claim === claim && entry.revoked)

const hasEnded = (state: KeyState, claim: string) =>
  state.lastEnded === claim || state.ended.some((entry) => entry.claim === claim)

function whyLost(state: KeyState, claim: string): StoreLostReason {
  if (state.claim === claim) return state.revoked ? 'revoked' : 'expired'
  const entry = state.ended.find((ended) => ended.claim === claim)
  if (entry !== undefined) return entry.revoked ? 'revoked' : 'released'
  if (state.lastEnded === claim) return 'released'
  return state.claim === '' ? 'expired' : 'taken'
}

/** Ends a claim, held or not: it leaves the queue, and the lease if that is its own. */
function endClaim(state: KeyState, claim: string): KeyState {
  const next = leaveQueue(state, claim)
  if (next.claim !== claim) return next
  return { ...next, claim: '', expiresMs: 0, revoked: false, lastEnded: claim }
}

/** Ends a claim and remembers it for the retention, so that a late acquire of it is refused (G6). */
function forget(state: KeyState, claim: string, nowMs: number, rules: Rules, revoked: boolean): KeyState {
  const untilMs = nowMs + Math.max(rules.endedRetentionMs, 2 * state.ttlMs)
  const others = sweep(state.ended, nowMs).filter((entry) => entry.claim !== claim)
  return { ...endClaim(state, claim), ended: [...others, { claim, untilMs, revoked }] }
}

function leaveQueue(state: KeyState, claim: string): KeyState {
  const place = state.queue.findIndex((waiter) => waiter.claim === claim)
  if (place < 0) return state
  const queue = state.queue.filter((waiter) => waiter.claim !== claim)
  return { ...state, queue, reservedUntilMs: place === 0 ? 0 : state.reservedUntilMs }
}

/**
 * Whose turn it is. When the lease is free and somebody waits, it is kept for the head of the queue until that one must have
 * asked again; one that did not has lost its place. Waiters who have stopped asking fall out, all at once.
 */
function passTurn(state: KeyState, nowMs: number, rules: Rules, asker?: string): KeyState {
  if (state.queue.length === 0 || isHeld(state, nowMs)) return state
  const missed = state.reservedUntilMs !== 0 && nowMs >= state.reservedUntilMs
  const queue = state.queue.filter((waiter, place) => waiter.freshUntilMs > nowMs && !(missed && place === 0))
  const head = queue[0]
  if (head === undefined) return { ...state, queue, reservedUntilMs: 0 }
  if (head === state.queue[0] && state.reservedUntilMs !== 0)
    return queue.length === state.queue.length ? state : { ...state, queue }
  return giveTurn({ ...state, queue }, head, nowMs, rules, asker)
}

/**
 * For one poll; told with the token, no longer than its place lasts, so that the turns of the dead do not add up. Whoever asks in
 * this very step need not be told.
 */
function giveTurn(state: KeyState, head: Waiter, nowMs: number, rules: Rules, asker?: string): KeyState {
  const reservedUntilMs = nowMs + head.pollMs
  if (head.toldTtlMs === undefined || head.claim === asker) return { ...state, reservedUntilMs }
  const token = rules.nextToken(state.token, 0, nowMs)
  if (!Number.isSafeInteger(token)) return { ...state, reservedUntilMs }
  const told: Waiter = { ...head, toldToken: token }
  return {
    ...state,
    token,
    queue: [told, ...state.queue.slice(1)],
    reservedUntilMs: Math.min(reservedUntilMs, head.freshUntilMs),
  }
}

/** Whoever was told its turn with the token holds since then: its first request puts that on record. */
function takeTurn(state: KeyState, claim: string, nowMs: number): KeyState {
  const head = state.queue[0]
  if (head?.toldToken === undefined || head.claim !== claim || nowMs >= state.reservedUntilMs) return state
  return {
    ...state,
    claim,
    holder: head.holder,
    ttlMs: head.toldTtlMs ?? 0,
    grantedMs: nowMs,
    expiresMs: state.reservedUntilMs,
    revoked: false,
    changes: state.changes + 1,
    meta: null,
    ended: sweep(state.ended, nowMs),
    queue: state.queue.slice(1),
    reservedUntilMs: 0,
  }
}

/** After an end: whose turn has come. */
function freed(state: KeyState, nowMs: number, rules: Rules): { state: KeyState; wake?: string; told?: number } {
  if (isHeld(state, nowMs)) return { state }
  const next = passTurn(state, nowMs, rules)
  return { state: next, ...wakeOf(next.queue[0]) }
}

const wakeOf = (head: Waiter | undefined) =>
  head?.toldToken === undefined ? { wake: head?.claim ?? '' } : { wake: head.claim, told: head.toldToken }

function refusal(state: KeyState, because: Held['because'], nowMs: number): Held {
  const held = isHeld(state, nowMs)
  const head = state.queue[0]
  if (!held && head !== undefined) {
    return {
      is: 'held',
      because,
      holder: head.holder,
      token: state.token,
      remainingMs: Math.max(0, state.reservedUntilMs - nowMs),
    }
  }
  return {
    is: 'held',
    because,
    holder: held ? state.holder : '',
    token: state.token,
    remainingMs: held ? state.expiresMs - nowMs : 0,
  }
}

/** No, and a place in the queue if one was asked for. A turn that has just come is told to the one whose it is. */
function refuse(
  before: KeyState,
  state: KeyState,
  because: 'held' | 'reserved',
  request: AcquireRequest,
  nowMs: number,
  rules: Rules,
  replaced: { replaced?: boolean },
): Step<Held> {
  const answer = { ...refusal(state, because, nowMs), ...replaced }
  const next = request.queue === undefined ? state : joinQueue(state, request, request.queue, nowMs, rules)
  const head = state.reservedUntilMs !== before.reservedUntilMs ? state.queue[0] : undefined
  return head === undefined ? { state: next, answer } : { state: next, answer, ...wakeOf(head) }
}

/** In line, once: a claim that is there already only says that it still waits. */
function joinQueue(
  state: KeyState,
  request: AcquireRequest,
  { pollMs, told = false }: QueueRequest,
  nowMs: number,
  rules: Rules,
): KeyState {
  const { claim, holder, ttlMs, meta, tokenFloor } = request
  const freshUntilMs = nowMs + 2 * pollMs
  // What else comes with a request is for a grant that answers it.
  const mayBeTold = told && rules.tellsTurns === true && meta === undefined && tokenFloor === undefined
  const asked = { pollMs, freshUntilMs, ...(mayBeTold ? { toldTtlMs: ttlMs } : undefined) }
  const mine = state.queue.findIndex((waiter) => waiter.claim === claim)
  if (mine < 0) {
    const queue = state.queue.filter((waiter) => waiter.freshUntilMs > nowMs)
    return { ...state, queue: [...queue, { claim, holder, sinceMs: nowMs, ...asked }] }
  }
  return {
    ...state,
    queue: state.queue.map((waiter, place) => (place === mine ? { ...waiter, ...asked } : waiter)),
  }
}

const sweep = (ended: readonly Ended[], nowMs: number): readonly Ended[] =>
  ended.length === 0 ? ended : ended.filter((entry) => entry.untilMs > nowMs)

/** A token is a safe integer: what goes beyond is refused, never rounded. */
function checkToken(token: number): number {
  if (Number.isSafeInteger(token)) return token
  throw new StoreError(`the next token would be ${token}, beyond 2^53 - 1: this key can be granted no more`, {
    outcome: 'none',
  })
}
