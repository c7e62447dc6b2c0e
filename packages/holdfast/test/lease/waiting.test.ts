// Waiting: how long, how often, what a retry policy sees, and that a lost wake-up costs time, never the lease (G8).
import { describe, expect, it } from 'vitest'
import {
  exponential,
  fixed,
  InvalidArgumentError,
  type LeaseStore,
  noRetry,
  type Situation,
  StoreError,
} from '../../src/index.js'
import { defaultRetry } from '../../src/lease/retry.js'
import { setUp, track } from './world.js'

const SOON: Situation = {
  attempt: 1,
  elapsedMs: 0,
  holder: undefined,
  remainingMs: undefined,
  error: undefined,
  random: 0,
}

describe('a wait', () => {
  it('ends as soon as the lease is given back', async () => {
    const { clock, client } = setUp()
    const lease = await client().acquire('k')
    const waiting = track(client().acquire('k'))
    await clock.advance(3_210)
    await lease.release()
    await clock.settle()
    expect(waiting.value().token).toBe(2)
    expect(clock.monoMs()).toBe(4_210)
  })

  it.each([true, false])(
    'with every wake-up lost ends within the remaining ttl and one poll (fair: %s)',
    async (fair) => {
      const { clock, memory, net, client } = setUp({ fair })
      await memory.acquire({ key: 'k', claim: 'dead', holder: 'dead', ttlMs: 7_300 })
      net.dropHints = true
      const waiting = track(client().acquire('k', { waitMs: 60_000 }))
      await clock.advance(7_300 + 1_000)
      expect(waiting.is()).toBe('resolved')
    },
  )

  it('of each of many keys in one process asks on ticks that all share', async () => {
    const { clock, memory, net, client } = setUp()
    const keys = Array.from({ length: 200 }, (_, i) => `k${i}`)
    for (const key of keys) await memory.acquire({ key, claim: 'other', holder: 'other', ttlMs: 3_600_000 })
    const leases = client()
    const waiting = []
    for (const key of keys) {
      waiting.push(leases.acquire(key, { waitMs: 10_000 }).catch(() => {}))
      await clock.advance(8.3)
    }
    await clock.advance(1_000)
    const before = net.callsOf('acquire').length
    await clock.advance(5_000)
    const asked = net.callsOf('acquire').slice(before)
    expect(asked.length).toBeGreaterThanOrEqual(5 * keys.length)
    expect(asked.length).toBeLessThan(5.5 * keys.length)
    expect(new Set(asked.map(({ sentMs }) => sentMs)).size).toBeLessThanOrEqual(101)
    await clock.advanceUntil(Promise.all(waiting))
  })

  it.each([true, false])(
    'for a lease given back with every wake-up lost ends within one poll (fair: %s)',
    async (fair) => {
      const { clock, net, client } = setUp({ fair })
      const lease = await client().acquire('k')
      net.dropHints = true
      const waiting = track(client().acquire('k', { waitMs: 60_000 }))
      await clock.advance(5_000)
      await lease.release()
      await clock.advance(1_000)
      expect(waiting.is()).toBe('resolved')
    },
  )

  it('survives a watch that fails: it is told, tried again, and the waiter polls on', async () => {
    const { clock, net, client, eventsOf } = setUp()
    const lease = await client().acquire('k', { ttlMs: 60_000 })
    const store = {
      ...net,
      watch: () => {
        throw new Error('no more connections')
      },
    }
    const waiting = track(client({ store }).acquire('k', { waitMs: 60_000 }))
    await clock.advance(3_500)
    expect(eventsOf('watch-failed').length).toBe(4)
    expect(eventsOf('watch-failed')[0]).toMatchObject({ key: 'k', cause: { message: 'no more connections' } })
    await lease.release()
    await clock.advance(1_000)
    expect(waiting.is()).toBe('resolved')
    const told = eventsOf('watch-failed').length
    await waiting.value().release()
    await clock.advance(10_000)
    expect(eventsOf('watch-failed')).toHaveLength(told)
    expect(clock.pending).toBe(0)
  })

  it('of 0 is exactly one attempt, whose lost reply is asked for once more with the same claim', async () => {
    const { clock, net, client } = setUp()
    net.next('acquire', { dropAfter: true })
    const lease = track(client().acquire('k', { waitMs: 0 }))
    await clock.advance(2_000)
    expect(lease.value().token).toBe(1)
    const [one, two, three] = net.callsOf('acquire')
    expect([two?.request.claim, three]).toEqual([one?.request.claim, undefined])
  })

  it('of 0 outlasts a record that is new: the same attempt, and the term counts from the request that is granted', async () => {
    const { clock, net, client } = setUp()
    let toldMs = Number.NaN
    const store: LeaseStore = {
      ...net,
      async acquire(request, call) {
        if (Number.isNaN(toldMs)) toldMs = clock.monoMs()
        const leftMs = toldMs + 1_000 - clock.monoMs()
        if (leftMs <= 0) return net.acquire(request, call)
        return { is: 'held', because: 'new', holder: '', token: 0, remainingMs: leftMs }
      },
    }
    const lease = track(client({ store }).acquire('k', { waitMs: 0, ttlMs: 1_000 }))
    await clock.advance(1_000)
    expect(lease.value().remainingMs).toBe(900)
    await clock.advance(10_000) // it is renewed in time
    expect(lease.value().held).toBe(true)
    await lease.value().release()
  })

  it('does not ask for ever a store whose records are new for ever, and sends nothing once it is given up', async () => {
    const { clock, net, client } = setUp({ fair: false })
    let asked = 0
    const store: LeaseStore = {
      ...net,
      async acquire() {
        asked++
        return { is: 'held', because: 'new', holder: '', token: 0, remainingMs: 1_000 }
      },
    }
    const refused = track(client({ store }).acquire('k', { waitMs: 0 }))
    await clock.advance(60_000)
    expect(refused.error()).toMatchObject({ code: 'LEASE_HELD' })
    expect(asked).toBe(5)
    const controller = new AbortController()
    const aborted = track(client({ store }).acquire('k', { signal: controller.signal }))
    await clock.settle()
    controller.abort(new Error('enough'))
    await clock.advance(60_000)
    expect(aborted.error()).toMatchObject({ message: 'enough' })
    expect(asked).toBe(6)
    expect(net.callsOf('withdraw')).toEqual([])
  })

  it('that is over while its first attempt is unanswered ends with the answer to it', async () => {
    const { clock, net, client } = setUp()
    net.next('acquire', { delayAfterMs: 1_000 })
    const waiting = track(client().acquire('k', { waitMs: 100 }))
    await clock.advance(999)
    expect(waiting.is()).toBe('waiting')
    await clock.advance(1)
    expect(waiting.value().held).toBe(true)
  })

  it('ends with the last answer: an outage after a refusal is told as the outage, and the other way round', async () => {
    for (const last of ['outage', 'held']) {
      const { clock, memory, net, client } = setUp()
      await memory.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 600_000 })
      const outage = { dropBefore: 'error' as const }
      net.next('acquire', ...(last === 'outage' ? [{}, {}, {}] : [outage, outage, outage]))
      net.always('acquire', last === 'outage' ? outage : {})
      const waiting = track(client().acquire('k', { waitMs: 10_000 }))
      await clock.advance(10_000)
      expect(waiting.error()).toMatchObject({ code: last === 'outage' ? 'STORE_ERROR' : 'LEASE_HELD' })
    }
  })

  it('asks a store in trouble ever more slowly', async () => {
    const { clock, net, client } = setUp()
    net.always('acquire', { dropBefore: 'error' })
    net.dropHints = true
    const waiting = track(client().acquire('k', { waitMs: 60_000 }))
    await clock.advance(60_000)
    expect(waiting.error()).toMatchObject({ code: 'STORE_ERROR' })
    expect(net.callsOf('acquire').length).toBeLessThan(70)
  })

  it('is not prolonged by what is not the trouble of the store', async () => {
    const { clock, net, client } = setUp()
    const mine = new InvalidArgumentError('key', 'k', 'is not a name on this store')
    net.always('acquire', { fail: mine })
    const waiting = track(client().acquire('k'))
    await clock.settle()
    expect(waiting.error()).toBe(mine)
    expect(net.callsOf('acquire')).toHaveLength(1)
  })

  it.each(['from the start', 'in the middle'])('ends at once with trouble that lasts, %s (C50)', async (when) => {
    const { clock, memory, net, client } = setUp({ fair: false })
    const missing = new StoreError('the right to update is missing', { outcome: 'none', lasting: true })
    await memory.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 600_000 })
    if (when === 'in the middle') net.next('acquire', {}, {})
    net.always('acquire', { fail: missing })
    const waiting = track(client().acquire('k', { waitMs: Number.POSITIVE_INFINITY }))
    await clock.advance(5_000)
    expect(waiting.error()).toBe(missing)
    expect(net.callsOf('acquire').length).toBeLessThanOrEqual(3)
  })

  it('goes on through trouble of the moment (C50)', async () => {
    const { clock, net, client } = setUp()
    net.next('acquire', ...Array.from({ length: 5 }, () => ({ fail: new StoreError('busy', { outcome: 'none' }) })))
    const waiting = track(client().acquire('k', { waitMs: Number.POSITIVE_INFINITY }))
    await clock.advance(10_000)
    expect(waiting.is()).toBe('resolved')
  })
})

