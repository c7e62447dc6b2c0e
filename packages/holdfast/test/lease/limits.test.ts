// minHoldMs and maxHoldMs: a key that stays taken although its work has ended, and a lease that ends although it could go on.
import { describe, expect, it } from 'vitest'
import { setUp, track, watchSignal } from './world.js'

describe('maxHoldMs', () => {
  it('ends a lease however well it is renewed; the store is told when its holder gives it back', async () => {
    const { clock, client, holder, eventsOf } = setUp()
    const lease = await client().acquire('k', { ttlMs: 1_000, maxHoldMs: 5_500 })
    const seen = watchSignal(lease, clock)
    await clock.advance(5_499)
    expect(lease.held).toBe(true)
    expect(lease.remainingMs).toBeLessThanOrEqual(1)
    await clock.advance(1)
    expect(seen).toMatchObject({ aborts: 1, atMs: 6_500, reason: { reason: 'maxHold' } })
    expect(eventsOf('lost')).toMatchObject([{ reason: 'maxHold' }])
    expect(await holder('k')).toBe('process-1') // its work may still be winding down
    expect(await lease.release()).toEqual({ is: 'lost', reason: 'maxHold' })
    await clock.settle()
    expect(await holder('k')).toBeUndefined()
  })

  it('and if it is never given back, its term runs out', async () => {
    const { clock, client, holder } = setUp()
    await client().acquire('k', { ttlMs: 1_000, maxHoldMs: 5_500 })
    await clock.advance(6_500)
    expect(await holder('k')).toBeUndefined()
  })

  it('is compared by every reading, like the deadline', async () => {
    const { clock, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 30_000, maxHoldMs: 1_000 })
    clock.block(1_000)
    expect(lease.held).toBe(false)
  })
})

describe('minHoldMs', () => {
  it('keeps the key taken for that long, and the holder need not wait for it', async () => {
    const { clock, net, client, holder } = setUp()
    net.next('acquire', { delayAfterMs: 100 })
    const ran = track(client().tryHold('nightly', { ttlMs: 10_000, minHoldMs: 3_000 }, () => 42))
    await clock.advance(100)
    expect(ran.value()).toEqual({ held: true, value: 42 })
    expect(await client().tryHold('nightly', () => 43)).toMatchObject({ held: false })
    await clock.advance(2_999)
    expect(await holder('nightly')).toBe('process-1')
    await clock.advance(1)
    expect(await holder('nightly')).toBeUndefined()
    expect(net.callsOf('renew')).toEqual([])
  })

  it('does not keep the process alive, which may end: the term at the store is long enough', async () => {
    const { clock, memory, client } = setUp()
    await client().hold('k', { ttlMs: 1_000, minHoldMs: 60_000 }, () => 1)
    await clock.settle()
    expect((await memory.inspect('k'))?.remainingMs).toBeGreaterThanOrEqual(60_000)
    await clock.advance(1_000)
    expect(clock.keepsAlive).toBe(false)
  })

  it('makes no difference once it is over', async () => {
    const { clock, client, holder } = setUp()
    const lease = await client().acquire('k', { minHoldMs: 1_000 })
    await clock.advance(1_000)
    await lease.release()
    expect(await holder('k')).toBeUndefined()
  })

  it('holds for waiters of the same process too', async () => {
    const { clock, client } = setUp()
    const leases = client()
    const lease = await leases.acquire('k', { minHoldMs: 3_000 })
    const next = track(leases.acquire('k'))
    await lease.release()
    await clock.advance(2_999)
    expect(next.is()).toBe('waiting')
    await clock.advance(1)
    expect(next.is()).toBe('resolved')
  })
})
