// The bad habits themselves, each as a small change to the right steps, and the two usual locks that have many at once.
import * as right from '../../src/store/protocol.js'
import { naiveQueues } from './naive-queue.js'
import { naiveRecords } from './naive-records.js'
import {
  afterAcquire,
  again,
  alone,
  empty,
  forgetEnded,
  isHeld,
  isRepeat,
  like,
  lost,
  released,
  releasesAnybody,
  renewsAnybody,
  renewsUntil,
  repeatGives,
  startsAtOneAgain,
  withdrawsLikeRelease,
  withdrawsNothing,
} from './naive-steps.js'
import { goodHabits, type Habits } from './naive-store.js'

/** Each with its own fault, by name. */
export const naive: Record<string, Partial<Habits>> = {
  // The usual locks, with all that they lack.
  'the usual Redis lock': {
    looksThenWrites: true,
    read: (state, nowMs) => (isHeld(state, nowMs) ? state : { ...right.unknownKey(), changes: state.changes }),
    acquire(state, request, nowMs, rules) {
      if (!isHeld(state, nowMs)) return right.acquire(forgetEnded(state), alone(request), nowMs, rules)
      return {
        state,
        answer: right.acquire(state, { ...alone(request), claim: 'somebody else' }, nowMs, rules).answer as never,
      }
    },
    renew: renewsAnybody,
    release: releasesAnybody,
    withdraw: (state) => ({ state: empty(state), answer: undefined }),
    revoke: (state, _, nowMs) => ({ state: empty(state), answer: isHeld(state, nowMs) }),
    hintsAtStart: false,
  },
  'the usual SQL lock': {
    looksThenWrites: true,
    nameOf: (key) => key.toLowerCase().trimEnd().slice(0, 255),
    acquire: (state, request, nowMs, rules) => right.acquire(forgetEnded(state), alone(request), nowMs, rules),
    renew: (state, claim, ttlMs, nowMs) =>
      state.claim === claim ? renewsAnybody(state, claim, ttlMs, nowMs) : lost(state),
    release: (state, claim) => (state.claim === claim ? released({ ...empty(state), token: 0 }) : lost(state)),
    withdraw: withdrawsNothing,
    revoke: (state) => ({ state: empty(state), answer: state.claim !== '' }),
    record: (key, state, nowMs) => right.record(key, { ...state, expiresMs: nowMs + state.ttlMs }, nowMs),
    isUnder: (prefix, key) => like(prefix).test(key),
  },

  // Exclusion
  'looks, then writes': { looksThenWrites: true },
  'keeps its data in each process': { shared: false },
  'compares claims by their beginning': {
    renew: (state, claim, ttlMs, nowMs) =>
      right.renew(state, state.claim.startsWith(claim) ? state.claim : claim, ttlMs, nowMs),
  },
  'compares labels': {
    acquire: (state, request, nowMs, rules) =>
      right.acquire(
        state,
        request.holder === state.holder ? { ...request, claim: state.claim } : request,
        nowMs,
        rules,
      ),
  },
  'compares claims without case': {
    release: (state, claim, nowMs, rules) =>
      right.release(state, claim.toLowerCase() === state.claim.toLowerCase() ? state.claim : claim, nowMs, rules),
  },

  // Tokens
  'counts from one again when the key is free': { read: startsAtOneAgain },
  'forgets the token of a key that it prunes': { tokenAfterPruning: () => 0 },
  'compares tokens as text': {
    nextToken: (previous, floor) =>
      String(previous + 1) > String(previous) ? Math.max(previous + 1, floor) : previous,
  },
  'counts up at every renewal': {
    renew: (state, claim, ttlMs, nowMs) => {
      const step = right.renew(state, claim, ttlMs, nowMs)
      return step.answer.is === 'lost' ? step : { ...step, state: { ...step.state, token: state.token + 1 } }
    },
  },
  'counts up at every try': {
    acquire: (state, request, nowMs, rules) =>
      right.acquire({ ...state, token: state.token + 1 }, request, nowMs, rules),
  },
  'ignores the floor': {
    acquire: (state, { tokenFloor: _, ...request }, nowMs, rules) => right.acquire(state, request, nowMs, rules),
  },
  'ignores the floor of a repeat': {
    acquire: repeatGives((state, request, nowMs) => again(state, request, nowMs + request.ttlMs)),
  },
  'takes the floor for the token': {
    nextToken: (previous, floor) => (floor > 0 ? floor : previous + 1),
    acquire: (state, request, nowMs, rules) =>
      right.acquire(request.tokenFloor ? { ...state, token: request.tokenFloor } : state, request, nowMs, rules),
  },
  'rounds the token': {
    acquire(state, request, nowMs, rules) {
      try {
        return right.acquire(state, request, nowMs, rules)
      } catch {
        return right.acquire(state, request, nowMs, { ...rules, nextToken: (previous) => previous })
      }
    },
  },
  'gives tokens as text': {
    answer: (value) => ('token' in value ? { ...value, token: String(value.token) } : value),
  },
  'gives values that JSON does not carry': {
    answer: (value) => ('token' in value ? { ...value, granted: undefined } : value),
  },

  // Repeats
  'refuses a claim that holds already': {
    acquire: repeatGives((state, request, nowMs) => ({
      state,
      answer: {
        is: 'held',
        because: 'held',
        holder: request.holder,
        token: state.token,
        remainingMs: state.expiresMs - nowMs,
      },
    })),
  },
  'gives a new token to a repeat': {
    acquire: (state, request, nowMs, rules) =>
      isRepeat(state, request.claim, nowMs)
        ? right.acquire(empty(state), request, nowMs, rules)
        : right.acquire(state, request, nowMs, rules),
  },
  'does not extend at a repeat': {
    acquire: repeatGives((state, request) => again(state, request, state.expiresMs)),
  },
  'adds up the terms of repeats': {
    acquire: repeatGives((state, request) => again(state, request, state.expiresMs + request.ttlMs)),
  },
  'shortens at a repeat': {
    acquire: repeatGives((state, request, nowMs) => again(state, request, nowMs + request.ttlMs)),
  },

  // Expiry
  'renews for anybody': { renew: renewsAnybody },
  'releases for anybody': { release: releasesAnybody },
  'lets an expired claim come back by renewing': {
    renew: (state, claim, ttlMs, nowMs) =>
      state.claim === claim ? renewsAnybody(state, claim, ttlMs, nowMs) : right.renew(state, claim, ttlMs, nowMs),
  },
  'lets an expired claim release': {
    release: (state, claim, nowMs, rules) =>
      state.claim === claim ? released(empty(state)) : right.release(state, claim, nowMs, rules),
  },
  'takes up the old grant after its expiry': {
    acquire: (state, request, nowMs, rules) =>
      state.claim === request.claim && state.queue.length === 0
        ? again(state, request, nowMs + request.ttlMs)
        : right.acquire(state, request, nowMs, rules),
  },
  'has a fixed limit': { renew: renewsUntil((state) => state.grantedMs + state.ttlMs) },
  'adds up the terms of renewals': { renew: renewsUntil((state, ttlMs) => state.expiresMs + ttlMs) },
  'shortens at a renewal': { renew: renewsUntil((_, ttlMs, nowMs) => nowMs + ttlMs) },
  'takes a second release for a mistake': {
    release: (state, claim, nowMs, rules) =>
      isHeld(state, nowMs) ? right.release(state, claim, nowMs, rules) : lost(state),
  },
  'fails all renewals when one fails': {
    async renewMany(leases, renewOne) {
      const outcomes = await Promise.all(leases.map(renewOne))
      const failed = outcomes.find(({ is }) => is === 'lost')
      return failed === undefined ? outcomes : leases.map(() => failed)
    },
  },
  'answers renewals by key': {
    async renewMany(leases, renewOne) {
      const byKey = new Map(await Promise.all(leases.map(async (lease) => [lease.key, await renewOne(lease)] as const)))
      return leases.map(({ key }) => byKey.get(key) ?? { is: 'unknown', cause: undefined })
    },
  },

  // Withdrawal
  'withdraws nothing': { withdraw: withdrawsNothing },
  'withdraws only what holds': { withdraw: withdrawsLikeRelease },
  'withdraws whoever holds': {
    withdraw: (state, claim, nowMs, rules) => right.withdraw(empty(state), claim, nowMs, rules),
  },
  'remembers one withdrawn claim': {
    withdraw(state, claim, nowMs, rules) {
      const step = right.withdraw(state, claim, nowMs, rules)
      return { ...step, state: { ...step.state, ended: step.state.ended.slice(-1) } }
    },
  },
  'forgets withdrawn claims at the next grant': {
    acquire: afterAcquire((after, before) => (after.changes > before.changes ? { ...after, ended: [] } : after)),
  },
  'forgets withdrawn claims when it prunes': { isForgettable: (state, nowMs) => !isHeld(state, nowMs) },
  'remembers withdrawn claims for a second': {
    read: (state, nowMs) => ({ ...state, lastEnded: '', ended: nowMs - state.grantedMs > 1_000 ? [] : state.ended }),
  },
  'remembers withdrawn claims for a minute, however long the terms are': {
    withdraw: (state, claim, nowMs, rules) => right.withdraw({ ...state, ttlMs: 0 }, claim, nowMs, rules),
  },
  'forgets whoever released': {
    release: (state, claim, nowMs, rules) => {
      const step = right.release(state, claim, nowMs, rules)
      return { ...step, state: { ...step.state, lastEnded: '' } }
    },
  },

  // Handover
  'keeps the token at a handover': {
    acquire: afterAcquire((after, before, request, nowMs) =>
      request.replaces !== undefined && isRepeat(before, request.replaces, nowMs)
        ? { ...after, token: before.token }
        : after,
    ),
  },
  'knows no handover': {
    acquire: (state, { replaces: _, ...request }, nowMs, rules) => right.acquire(state, request, nowMs, rules),
  },
  'hands over whatever is there': {
    acquire: (state, request, nowMs, rules) =>
      request.replaces === undefined
        ? right.acquire(state, request, nowMs, rules)
        : right.acquire(empty(state), { ...request, claim: request.claim }, nowMs, rules),
  },
  'hands over only from the holder': {
    acquire: (state, request, nowMs, rules) =>
      request.replaces === undefined || isRepeat(state, request.replaces, nowMs)
        ? right.acquire(state, request, nowMs, rules)
        : {
            state,
            answer: { is: 'held', because: 'held', holder: '', token: state.token, remainingMs: 0, replaced: false },
          },
  },
  'forgets the claim that was replaced': {
    acquire: afterAcquire((after, _, request) =>
      request.replaces === undefined ? after : { ...after, lastEnded: '' },
    ),
  },
  'hands over to a claim that was withdrawn': {
    acquire: (state, request, nowMs, rules) =>
      right.acquire(request.replaces === undefined ? state : forgetEnded(state), request, nowMs, rules),
  },
  'hands over past the queue': {
    acquire: (state, request, nowMs, rules) =>
      request.replaces !== undefined && isRepeat(state, request.replaces, nowMs)
        ? right.acquire({ ...state, queue: [] }, request, nowMs, rules)
        : right.acquire(state, request, nowMs, rules),
  },

  // Revocation
  'frees at once when it revokes': { revoke: (state, _, nowMs, rules) => right.revoke(state, true, nowMs, rules) },
  'lets a revoked holder ask again': {
    acquire: repeatGives((state, request, nowMs) =>
      again({ ...state, revoked: false }, request, Math.max(state.expiresMs, nowMs + request.ttlMs)),
    ),
  },
  'refuses the release of a revoked holder': {
    release: (state, claim, nowMs, rules) => (state.revoked ? lost(state) : right.release(state, claim, nowMs, rules)),
  },
  'leaves the mark of a revocation on the key': {
    acquire: afterAcquire((after, before) => ({ ...after, revoked: before.revoked })),
    release: (state, claim, nowMs, rules) => {
      const step = right.release(state, claim, nowMs, rules)
      return { ...step, state: { ...step.state, revoked: state.revoked } }
    },
  },
  'marks whatever it finds when it revokes': {
    revoke: (state) => ({ state: { ...state, revoked: true }, answer: state.changes > 0 }),
  },
  'only marks when it revokes by force': {
    revoke: (state, _, nowMs, rules) => right.revoke(state, false, nowMs, rules),
  },

  ...naiveQueues,
  ...naiveRecords,
}

/** A store with this bad habit, and otherwise right. */
export const naiveHabits = (name: string): Habits => ({ ...goodHabits, ...naive[name] })
