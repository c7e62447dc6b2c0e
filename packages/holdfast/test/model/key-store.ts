// One key of a store, as the models see it: the real functions of store/protocol.ts, with time told as it is left. The store's
// clock stands still at NOW and all its instants move towards it, so that states which differ only in their date are one.
import * as protocol from '../../src/store/protocol.js'

export type KeyState = protocol.KeyState

/** The store's time, always. An instant at or before it is over. */
export const NOW = 1_000
/** Longer than any request can be on its way in a model: withdrawn claims are not forgotten while they matter. */
const RETENTION = 500

export const rules: protocol.Rules = { nextToken: protocol.counterToken, endedRetentionMs: RETENTION }

export const unknown: KeyState = protocol.unknownKey()

/** One tick passes. */
export function tick(state: KeyState): KeyState {
  return plain({
    ...state,
    expiresMs: state.expiresMs - 1,
    reservedUntilMs: state.reservedUntilMs - 1,
    queue:
      state.queue.length === 0
        ? state.queue
        : state.queue.map((waiter) => ({ ...waiter, freshUntilMs: waiter.freshUntilMs - 1 })),
  })
}

/** Forgets what no step looks at: dates of the past, counts, labels. */
export function plain(state: KeyState): KeyState {
  const past = (instant: number) => Math.max(instant, NOW)
  return {
    ...state,
    holder: '',
    ttlMs: 0,
    grantedMs: 0,
    changes: 0,
    expiresMs: state.claim === '' ? 0 : past(state.expiresMs),
    revoked: state.revoked && state.expiresMs > NOW,
    ended:
      state.ended.length === 0
        ? state.ended
        : state.ended
            .map(({ claim }) => ({ claim, untilMs: NOW + RETENTION, revoked: false }))
            .sort((a, b) => (a.claim < b.claim ? -1 : 1)),
    queue:
      state.queue.length === 0
        ? state.queue
        : state.queue.map((waiter) => ({ ...waiter, sinceMs: 0, freshUntilMs: past(waiter.freshUntilMs) })),
    // 0: nothing is reserved. A reservation that is over says so until the turn passes.
    reservedUntilMs: state.reservedUntilMs <= 0 ? 0 : past(state.reservedUntilMs),
  }
}

/** What is left of the term. */
export const left = (state: KeyState): number => (protocol.isHeld(state, NOW) ? state.expiresMs - NOW : 0)

export const textOf = (state: KeyState): string =>
  `${state.token},${state.claim},${state.expiresMs},${state.revoked ? 'r' : ''},${state.lastEnded},` +
  `${state.ended.map(({ claim }) => claim).join('.')},${state.reservedUntilMs},` +
  state.queue.map(({ claim, freshUntilMs, pollMs }) => `${claim}-${freshUntilMs}-${pollMs}`).join('.')