describe('a retry policy', () => {
  it('sees the attempt, the time, who holds the lease and for how long yet, or what went wrong', async () => {
    const { clock, memory, net, client } = setUp({ fair: false })
    await memory.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 5_000 })
    net.dropHints = true
    net.next('acquire', {}, { dropBefore: 'error' })
    const seen: Situation[] = []
    const retry = (situation: Situation) => {
      seen.push(situation)
      return seen.length < 3 ? 400 : null
    }
    const waiting = track(client().acquire('k', { retry, waitMs: 60_000 }))
    await clock.advance(60_000)
    const random = expect.any(Number)
    const error = expect.objectContaining({ code: 'STORE_ERROR', outcome: 'none' })
    expect(seen).toEqual([
      { attempt: 1, elapsedMs: 0, holder: 'other', remainingMs: 5_000, error: undefined, random },
      { attempt: 2, elapsedMs: 400, holder: undefined, remainingMs: undefined, error, random },
      { attempt: 3, elapsedMs: 800, holder: 'other', remainingMs: 4_200, error: undefined, random },
    ])
    expect(waiting.error()).toMatchObject({ code: 'LEASE_HELD', waitedMs: 800 })
  })

  it('is not followed beyond the end of the holder', async () => {
    const { clock, memory, net, client } = setUp({ fair: false })
    await memory.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 500 })
    net.dropHints = true
    const waiting = track(client().acquire('k', { retry: () => 3_600_000, waitMs: 60_000 }))
    await clock.advance(501)
    expect(waiting.is()).toBe('resolved')
  })

  it('of whatever pace does not cost its place in the queue of the store', async () => {
    const { clock, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 60_000 })
    const patient = track(client().acquire('k', { waitMs: 120_000, retry: () => 60_000 }))
    await clock.advance(100)
    const later = track(client().acquire('k', { waitMs: 120_000 }))
    await clock.advance(10_000)
    await lease.release()
    await clock.settle()
    expect([patient.is(), later.is()]).toEqual(['resolved', 'waiting'])
  })

  it.each([
    ['noRetry', noRetry, 1],
    ['fixed with maxAttempts', fixed({ delayMs: 10, maxAttempts: 4 }), 4],
    ['exponential with maxAttempts', exponential({ minMs: 1, maxMs: 9, maxAttempts: 5 }), 5],
  ] as const)('%s asks as often as it says', async (_, retry, attempts) => {
    const { clock, memory, net, client } = setUp({ fair: false })
    net.dropHints = true
    await memory.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 600_000 })
    const waiting = track(client().acquire('k', { retry, waitMs: Number.POSITIVE_INFINITY }))
    await clock.advance(10_000)
    expect(waiting.error()).toMatchObject({ code: 'LEASE_HELD' })
    expect(net.callsOf('acquire')).toHaveLength(attempts)
  })

  it('has its intervals and their number to itself, whatever wakes the waiter', async () => {
    const { clock, memory, net, client } = setUp({ fair: false })
    await memory.acquire({ key: 'k', claim: 'c0', holder: 'other', ttlMs: 600_000 })
    const startMs = clock.monoMs()
    const seen: [number, number][] = []
    const retry = ({ attempt }: Situation) => {
      seen.push([attempt, clock.monoMs() - startMs])
      return attempt < 4 ? 500 : null
    }
    const waiting = track(client().acquire('k', { retry, waitMs: Number.POSITIVE_INFINITY }))
    for (let i = 1; i <= 10; i++) {
      await clock.advance(130)
      // Freed and taken again before anybody has asked: a wake-up that comes to nothing.
      void memory.revoke('k', { force: true })
      void memory.acquire({ key: 'k', claim: `c${i}`, holder: 'other', ttlMs: 600_000 })
    }
    await clock.advance(10_000)
    expect(waiting.error()).toMatchObject({ code: 'LEASE_HELD', waitedMs: 1_500 })
    expect(seen).toEqual([0, 500, 1_000, 1_500].map((ms, i) => [i + 1, ms]))
    expect(net.callsOf('acquire').length).toBeGreaterThan(10)
  })

  it.each([Number.NaN, -1, undefined, '5', {}])(
    'that answers %s is refused by name, and nothing is left behind',
    async (bad) => {
      const { clock, memory, client } = setUp()
      await memory.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 600_000 })
      const waiting = track(client().acquire('k', { retry: () => bad as number }))
      await clock.settle()
      expect(waiting.error()).toBeInstanceOf(InvalidArgumentError)
      expect(waiting.error()).toMatchObject({ option: 'retry', value: bad })
      expect((await memory.inspect('k'))?.waiters).toEqual([])
      expect(clock.keepsAlive).toBe(false)
    },
  )

  it('that throws ends the wait with its own error', async () => {
    const { clock, memory, client } = setUp()
    await memory.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 600_000 })
    const mine = new Error('mine')
    const retry = () => {
      throw mine
    }
    const waiting = track(client().acquire('k', { retry }))
    await clock.settle()
    expect(waiting.error()).toBe(mine)
  })
})

