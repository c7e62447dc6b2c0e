// The bad habits themselves, each as a small change to the right steps, and the two usual locks that have many at once.
import type { AcquireRequest } from '../../src/store/contract.js'
import * as right from '../../src/store/protocol.js'
import { goodHabits, type Habits } from './naive-store.js'

const { isHeld } = right

type State = right.KeyState

const lost = (state: State) => ({ state, answer: { is: 'lost', reason: 'taken' } }) as const
const released = (state: State) => ({ state, answer: { is: 'released' }, wake: '' }) as const
const empty = (state: State): State => ({ ...state, claim: '', expiresMs: 0, revoked: false })
const alone = (request: AcquireRequest): AcquireRequest => ({
  key: request.key,
  claim: request.claim,
  holder: request.holder,
  ttlMs: request.ttlMs,
})
const isRepeat = (state: State, claim: string, nowMs: number) => isHeld(state, nowMs) && state.claim === claim

/** An acquire that goes wrong when the claim holds already. */
const repeatGives =
  (give: (state: State, request: AcquireRequest, nowMs: number) => ReturnType<Habits['acquire']>): Habits['acquire'] =>
  (state, request, nowMs, rules) =>
    isRepeat(state, request.claim, nowMs) ? give(state, request, nowMs) : right.acquire(state, request, nowMs, rules)

const again = (state: State, request: AcquireRequest, expiresMs: number) =>
  ({ state: { ...state, expiresMs }, answer: { is: 'granted', token: state.token, ttlMs: request.ttlMs } }) as const

/** A renewal of the right claim that sets another expiry. */
const renewsUntil =
  (until: (state: State, ttlMs: number, nowMs: number) => number): Habits['renew'] =>
  (state, claim, ttlMs, nowMs) => {
    const step = right.renew(state, claim, ttlMs, nowMs)
    return step.answer.is === 'renewed' ? { ...step, state: { ...state, expiresMs: until(state, ttlMs, nowMs) } } : step
  }

/** What becomes of the state after a right step. */
const afterAcquire =
  (change: (after: State, before: State, request: AcquireRequest, nowMs: number) => State): Habits['acquire'] =>
  (state, request, nowMs, rules) => {
    const step = right.acquire(state, request, nowMs, rules)
    return { ...step, state: change(step.state, state, request, nowMs) }
  }

const forgetEnded = (state: State): State => ({ ...state, ended: [], lastEnded: '' })

/** Renews for whoever asks, as long as the row is there. */
const renewsAnybody: Habits['renew'] = (state, _, ttlMs, nowMs) =>
  state.claim === '' ? lost(state) : { state: { ...state, expiresMs: nowMs + ttlMs }, answer: { is: 'renewed', ttlMs } }

const releasesAnybody: Habits['release'] = (state) => released(empty(state))

const withdrawsNothing: Habits['withdraw'] = (state) => ({ state, answer: undefined })

const withdrawsLikeRelease: Habits['withdraw'] = (state, claim, nowMs) => {
  const step = right.release(state, claim, nowMs)
  return { ...step, state: forgetEnded(step.state), answer: undefined }
}

