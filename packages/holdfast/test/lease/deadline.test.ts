// G5: the holder stops in time. The deadline counts from the send, everything that is read compares it first, and neither
// sleep, nor a block, nor a step of the wall clock makes a lease last longer for its holder than at the store.
import { describe, expect, it } from 'vitest'
import { LeaseLostError } from '../../src/index.js'
import { setUp, track, watchSignal } from './world.js'

const manual = { ttlMs: 1_000, marginMs: 100, renew: false }

describe('the deadline', () => {
  it('is the instant of the send, plus the ttl, less the margin', async () => {
    const { clock, net, client } = setUp()
    net.next('acquire', { delayAfterMs: 50 })
    const lease = await clock.advanceUntil(client().acquire('k', manual))
    expect(lease.remainingMs).toBe(850)
    const seen = watchSignal(lease, clock)
    const sentMs = net.callsOf('acquire')[0]?.sentMs ?? Number.NaN
    await clock.advance(849)
    expect([lease.held, seen.aborts]).toEqual([true, 0])
    await clock.advance(1)
    expect(seen).toMatchObject({ aborts: 1, atMs: sentMs + 900 })
    expect(seen.reason).toBeInstanceOf(LeaseLostError)
    expect(seen.reason).toMatchObject({ reason: 'deadline', key: 'k', token: lease.token })
    expect([lease.held, lease.remainingMs]).toEqual([false, 0])
    expect(() => lease.assertHeld()).toThrow(seen.reason as Error)
  })

  it('counts from the request that was answered, when a lost reply was asked for again', async () => {
    const { clock, net, client } = setUp()
    net.next('acquire', { dropAfter: true })
    const lease = await clock.advanceUntil(client().acquire('k', { ...manual, callTimeoutMs: 100 }))
    const [first, second] = net.callsOf('acquire')
    expect(second?.sentMs).toBe((first?.sentMs ?? 0) + 100)
    expect(lease.remainingMs).toBe(900)
    expect(second?.request.claim).toBe(first?.request.claim)
  })

  it('moves with a renewal to the send of that renewal', async () => {
    const { clock, net, client } = setUp()
    const lease = await client().acquire('k', manual)
    await clock.advance(500)
    net.next('renew', { delayAfterMs: 100 })
    await clock.advanceUntil(lease.renew())
    expect(lease.remainingMs).toBe(800)
  })

  it('goes by the smaller of the ttl asked and the ttl granted', async () => {
    const { clock, memory, client } = setUp()
    const granting = (ttlMs: number) =>
      client({
        store: {
          ...memory,
          acquire: async (request) => ({ ...(await memory.acquire(request)), ttlMs }) as never,
          renew: async (leases) => leases.map(() => ({ is: 'renewed' as const, ttlMs })),
        },
      })
    expect((await granting(2_000).acquire('more', manual)).remainingMs).toBe(900)
    const less = await granting(600).acquire('less', manual)
    expect(less.remainingMs).toBe(500)
    await clock.advance(100)
    await less.renew()
    expect(less.remainingMs).toBe(500)
  })

  it('leaves the whole margin before the store would let another in', async () => {
    const { clock, client } = setUp()
    const lease = await client().acquire('k', { ...manual, marginMs: 300 })
    const seen = watchSignal(lease, clock)
    const next = track(client().acquire('k', { waitMs: 5_000 }))
    await clock.advanceUntil(() => next.is() !== 'waiting')
    expect(next.value().token).toBe(lease.token + 1)
    expect(clock.monoMs() - seen.atMs).toBeGreaterThanOrEqual(300)
  })

  it('is compared by every reading, before any timer has fired', async () => {
    const { clock, client } = setUp()
    const leases = client()
    const read = {
      held: (await leases.acquire('held', manual)).signal,
      grantOf: await leases.acquire('a', manual),
      remaining: await leases.acquire('b', manual),
      asserted: await leases.acquire('c', manual),
      signalled: await leases.acquire('d', manual),
      renewed: await leases.acquire('e', manual),
    }
    clock.block(950)
    expect(read.held.aborted).toBe(false) // its timer has not fired, and nobody looked through the lease
    expect(read.grantOf.held).toBe(false)
    expect(read.remaining.remainingMs).toBe(0)
    expect(() => read.asserted.assertHeld()).toThrow(LeaseLostError)
    expect(read.signalled.signal.aborted).toBe(true)
    await expect(read.renewed.renew()).rejects.toMatchObject({ code: 'LEASE_LOST', reason: 'deadline' })
    await clock.settle()
    expect(read.held.aborted).toBe(true)
  })

  it('is compared once more when a renewal goes out: what ended since it was asked for is not prolonged', async () => {
    const { clock, net, client } = setUp()
    const lease = await client().acquire('k', manual)
    const renewal = track(lease.renew())
    clock.block(950) // in the same turn
    await clock.settle()
    expect(renewal.error()).toMatchObject({ code: 'LEASE_LOST', reason: 'deadline' })
    expect(net.callsOf('renew')).toEqual([])
  })

  it('once over stays over, whatever the store says later', async () => {
    const { clock, net, client, eventsOf } = setUp({ givesUp: false })
    const lease = await client().acquire('k', { ...manual, callTimeoutMs: 2_000 })
    await clock.advance(400)
    net.next('renew', { delayAfterMs: 800 })
    const renewal = track(lease.renew())
    await clock.advance(500)
    expect(lease.held).toBe(false)
    await clock.advance(300)
    expect(lease.held).toBe(false)
    expect(renewal.error()).toMatchObject({ reason: 'deadline' })
    expect(eventsOf('renewed')).toEqual([])
    expect(eventsOf('lost')).toHaveLength(1)
  })
})

