// Bad habits of queues and watches.
import * as right from '../../src/store/protocol.js'
import { afterAcquire, isHeld } from './naive-steps.js'
import type { Habits } from './naive-store.js'

/** Each with its own fault, by name. */
export const naiveQueues: Record<string, Partial<Habits>> = {
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
  'gives up a waiter after one poll': {
    read: (state, nowMs) => ({
      ...state,
      queue: state.queue.filter((waiter) => waiter.freshUntilMs - waiter.pollMs > nowMs),
    }),
  },
  'counts the turn of one who came against the next': {
    acquire: afterAcquire((after, before) => ({
      ...after,
      reservedUntilMs: after.reservedUntilMs || before.reservedUntilMs,
    })),
  },
  'forgets the queue of a free key when it prunes': {
    isForgettable: (state, nowMs) => right.isForgettable({ ...state, queue: [] }, nowMs),
  },
  'lengthens the turn of the head at every ask': {
    acquire: afterAcquire((after, _, __, nowMs) => {
      const head = after.queue[0]
      const isKept = head !== undefined && after.reservedUntilMs > nowMs
      return isKept ? { ...after, reservedUntilMs: nowMs + head.pollMs } : after
    }),
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

  // Turns that are told with their token
  'forgets whom it told': {
    read: (state) => ({ ...state, queue: state.queue.map(({ toldToken: _, ...waiter }) => waiter) }),
  },
  'tells everybody': {
    acquire: (state, { meta: _, ...request }, nowMs, rules) => {
      const { queue } = request
      const asked = queue === undefined ? request : { ...request, queue: { ...queue, told: true } }
      return right.acquire(state, asked, nowMs, rules)
    },
  },

  // Watches
  'gives no hint at the start': { hintsAtStart: false },
  'gives hints for releases only': {
    isHintFor: (wake, claim, verb) => verb === 'release' && (wake === '' || wake === claim),
  },
  'wakes everybody': { isHintFor: () => true, mayBeFree: () => true },
  'never ends a watch': { watchEnds: 'never' },
  'goes on watching after it was closed': { watchEnds: 'at abort' },
}

const neverGone = (waiter: right.Waiter): right.Waiter => ({ ...waiter, freshUntilMs: Number.MAX_SAFE_INTEGER })
