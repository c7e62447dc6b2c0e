// Renewal: batched for all leases of a client, bounded attempt by attempt, tried again until the deadline, one at a time.
import { describe, expect, it } from 'vitest'
import { type Lease, type LeaseStore, StoreError } from '../../src/index.js'
import { setUp, track, watchSignal } from './world.js'

describe('the schedule', () => {
  it('renews at about half of the ttl, a little earlier, and goes on for ever', async () => {
    const { clock, net, client, eventsOf } = setUp()
    const lease = await client().acquire('k', { ttlMs: 10_000 })
    await clock.advance(600_000)
    expect(lease.held).toBe(true)
    const sent = net.callsOf('renew').map(({ sentMs }) => sentMs)
    const gaps = sent.map((ms, i) => ms - (sent[i - 1] ?? 1_000))
    // A tenth of jitter, and a tick of a twentieth.
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(5_000 * 0.9 - 250)
    expect(Math.max(...gaps)).toBeLessThanOrEqual(5_000)
    expect(eventsOf('renewed').length).toBe(sent.length)
    expect(eventsOf('renewed')[0]).toEqual({ type: 'renewed', key: 'k', token: 1, remainingMs: 9_000 })
  })

  it('keeps the token, and what the store promises is what was asked', async () => {
    const { clock, memory, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 10_000 })
    await clock.advance(60_000)
    const record = await memory.inspect('k')
    expect(record).toMatchObject({ state: 'held', token: lease.token, changes: 1 })
    expect(record?.remainingMs).toBeLessThanOrEqual(10_000)
  })

  it('leaves a lease with renew: false to its holder', async () => {
    const { clock, net, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 1_000, renew: false })
    await clock.advance(800)
    expect(net.callsOf('renew')).toEqual([])
    await lease.renew()
    await clock.advance(800)
    expect([lease.held, net.callsOf('renew').length]).toEqual([true, 1])
    await clock.advance(100)
    expect(lease.held).toBe(false)
  })

  it('stops with the lease', async () => {
    const { clock, net, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 1_000 })
    await clock.advance(10_000)
    await lease.release()
    const sent = net.calls.length
    await clock.advance(60_000)
    expect(net.calls).toHaveLength(sent)
    expect(clock.pending).toBe(0)
  })
})

describe('10,000 leases of one client', () => {
  const hold = async () => {
    const world = setUp({ givesUp: false })
    const leases = world.client()
    const held = await Promise.all(
      Array.from({ length: 10_000 }, (_, i) => leases.acquire(`k${i}`, { ttlMs: 10_000, maxHoldMs: 3_600_000 })),
    )
    return { ...world, held }
  }
  const sizes = (calls: readonly { request: readonly unknown[] }[]) => calls.map(({ request }) => request.length)

  it('are renewed with at most one call for 500 of them in each due tick', async () => {
    const { clock, net, held } = await hold()
    await clock.advance(20_000)
    const calls = net.callsOf('renew')
    const byTick = new Map<number, number[]>()
    for (const call of calls) byTick.set(call.sentMs, [...(byTick.get(call.sentMs) ?? []), call.request.length])
    for (const batch of byTick.values()) {
      const leases = batch.reduce((sum, size) => sum + size, 0)
      expect(batch).toHaveLength(Math.ceil(leases / 500))
    }
    const renewed = sizes(calls).reduce((sum, size) => sum + size, 0)
    expect(renewed).toBeGreaterThan(30_000)
    expect(calls.length).toBeLessThan(renewed / 250) // the ticks are shared
    expect(held.every((lease) => lease.held)).toBe(true)
  })

  it('that a stall made due at once are spread over half of a period again', async () => {
    const { clock, net, held } = await hold()
    await clock.advance(20_000)
    clock.block(4_000) // all but the last tenth became due meanwhile
    await clock.advance(10)
    const before = net.callsOf('renew').length
    await clock.advance(5_000)
    const sent = new Map<number, number>()
    for (const call of net.callsOf('renew').slice(before)) {
      const tick = Math.floor(call.sentMs / 250)
      sent.set(tick, (sent.get(tick) ?? 0) + call.request.length)
    }
    // In ticks of 250 ms of the 5 s period; ten of them without the spread would be two.
    expect(Math.max(...sent.values())).toBeLessThan(2_500)
    expect([...sent.values()].filter((count) => count > 500).length).toBeGreaterThanOrEqual(8)
    expect(held.every((lease) => lease.held)).toBe(true)
  })

  it('count their next time from their send, however late the answer', async () => {
    const { clock, net, client } = setUp({ givesUp: false })
    const lease = await client().acquire('k', { ttlMs: 10_000, callTimeoutMs: 1_500 })
    net.always('renew', { delayAfterMs: 1_200 })
    await clock.advance(30_000)
    const sent = net.callsOf('renew').map(({ sentMs }) => sentMs)
    expect(sent.length).toBeGreaterThanOrEqual(5)
    for (let i = 1; i < sent.length; i++) expect((sent[i] ?? 0) - (sent[i - 1] ?? 0)).toBeLessThanOrEqual(5_000)
    expect(lease.held).toBe(true)
  })

  it('that failed together are tried again together', async () => {
    const { clock, net, held } = await hold()
    await clock.advance(4_000)
    net.always('renew', { fail: new Error('down') })
    await clock.advance(2_000)
    const tries = net.callsOf('renew').length
    net.heal()
    await clock.advance(5_000)
    expect(held.every((lease) => lease.held)).toBe(true)
    expect(tries).toBeLessThan(2_000) // 20 batches, some ten tries each; not one call for each lease
  })
})