describe('clocks that jump', () => {
  it('a block: lost in the first timers turn, before a renewal is sent', async () => {
    const { clock, net, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 1_000 })
    const seen = watchSignal(lease, clock)
    clock.block(5_000)
    await clock.advance(1_000)
    expect(seen).toMatchObject({ aborts: 1 })
    expect(net.callsOf('renew')).toEqual([])
  })

  it('a block that ends before the deadline costs nothing: the overdue renewal is sent', async () => {
    const { clock, net, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 1_000 })
    clock.block(800)
    await clock.advance(5_000)
    expect(lease.held).toBe(true)
    expect(net.callsOf('renew').length).toBeGreaterThan(5)
  })

  it('sleep: the monotonic clock stood still, the lease is lost all the same', async () => {
    const { clock, net, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 30_000 })
    const seen = watchSignal(lease, clock)
    clock.sleep(60_000)
    expect(lease.held).toBe(false)
    expect(seen.aborts).toBe(1)
    expect(net.callsOf('renew')).toEqual([])
  })

  it('sleep: noticed by a look at the clocks within min(250 ms, margin / 2) when nobody reads the lease', async () => {
    for (const [marginMs, withinMs] of [
      [3_000, 250],
      [100, 50],
    ] as const) {
      const { clock, client } = setUp()
      const seen = watchSignal(await client().acquire('k', { ttlMs: 30_000, marginMs }), clock)
      await clock.advance(1_000)
      clock.sleep(60_000)
      await clock.advance(withinMs)
      expect(seen.aborts, `margin ${marginMs}`).toBe(1)
    }
  })

  it('sleep while nothing was held: the timers of the next lease are not late for it', async () => {
    const { clock, client } = setUp()
    const leases = client()
    // An alarm far ahead, and no lease: nobody looks at the clocks meanwhile.
    const lingering = await leases.acquire('lingering', { ttlMs: 60_000, minHoldMs: 3_600_000 })
    await lingering.release()
    await clock.advance(1_000)
    clock.sleep(7_200_000)
    const lease = await leases.acquire('k', { ttlMs: 1_000 })
    await clock.advance(10_000)
    expect(lease.held).toBe(true) // it was renewed
    const short = watchSignal(await leases.acquire('short', manual), clock)
    await clock.advance(900)
    expect(short.aborts).toBe(1)
  })

  it('short sleeps add up', async () => {
    const { clock, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 30_000, renew: false })
    for (let i = 0; i < 26; i++) {
      clock.sleep(1_000)
      await clock.advance(10)
    }
    expect(lease.held).toBe(true)
    clock.sleep(1_000)
    expect(lease.held).toBe(false)
  })

  it('the wall clock set back: the lease lasts no longer', async () => {
    const { clock, client } = setUp()
    const lease = await client().acquire('k', manual)
    clock.stepWall(-3_600_000)
    await clock.advance(899)
    expect(lease.held).toBe(true)
    await clock.advance(1)
    expect(lease.held).toBe(false)
  })

  it('the wall clock set back, and then sleep: the sleep counts in full', async () => {
    const { clock, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 30_000 })
    clock.stepWall(-3_600_000)
    await clock.advance(250)
    clock.sleep(60_000)
    expect(lease.held).toBe(false)
  })

  it('the wall clock set forward: the lease ends early, which is the safe side', async () => {
    const { clock, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 30_000 })
    clock.stepWall(3_600_000)
    expect(lease.held).toBe(false)
    expect(await lease.release()).toEqual({ is: 'lost', reason: 'deadline' })
  })

  it('a margin of 0 is looked after at a bounded pace', async () => {
    const { clock, client } = setUp()
    const leases = client()
    const lease = await leases.acquire('k', { ttlMs: 1_000, marginMs: 0, renew: false })
    let looks = 0
    const setTimer = clock.setTimer.bind(clock)
    clock.setTimer = (delayMs, fn) => {
      looks++
      return setTimer(delayMs, fn)
    }
    await clock.advance(500)
    expect(lease.held).toBe(true)
    expect(looks).toBeLessThan(100)
  })
})

