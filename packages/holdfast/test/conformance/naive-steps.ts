// Wrong steps that several bad habits share.
import type { AcquireRequest } from '../../src/store/contract.js'
import * as right from '../../src/store/protocol.js'
import type { Habits } from './naive-store.js'

export const { isHeld } = right

export type State = right.KeyState

export const lost = (state: State) => ({ state, answer: { is: 'lost', reason: 'taken' } }) as const
export const released = (state: State) => ({ state, answer: { is: 'released' }, wake: '' }) as const
export const empty = (state: State): State => ({ ...state, claim: '', expiresMs: 0, revoked: false })
export const alone = (request: AcquireRequest): AcquireRequest => ({
  key: request.key,
  claim: request.claim,
  holder: request.holder,
  ttlMs: request.ttlMs,
})
export const isRepeat = (state: State, claim: string, nowMs: number) => isHeld(state, nowMs) && state.claim === claim

/** An acquire that goes wrong when the claim holds already. */
export const repeatGives =
  (give: (state: State, request: AcquireRequest, nowMs: number) => ReturnType<Habits['acquire']>): Habits['acquire'] =>
  (state, request, nowMs, rules) =>
    isRepeat(state, request.claim, nowMs) ? give(state, request, nowMs) : right.acquire(state, request, nowMs, rules)

export const again = (state: State, request: AcquireRequest, expiresMs: number) =>
  ({ state: { ...state, expiresMs }, answer: { is: 'granted', token: state.token, ttlMs: request.ttlMs } }) as const

/** A renewal of the right claim that sets another expiry. */
export const renewsUntil =
  (until: (state: State, ttlMs: number, nowMs: number) => number): Habits['renew'] =>
  (state, claim, ttlMs, nowMs) => {
    const step = right.renew(state, claim, ttlMs, nowMs)
    return step.answer.is === 'renewed' ? { ...step, state: { ...state, expiresMs: until(state, ttlMs, nowMs) } } : step
  }

/** What becomes of the state after a right step. */
export const afterAcquire =
  (change: (after: State, before: State, request: AcquireRequest, nowMs: number) => State): Habits['acquire'] =>
  (state, request, nowMs, rules) => {
    const step = right.acquire(state, request, nowMs, rules)
    return { ...step, state: change(step.state, state, request, nowMs) }
  }

export const forgetEnded = (state: State): State => ({ ...state, ended: [], lastEnded: '' })

/** Renews for whoever asks, as long as the row is there. */
export const renewsAnybody: Habits['renew'] = (state, _, ttlMs, nowMs) =>
  state.claim === '' ? lost(state) : { state: { ...state, expiresMs: nowMs + ttlMs }, answer: { is: 'renewed', ttlMs } }

export const releasesAnybody: Habits['release'] = (state) => released(empty(state))

export const withdrawsNothing: Habits['withdraw'] = (state) => ({ state, answer: undefined })

export const withdrawsLikeRelease: Habits['withdraw'] = (state, claim, nowMs, rules) => {
  const step = right.release(state, claim, nowMs, rules)
  return { ...step, state: forgetEnded(step.state), answer: undefined }
}

export const startsAtOneAgain: Habits['read'] = (state, nowMs) =>
  isHeld(state, nowMs) ? state : { ...state, token: 0 }

/** SQL's LIKE, as SQLite and MySQL have it: `%` and `_` are patterns, and case does not count. */
export function like(prefix: string): RegExp {
  const pattern = prefix
    .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replaceAll('%', '.*')
    .replaceAll('_', '.')
  return new RegExp(`^${pattern}`, 'isu')
}