describe('a renewal that fails', () => {
  it.each([
    ['an error', { fail: new Error('reset') }],
    ['a request that was lost', { dropBefore: true }],
    ['a reply that was lost', { dropAfter: true }],
    ['a StoreError', { dropBefore: 'error' }],
  ] as const)('with %s, once or twice, is tried again; nothing is lost and each failure is told', async (_, fault) => {
    for (const times of [1, 2]) {
      const { clock, net, client, eventsOf } = setUp()
      const lease = await client().acquire('k', { ttlMs: 3_000 })
      const seen = watchSignal(lease, clock)
      net.next('renew', ...Array.from({ length: times }, () => fault))
      await clock.advance(20_000)
      expect([lease.held, seen.aborts]).toEqual([true, 0])
      expect(eventsOf('renewal-failed')).toHaveLength(times)
      expect(eventsOf('renewal-failed')[0]).toMatchObject({ key: 'k', token: 1, cause: { code: 'STORE_ERROR' } })
      const { remainingMs } = eventsOf('renewal-failed')[0] ?? { remainingMs: 0 }
      expect(remainingMs).toBeGreaterThan(500)
    }
  })

  it('is tried again until the deadline, each attempt with its own time-out, then the lease is lost once', async () => {
    const { clock, net, client, eventsOf } = setUp()
    const lease = await client().acquire('k', { ttlMs: 8_000, callTimeoutMs: 500 })
    const seen = watchSignal(lease, clock)
    net.always('renew', { dropBefore: true })
    await clock.advance(60_000)
    expect(seen).toMatchObject({ aborts: 1, atMs: 1_000 + 7_200, reason: { reason: 'deadline' } })
    const sent = net.callsOf('renew').map(({ sentMs }) => sentMs)
    expect(sent.length).toBeGreaterThanOrEqual(4)
    expect(sent.at(-1)).toBeGreaterThan(1_000 + 6_000)
    for (let i = 1; i < sent.length; i++) expect((sent[i] ?? 0) - (sent[i - 1] ?? 0)).toBeGreaterThanOrEqual(500)
    expect(eventsOf('lost')).toHaveLength(1)
  })

  it('leaves nothing behind: the next lease of that key is renewed as ever', async () => {
    const { clock, net, client } = setUp()
    const leases = client()
    await leases.acquire('k', { ttlMs: 3_000 })
    net.hang('renew')
    await clock.advance(10_000)
    net.heal()
    const lease = await clock.advanceUntil(leases.acquire('k', { ttlMs: 3_000 }))
    await clock.advance(15_000)
    expect(lease.held).toBe(true)
  })

  it('for one lease of a batch does not hurt the others', async () => {
    const { clock, net, client } = setUp()
    let unknown = 1
    const store: LeaseStore = {
      ...net,
      renew: async (leases, call) => {
        const outcomes = await net.renew(leases, call)
        return outcomes.map((outcome, i) =>
          leases[i]?.key === 'b' && unknown-- > 0 ? { is: 'unknown', cause: new Error('locked row') } : outcome,
        )
      },
    }
    const leases = client({ store })
    const held = await Promise.all(['a', 'b', 'c'].map((key) => leases.acquire(key, { ttlMs: 3_000 })))
    await clock.advance(10_000)
    expect(held.map((lease) => lease.held)).toEqual([true, true, true])
  })

  it('for want of an outcome (a store that answers too little) is tried again like any other', async () => {
    const { clock, net, client, eventsOf } = setUp()
    let short = 2
    const store: LeaseStore = {
      ...net,
      renew: async (leases, call) => (short-- > 0 ? [] : net.renew(leases, call)),
    }
    const lease = await client({ store }).acquire('k', { ttlMs: 3_000 })
    await clock.advance(10_000)
    expect(lease.held).toBe(true)
    expect(eventsOf('renewal-failed')).toHaveLength(2)
  })
})