const startsAtOneAgain: Habits['read'] = (state, nowMs) => (isHeld(state, nowMs) ? state : { ...state, token: 0 })

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
    release: (state, claim, nowMs) =>
      right.release(state, claim.toLowerCase() === state.claim.toLowerCase() ? state.claim : claim, nowMs),
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
    release: (state, claim, nowMs) =>
      state.claim === claim ? released(empty(state)) : right.release(state, claim, nowMs),
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
    release: (state, claim, nowMs) => (isHeld(state, nowMs) ? right.release(state, claim, nowMs) : lost(state)),
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
  'forgets whoever released': {
    release: (state, claim, nowMs) => {
      const step = right.release(state, claim, nowMs)
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
    release: (state, claim, nowMs) => (state.revoked ? lost(state) : right.release(state, claim, nowMs)),
  },
  'leaves the mark of a revocation on the key': {
    acquire: afterAcquire((after, before) => ({ ...after, revoked: before.revoked })),
    release: (state, claim, nowMs) => {
      const step = right.release(state, claim, nowMs)
      return { ...step, state: { ...step.state, revoked: state.revoked } }
    },
  },
  'marks whatever it finds when it revokes': {
    revoke: (state) => ({ state: { ...state, revoked: true }, answer: state.changes > 0 }),
  },
  'only marks when it revokes by force': {
    revoke: (state, _, nowMs, rules) => right.revoke(state, false, nowMs, rules),
  },

  // The queue
  'has no queue': {
    acquire: (state, { queue: _, ...request }, nowMs, rules) => right.acquire(state, request, nowMs, rules),
  },
  'joins the queue at its end at every ask': {
    acquire: (state, request, nowMs, rules) => {
      const isHead = state.queue[0]?.claim === request.claim && !isHeld(state, nowMs)
      const queue = state.queue.filter((waiter) => waiter.claim !== request.claim)
      return right.acquire(isHead || request.queue === undefined ? state : { ...state, queue }, request, nowMs, rules)
    },
  },
  'queues whoever asks': {
    acquire: (state, request, nowMs, rules) =>
      right.acquire(state, { queue: { pollMs: 1e6 }, ...request }, nowMs, rules),
  },
  'serves the last in line first': {
    acquire: afterAcquire((after, before) =>
      after.queue.length > before.queue.length
        ? { ...after, queue: [...after.queue.slice(-1), ...after.queue.slice(0, -1)] }
        : after,
    ),
  },
  'keeps no turn for the head of the queue': {
    acquire: (state, request, nowMs, rules) => {
      if (isHeld(state, nowMs)) return right.acquire(state, request, nowMs, rules)
      const step = right.acquire({ ...state, queue: [] }, request, nowMs, rules)
      return { ...step, state: { ...step.state, queue: state.queue.filter(({ claim }) => claim !== request.claim) } }
    },
  },
  'passes the turn at a release only': {
    acquire: (state, request, nowMs, rules) => {
      const isExpired = state.claim !== '' && !isHeld(state, nowMs)
      return right.acquire(isExpired ? { ...state, queue: [] } : state, request, nowMs, rules)
    },
  },
  'waits for a dead head for ever': {
    read: (state) => (state.reservedUntilMs === 0 ? state : { ...state, reservedUntilMs: Number.MAX_SAFE_INTEGER }),
    acquire: (state, request, nowMs, rules) =>
      right.acquire({ ...state, queue: state.queue.map(neverGone) }, request, nowMs, rules),
  },
  'waits for each ghost in turn': {
    read: (state) => ({ ...state, queue: state.queue.map(neverGone) }),
  },
  'takes the place of a waiter that goes on asking': {
    acquire: afterAcquire((after, before) => ({
      ...after,
      queue: after.queue.map((waiter) => before.queue.find(({ claim }) => claim === waiter.claim) ?? waiter),
    })),
  },
  'leaves withdrawn waiters in the queue': {
    withdraw: (state, claim, nowMs, rules) => {
      const { state: after, answer } = right.withdraw({ ...state, queue: [] }, claim, nowMs, rules)
      return { state: { ...after, queue: state.queue, reservedUntilMs: state.reservedUntilMs }, answer }
    },
  },
  'empties the queue when it frees': {
    withdraw: (state, claim, nowMs, rules) =>
      right.withdraw(state.claim === claim ? { ...state, queue: [] } : state, claim, nowMs, rules),
    revoke: (state, force, nowMs, rules) => right.revoke(force ? { ...state, queue: [] } : state, force, nowMs, rules),
  },
  'leaves the served in the queue': {
    acquire: afterAcquire((after, before) =>
      after.changes > before.changes ? { ...after, queue: before.queue } : after,
    ),
  },
  'does not tell who waits': {
    record: (key, state, nowMs) => right.record(key, { ...state, queue: [] }, nowMs),
  },

  // Watches
  'gives no hint at the start': { hintsAtStart: false },
  'gives hints for releases only': {
    isHintFor: (wake, claim, verb) => verb === 'release' && (wake === '' || wake === claim),
  },
  'wakes everybody': { isHintFor: () => true, mayBeFree: () => true },
  'never ends a watch': { watchEnds: 'never' },
  'goes on watching after it was closed': { watchEnds: 'at abort' },

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
  'deletes the row at a release': { release: (state, claim, nowMs) => noTrace(right.release(state, claim, nowMs)) },
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

const neverGone = (waiter: right.Waiter): right.Waiter => ({ ...waiter, freshUntilMs: Number.MAX_SAFE_INTEGER })

const noTrace = <Answer>(step: right.Step<Answer>): right.Step<Answer> =>
  step.state.claim === ''
    ? { ...step, state: { ...right.unknownKey(step.state.token), lastEnded: step.state.lastEnded } }
    : step

/** SQL's LIKE, as SQLite and MySQL have it: `%` and `_` are patterns, and case does not count. */
function like(prefix: string): RegExp {
  const pattern = prefix
    .replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replaceAll('%', '.*')
    .replaceAll('_', '.')
  return new RegExp(`^${pattern}`, 'isu')
}

export const naiveHabits = (name: string): Habits => ({ ...goodHabits, ...naive[name] })