describe('how a lease is lost', () => {
  it('tells once: one abort, one event, one error, in every later reading', async () => {
    const { clock, client, eventsOf } = setUp()
    const lease = await client().acquire('k', manual)
    const seen = watchSignal(lease, clock)
    await clock.advance(10_000)
    expect(seen.aborts).toBe(1)
    expect(eventsOf('lost')).toEqual([{ type: 'lost', key: 'k', token: lease.token, reason: 'deadline' }])
    expect(await lease.release()).toEqual({ is: 'lost', reason: 'deadline' })
    await expect(lease.renew()).rejects.toBe(seen.reason)
    expect(lease.signal.reason).toBe(seen.reason)
  })

  it.each([false, true])('revoked (by force: %s): lost at the next renewal, with that reason', async (force) => {
    const { clock, memory, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 10_000 })
    const seen = watchSignal(lease, clock)
    await memory.revoke('k', { force })
    if (force) await memory.acquire({ key: 'k', claim: 'next', holder: 'next', ttlMs: 60_000 })
    await clock.advanceUntil(() => seen.aborts > 0)
    expect(seen.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'revoked' })
    expect(clock.monoMs()).toBeLessThan(1_000 + 5_001)
  })

  it('revoked without force, the term runs out before another gets in', async () => {
    const { clock, memory, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 10_000 })
    const seen = watchSignal(lease, clock)
    await clock.advance(1_000)
    await memory.revoke('k')
    const next = track(client().acquire('k', { waitMs: 30_000 }))
    await clock.advanceUntil(() => next.is() === 'resolved')
    expect(clock.monoMs()).toBeGreaterThanOrEqual(1_000 + 10_000)
    expect(seen.reason).toMatchObject({ reason: 'revoked' })
  })

  it('the signal of a lease that was lost before anybody looked is born aborted', async () => {
    const { clock, client } = setUp()
    const lease = await client().acquire('k', manual)
    await clock.advance(2_000)
    expect(lease.signal.aborted).toBe(true)
    expect(lease.signal.reason).toMatchObject({ reason: 'deadline' })
  })

  it('an abort listener may release, acquire anew and close without harm', async () => {
    const { clock, client, holder } = setUp()
    const leases = client()
    const lease = await leases.acquire('k', manual)
    let again: Promise<unknown> = Promise.resolve()
    lease.signal.addEventListener('abort', () => {
      void lease.release()
      again = leases.acquire('k', { waitMs: 0 })
    })
    await clock.advance(900)
    const next = track(again)
    await clock.settle()
    // Released by its holder, so it need not run out first.
    expect(next.is()).toBe('resolved')
    expect(await holder('k')).toBe('process-1')
  })
})
