// Naive quorums: one good and simple, and each bad habit of the quorums in use as one switch.

import {
  type AcquireRequest,
  type Granted,
  type LeaseStore,
  type RenewOutcome,
  StoreError,
  systemClock,
} from '../../src/index.js'
import type { QuorumStoreOptions } from '../../src/stores/quorum/index.js'

export interface Habits {
  /** How many of the nodes are enough; `answered` is how many gave any answer. */
  readonly enough: (nodes: number, answered: number) => number
  readonly withdraws: boolean
  readonly writesBack: boolean
  readonly looksAtTheTime: boolean
  readonly waitsForAll: boolean
  /** Gives a lease back to the nodes that lost it whatever the others say. */
  readonly healsAlways: boolean
}

export const good: Habits = {
  enough: (nodes) => Math.floor(nodes / 2) + 1,
  withdraws: true,
  writesBack: true,
  looksAtTheTime: true,
  waitsForAll: false,
  healsAlways: false,
}

export const naive = {
  'counts over the servers that answer': { enough: (_: number, answered: number) => Math.floor(answered / 2) + 1 },
  'a majority is half': { enough: (nodes: number) => Math.ceil(nodes / 2) },
  'withdraws nothing': { withdraws: false },
  'writes nothing back': { writesBack: false },
  'never looks at the time': { looksAtTheTime: false },
  'waits for all': { waitsForAll: true },
  'heals whatever the others say': { healsAlways: true },
} satisfies Record<string, Partial<Habits>>

/** A quorum with these habits. Only what the scenarios use. */
export const naiveQuorum =
  (habits: Habits) =>
  (stores: readonly LeaseStore[], { clock = systemClock, nodeTimeoutMs = 100 }: QuorumStoreOptions): LeaseStore => {
    const n = stores.length
    const failed = (cause: unknown) => ({ failed: cause })
    type Answer<T> = { node: LeaseStore; answer: T } | { failed: unknown }

    /** Until `enough` answers are in favour, until so many are against that it cannot be, or all are in. */
    function all<T>(send: (store: LeaseStore) => Promise<T>, isYes: (answer: T) => boolean): Promise<Answer<T>[]> {
      const got: Answer<T>[] = []
      return new Promise((resolve) => {
        const add = (answer: Answer<T>) => {
          got.push(answer)
          const answers = got.flatMap((one) => ('answer' in one ? [one.answer] : []))
          const yes = answers.filter(isYes).length
          const needed = habits.enough(n, n)
          const certain = !habits.waitsForAll && (yes >= needed || answers.length - yes > n - needed)
          if (certain || got.length === n) resolve(got)
        }
        for (const node of stores) {
          let over = false
          const once = (answer: Answer<T>) => {
            if (!over) add(answer)
            over = true
          }
          clock.setTimer(nodeTimeoutMs, () => once(failed(new Error('no answer'))))
          send(node).then(
            (answer) => once({ node, answer }),
            (error) => once(failed(error)),
          )
        }
      })
    }
    const withdrawAll = (key: string, claim: string) => {
      if (habits.withdraws) for (const store of stores) store.withdraw(key, claim).catch(() => {})
    }

    async function acquire(request: AcquireRequest) {
      const sentMs = clock.monoMs()
      const ballot = clock.wallMs() * 1000
      const got = await all(
        (store) => store.acquire({ ...request, tokenFloor: ballot }),
        ({ is }) => is === 'granted',
      )
      const answers = got.flatMap((one) => ('answer' in one ? [one] : []))
      const granted = answers.flatMap(({ node, answer }) => (answer.is === 'granted' ? [{ node, answer }] : []))
      const needed = habits.enough(n, answers.length)
      if (granted.length >= needed && granted.length > 0) {
        const token = Math.max(...granted.map(({ answer }) => answer.token))
        if (habits.writesBack)
          for (const { node, answer } of granted)
            if (answer.token < token) await node.acquire({ ...request, tokenFloor: token })
        if (!habits.looksAtTheTime || clock.monoMs() < sentMs + request.ttlMs)
          return { is: 'granted', token, ttlMs: request.ttlMs } satisfies Granted
        withdrawAll(request.key, request.claim)
        throw new StoreError('too late', { outcome: 'unknown' })
      }
      withdrawAll(request.key, request.claim)
      const held = answers.flatMap(({ answer }) => (answer.is === 'held' ? [answer] : []))
      if (held.length > n - needed && held[0]) return held[0]
      throw new StoreError('no majority', { outcome: got.length - answers.length > 0 ? 'unknown' : 'none' })
    }

    async function renewOne(key: string, claim: string, ttlMs: number): Promise<RenewOutcome> {
      const got = await all(
        (store) => store.renew([{ key, claim, ttlMs }]),
        ([one]) => one?.is === 'renewed',
      )
      const answers = got.flatMap((one) => ('answer' in one ? [one] : []))
      if (habits.healsAlways)
        for (const { node, answer } of answers)
          if (answer[0]?.is === 'lost') await node.acquire({ key, claim, ttlMs, holder: claim, tokenFloor: 1 })
      if (habits.healsAlways && answers.length >= habits.enough(n, n)) return { is: 'renewed', ttlMs }
      const renewed = answers.filter(({ answer }) => answer[0]?.is === 'renewed').length
      if (renewed >= habits.enough(n, answers.length)) return { is: 'renewed', ttlMs }
      withdrawAll(key, claim)
      return (
        answers.flatMap(({ answer }) => answer).find(({ is }) => is === 'lost') ?? { is: 'unknown', cause: 'no answer' }
      )
    }

    return {
      name: 'naive quorum',
      contract: 1,
      capabilities: { ...(stores[0] as LeaseStore).capabilities, fair: false },
      acquire,
      renew: (leases) => Promise.all(leases.map(({ key, claim, ttlMs }) => renewOne(key, claim, ttlMs))),
      async release(grant) {
        const got = await all(
          (store) => store.release(grant),
          ({ is }) => is === 'released',
        )
        return got.flatMap((one) => ('answer' in one ? [one.answer] : []))[0] ?? { is: 'lost', reason: 'expired' }
      },
      async withdraw(key, claim) {
        await all(
          (store) => store.withdraw(key, claim),
          () => true,
        )
      },
      inspect: async () => null,
      async *list() {},
      revoke: async () => null,
      async close() {},
    }
  }