describe('at most one renewal of a lease', () => {
  it('is in flight, however slow the store is', async () => {
    const { clock, net, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 3_000, renewEveryMs: 100, callTimeoutMs: 1_000 })
    net.always('renew', { delayAfterMs: 350 })
    let inFlightMax = 0
    for (let i = 0; i < 1_000; i++) {
      await clock.advance(10)
      inFlightMax = Math.max(inFlightMax, net.callsOf('renew').filter(({ state }) => state === 'waiting').length)
    }
    expect([lease.held, inFlightMax]).toEqual([true, 1])
  })

  it('a manual one joins that in flight, and shares its outcome', async () => {
    const { clock, net, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 10_000 })
    net.next('renew', { delayAfterMs: 200 }, { delayAfterMs: 200, fail: new Error('down') })
    await clock.advanceUntil(() => net.callsOf('renew').length === 1)
    const [one, two] = [track(lease.renew()), track(lease.renew())]
    await clock.advance(199)
    expect([one.is(), two.is()]).toEqual(['waiting', 'waiting'])
    await clock.advance(1)
    expect([one.is(), two.is(), net.callsOf('renew').length]).toEqual(['resolved', 'resolved', 1])
    const three = track(lease.renew())
    await clock.settle()
    expect(three.error()).toBeInstanceOf(StoreError)
    expect(net.callsOf('renew')).toHaveLength(2)
  })

  it('a manual one puts the automatic one off', async () => {
    const { clock, net, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 10_000 })
    for (let i = 0; i < 10; i++) {
      await clock.advance(2_000)
      await lease.renew()
    }
    expect(net.callsOf('renew')).toHaveLength(10)
    expect(lease.remainingMs).toBe(9_000)
  })

  it('a manual one says what was wrong as a StoreError, also when the store gave no error of the family', async () => {
    const { net, client } = setUp()
    const cause = new Error('locked row')
    const store: LeaseStore = { ...net, renew: async (leases) => leases.map(() => ({ is: 'unknown', cause })) }
    const lease = await client({ store }).acquire('k', { ttlMs: 10_000 })
    await expect(lease.renew()).rejects.toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown', cause })
    await lease.release()
    await expect(lease.renew()).rejects.toMatchObject({ code: 'LEASE_LOST', reason: 'released' })
  })
})

describe('answers that come late', () => {
  const slow = async (delays: number[]) => {
    const world = setUp({ givesUp: false })
    const { clock, net, client } = world
    const lease = await client().acquire('k', { ttlMs: 10_000, marginMs: 1_000, renew: false, callTimeoutMs: 500 })
    await clock.advance(1_000)
    for (const delayAfterMs of delays) net.next('renew', { delayAfterMs })
    return { ...world, lease }
  }

  it('a late yes counts from its own send', async () => {
    const { clock, lease } = await slow([2_000])
    const renewal = track(lease.renew())
    await clock.advance(1_999)
    expect(renewal.error()).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' })
    expect(lease.remainingMs).toBe(9_000 - 2_999)
    await clock.advance(1)
    expect(lease.remainingMs).toBe(9_000 - 2_000)
  })

  it('an older yes after a newer one never shortens the lease', async () => {
    const { clock, lease } = await slow([3_000, 0])
    void lease.renew().catch(() => {})
    await clock.advance(2_000)
    await clock.advanceUntil(lease.renew())
    expect(lease.remainingMs).toBe(9_000)
    await clock.advance(1_000)
    expect(lease.remainingMs).toBe(8_000)
  })

  it('a late no ends the lease', async () => {
    const { clock, memory, lease } = await slow([2_000])
    const seen = watchSignal(lease, clock)
    await memory.revoke('k')
    void lease.renew().catch(() => {})
    await clock.advance(2_000)
    expect(seen).toMatchObject({ aborts: 1, reason: { reason: 'revoked' } })
  })

  it('a late no for a lease that was given back is no loss', async () => {
    const { clock, lease, net, eventsOf } = await slow([])
    net.next('renew', { delayBeforeMs: 2_000 })
    void lease.renew().catch(() => {})
    await lease.release()
    await clock.advance(5_000)
    expect(eventsOf('lost')).toEqual([])
  })
})

describe('renewal and release', () => {
  it('cross each other a thousand times, and no lease is lost, none is left', async () => {
    const { clock, net, client, holder, eventsOf } = setUp()
    net.always('renew', { delayAfterMs: 200 })
    const leases = client()
    for (let round = 0; round < 1_000; round++) {
      const lease: Lease = await leases.acquire('k', { ttlMs: 2_000 })
      const seen = watchSignal(lease, clock)
      await clock.advanceUntil(() => net.callsOf('renew').length > round)
      expect(await lease.release()).toEqual({ is: 'released' })
      expect(seen.reason).toMatchObject({ reason: 'released' })
    }
    expect(await holder('k')).toBeUndefined()
    expect(eventsOf('lost')).toEqual([])
    await clock.advance(10_000)
    expect(net.callsOf('renew')).toHaveLength(1_000)
    expect(clock.pending).toBe(0)
  })
})