describe('the policies by themselves', () => {
  it('fixed keeps its pace', () => {
    const retry = fixed({ delayMs: 200, maxAttempts: 3 })
    expect([1, 2, 3, 4].map((attempt) => retry({ ...SOON, attempt }))).toEqual([200, 200, null, null])
    expect(fixed({ delayMs: 0 })({ ...SOON, attempt: 1e9 })).toBe(0)
  })

  it('exponential doubles up to its greatest delay, and takes off up to its jitter', () => {
    const retry = exponential({ minMs: 50, maxMs: 1_000, jitter: 0.5 })
    const at = (attempt: number, random: number) => retry({ ...SOON, attempt, random })
    expect([1, 2, 3, 5, 6, 60, 1_000_000].map((attempt) => at(attempt, 0))).toEqual([
      50, 100, 200, 800, 1_000, 1_000, 1_000,
    ])
    expect(at(2, 0.5)).toBe(75)
    expect(exponential({ minMs: 50, maxMs: 50, jitter: 0 })({ ...SOON, random: 0.9 })).toBe(50)
    expect(exponential({ minMs: 1, maxMs: 1, maxAttempts: 1 })(SOON)).toBeNull()
  })

  it('the default is quick at first when another holds it, and slower when the store is in trouble', () => {
    const error = Object.assign(new Error('down')) as never
    expect([1, 2, 9].map((attempt) => defaultRetry({ ...SOON, attempt }))).toEqual([25, 50, 1_000])
    expect([1, 2, 9].map((attempt) => defaultRetry({ ...SOON, attempt, error }))).toEqual([50, 100, 2_000])
  })

  it.each([
    ['delayMs', () => fixed({ delayMs: Number.NaN })],
    ['delayMs', () => fixed({ delayMs: -1 })],
    ['delayMs', () => fixed({ delayMs: Number.POSITIVE_INFINITY })],
    ['delayMs', () => fixed(200 as never)],
    ['maxAttempts', () => fixed({ delayMs: 1, maxAttempts: 0 })],
    ['maxAttempts', () => fixed({ delayMs: 1, maxAttempts: 1.5 })],
    ['maxAttempts', () => fixed({ delayMs: 1, maxAttempts: null as never })],
    ['minMs', () => exponential({ minMs: '5' as never, maxMs: 10 })],
    ['maxMs', () => exponential({ minMs: 5 } as never)],
    ['maxMs', () => exponential({ minMs: 5, maxMs: 4 })],
    ['jitter', () => exponential({ minMs: 5, maxMs: 9, jitter: 1.1 })],
    ['jitter', () => exponential({ minMs: 5, maxMs: 9, jitter: Number.NaN })],
  ])('refuse a bad %s when they are made', (option, make) => {
    let thrown: unknown
    try {
      make()
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(InvalidArgumentError)
    expect(thrown).toMatchObject({ option })
  })
})
