// The fair queue of one key, as a model: the store's steps are the real ones, waiters ask at their own pace and lose every hint.
// Each must ask again within the time that it told the store; some die, some give up. What is asked: is a turn ever lost, how
// long does a dead head keep the others waiting, is anybody overtaken, is anybody in the queue twice.
import * as protocol from '../../src/store/protocol.js'
import type { Model } from './explorer.js'
import { type KeyState, left, NOW, plain, rules, textOf, tick, unknown } from './key-store.js'

export interface QueueScope {
  readonly waiters: number
  readonly ttl: number
  /** Within how many ticks a waiter tells the store that it will ask again. */
  readonly poll: number
  /** After how many ticks at the latest it does. */
  readonly asksAfter: number
  readonly deaths: number
  readonly giveUps: number
}

export type QueueRule = 'overtaken' | 'twice' | 'idle' | 'turn lost'

interface Waiter {
  is: 'away' | 'waiting' | 'holding' | 'dead' | 'gone'
  /** Ticks since it asked. */
  silent: number
}

interface State {
  store: KeyState
  waiters: Waiter[]
  /** Those who wait and are alive, in the order in which they came. */
  line: number[]
  deaths: number
  giveUps: number
  /** For how long the key has been free while somebody alive was waiting. */
  idle: number
}

/** What keeps the queue right, each of which can be switched off. */
export interface QueueGuards {
  /** A reservation ends; else a dead head keeps its turn until its place is dropped. */
  readonly reservationEnds?: boolean
  /** A claim that is in the queue does not join again. */
  readonly joinsOnce?: boolean
  /** Who comes later stands behind. */
  readonly inOrder?: boolean
  /** A free key is kept for the head of its queue. */
  readonly turnIsKept?: boolean
}

export function queueModel(
  scope: QueueScope,
  { reservationEnds = true, joinsOnce = true, inOrder = true, turnIsKept = true }: QueueGuards = {},
): Model<State> {
  const claims = Array.from({ length: scope.waiters }, (_, i) => 'abcd'[i] ?? 'x')
  /** A reservation, and two questions: to notice that the term is over, and that the head is dead. */
  const idleMax = scope.poll + 2 * scope.asksAfter

  const start: State = {
    store: unknown,
    waiters: claims.map(() => ({ is: 'away', silent: 0 })),
    line: [],
    deaths: scope.deaths,
    giveUps: scope.giveUps,
    idle: 0,
  }

  return {
    start,
    key: ({ store, waiters, line, deaths, giveUps, idle }) =>
      `${textOf(store)}|${waiters.map(({ is, silent }) => `${is}${silent}`)}|${line}|${deaths},${giveUps},${idle}`,

    next(state, to, broken) {
      const step = (what: string, change: (next: State) => void) => {
        const next: State = { ...state, waiters: state.waiters.map((waiter) => ({ ...waiter })), line: [...state.line] }
        change(next)
        next.store = plain({ ...next.store, token: 0, lastEnded: '' })
        to(what, next)
      }
      state.waiters.forEach((waiter, i) => {
        const claim = claims[i] ?? ''
        const me = (next: State) => next.waiters[i] as Waiter
        if (waiter.is === 'away' || waiter.is === 'waiting')
          step(`${claim} asks`, (next) => ask(next, i, me(next), broken))
        if (waiter.is === 'waiting' && state.giveUps > 0)
          step(`${claim} gives up`, (next) => {
            next.giveUps--
            leave(next, i, 'gone')
            next.store = protocol.withdraw(next.store, claim, NOW, rules).state
          })
        if (waiter.is === 'holding')
          step(`${claim} releases`, (next) => {
            me(next).is = 'gone'
            next.store = protocol.release(next.store, claim, NOW, rules).state
          })
        if ((waiter.is === 'waiting' || waiter.is === 'holding') && state.deaths > 0)
          step(`${claim} dies`, (next) => {
            next.deaths--
            leave(next, i, 'dead')
          })
      })
      // Time waits for those who must ask.
      if (state.waiters.some(({ is, silent }) => is === 'waiting' && silent >= scope.asksAfter)) return
      step('a tick', (next) => {
        next.store = tick(next.store)
        if (!reservationEnds && next.store.reservedUntilMs === NOW)
          next.store = { ...next.store, reservedUntilMs: NOW + 1 }
        for (const waiter of next.waiters) if (waiter.is === 'waiting') waiter.silent++
        next.idle = left(next.store) === 0 && next.line.length > 0 ? next.idle + 1 : 0
      })
    },

    check({ store, idle }, broken) {
      const queued = store.queue.map(({ claim }) => claim)
      if (new Set(queued).size < queued.length) broken('twice', `the queue is ${queued}`)
      if (idle > idleMax) broken('idle', `nobody has held it for ${idle} ticks`)
    },
  }

  function ask(next: State, i: number, me: Waiter, broken: (rule: QueueRule, why: string) => void): void {
    const claim = claims[i] ?? ''
    const before = next.store
    const request = { key: 'k', claim, holder: '', ttlMs: scope.ttl, queue: { pollMs: scope.poll } }
    const asked = turnIsKept || left(before) > 0 ? before : { ...before, queue: [] }
    const { state, answer } = protocol.acquire(asked, request, NOW, rules)
    next.store = state
    me.silent = 0
    if (answer.is === 'granted') {
      const first = next.line[0]
      if (first !== undefined && first !== i) broken('overtaken', `${claim} was granted before ${claims[first]}`)
      leave(next, i, 'holding')
      next.idle = 0
      return
    }
    me.is = 'waiting'
    if (!next.line.includes(i)) next.line.push(i)
    const { queue } = state
    if (!joinsOnce && queue.length <= scope.waiters) next.store = { ...state, queue: [...queue, ...queue.slice(-1)] }
    if (!inOrder) next.store = { ...state, queue: [...queue.slice(-1), ...queue.slice(0, -1)] }
    // Whoever is alive has a place, and the places of the living are in the order in which they came.
    const places = next.store.queue
      .map((waiter) => claims.indexOf(waiter.claim))
      .filter((one) => next.line.includes(one))
    const lost = next.line.find((one, place) => places[place] !== one)
    if (lost !== undefined)
      broken('turn lost', `${claims[lost]} has lost its place: ${places.map((one) => claims[one])}`)
  }

  function leave(next: State, i: number, is: Waiter['is']): void {
    const waiter = next.waiters[i]
    if (waiter !== undefined) Object.assign(waiter, { is, silent: 0 })
    next.line = next.line.filter((one) => one !== i)
  }
}
