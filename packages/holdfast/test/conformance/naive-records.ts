// Bad habits with names, records and failures.
import * as right from '../../src/store/protocol.js'
import { afterAcquire, isHeld, like } from './naive-steps.js'
import type { Habits } from './naive-store.js'

/** Each with its own fault, by name. */
export const naiveRecords: Record<string, Partial<Habits>> = {
  // Names
  'folds case': { nameOf: (key) => key.toLowerCase() },
  'normalises names': { nameOf: (key) => key.normalize('NFKC') },
  'trims names': { nameOf: (key) => key.trim() },
  'compares names by a collation': {
    nameOf: (key) =>
      key
        .normalize('NFD')
        .replace(/[\u0300-\u036f\u200b]/g, '')
        .replaceAll('ß', 'ss'),
  },
  'cuts names': { nameOf: (key) => key.slice(0, 64) },
  'takes a name for the beginning of others': { nameOf: (key) => key.replace(/[0-9:]+$/, '') },
  'keeps names by what is in their braces': { nameOf: (key) => key.replace(/.*\{([^}]+)\}.*/, '$1') },
  'drops braces': { nameOf: (key) => key.replace(/[{}]/g, '') },
  'cleans names up': { nameOf: (key) => key.replace(/[^\w/-]/gu, '_') },
  'keeps its bookkeeping under names like keys': { namesBeside: (key) => [`${key}:queue`, `${key}:ended`] },

  // Records
  'shows rows as they were written': {
    record: (key, state, nowMs) =>
      right.record(key, { ...state, expiresMs: nowMs + state.ttlMs, grantedMs: nowMs }, nowMs),
  },
  'deletes the row at a release': {
    release: (state, claim, nowMs, rules) => noTrace(right.release(state, claim, nowMs, rules)),
  },
  'says how long a lease was granted for, not what is left': {
    acquire: (state, request, nowMs, rules) => {
      const step = right.acquire(state, request, nowMs, rules)
      return step.answer.is === 'held' ? { ...step, answer: { ...step.answer, remainingMs: state.ttlMs } } : step
    },
  },
  'says less than what is left': {
    acquire: (state, request, nowMs, rules) => {
      const step = right.acquire(state, request, nowMs, rules)
      const remainingMs = step.answer.is === 'held' ? step.answer.remainingMs / 2 : 0
      return step.answer.is === 'held' ? { ...step, answer: { ...step.answer, remainingMs } } : step
    },
  },
  'does not count changes': { acquire: afterAcquire((after) => ({ ...after, changes: 1 })) },
  'renews what it lists': {
    list: (state, nowMs) => (isHeld(state, nowMs) ? { ...state, expiresMs: nowMs + 2 * state.ttlMs } : state),
  },
  'cuts meta': {
    acquire: (state, request, nowMs, rules) =>
      right.acquire(state, { ...request, meta: JSON.stringify(request.meta ?? null).slice(0, 1_024) }, nowMs, rules),
  },
  'leaves meta on the key': {
    acquire: (state, request, nowMs, rules) =>
      right.acquire(state, { ...request, meta: request.meta ?? state.meta }, nowMs, rules),
  },
  'lists in the order of UTF-16': { order: (a, b) => (a < b ? -1 : a > b ? 1 : 0) },
  'lists by a pattern': { isUnder: (prefix, key) => like(prefix).test(key) },

  // Failures
  'throws what comes when it is closed': { closedError: () => new TypeError('Cannot read properties of null') },
  'goes on working when it is closed': { closedError: () => undefined },
  'cannot be closed twice': { closesOnce: true },
  'throws the reason of the signal': { aborted: 'throws the reason' },
  'says that nothing was done when it was': { aborted: 'acquires, then says none' },
}

const noTrace = <Answer>(step: right.Step<Answer>): right.Step<Answer> =>
  step.state.claim === ''
    ? { ...step, state: { ...right.unknownKey(step.state.token), lastEnded: step.state.lastEnded } }
    : step
