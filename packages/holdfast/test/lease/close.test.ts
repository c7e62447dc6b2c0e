// G12: drain before release. Closing tells the work to stop, renews until it has ended, then releases; what does not end in
// time is lost to its holder and left to its ttl. And G9: nothing of a client keeps the process alive once it is idle.
import { describe, expect, it } from 'vitest'
import { ClosedError, DrainTimeoutError } from '../../src/index.js'
import { gate, setUp, track, watchSignal } from './world.js'

describe('close', () => {
  it('of an idle client closes its store, and is one close however often it is asked for', async () => {
    const { memory, client } = setUp()
    let closes = 0
    const store = {
      ...memory,
      close: async () => {
        closes++
      },
    }
    const leases = client({ store, closeStore: true })
    await Promise.all([leases.close(), leases.close(), leases[Symbol.asyncDispose]()])
    expect(closes).toBe(1)
    await client({ store, closeStore: false }).close()
    expect(closes).toBe(1)
  })

  it('turns away what comes after it, and whoever still waits', async () => {
    const { clock, net, client } = setUp()
    const other = await client().acquire('k')
    const leases = client()
    const waiting = [1, 2, 3].map(() => track(leases.acquire('k')))
    await clock.advance(100)
    await clock.advanceUntil(leases.close())
    for (const { error } of waiting) expect(error()).toBeInstanceOf(ClosedError)
    const asked = net.callsOf('acquire').length
    await expect(leases.acquire('k')).rejects.toBeInstanceOf(ClosedError)
    await expect(leases.tryAcquire('k')).rejects.toBeInstanceOf(ClosedError)
    await expect(leases.hold('k', () => 1)).rejects.toBeInstanceOf(ClosedError)
    await expect(leases.coalesce('k', () => 1)).rejects.toBeInstanceOf(ClosedError)
    await expect(leases.adopt(other.grant)).rejects.toBeInstanceOf(ClosedError)
    expect(net.callsOf('acquire')).toHaveLength(asked)
  })

  it('tells the work to stop, renews until it has ended, then releases', async () => {
    const { clock, net, client, holder } = setUp()
    const leases = client()
    const work = gate()
    let reason: unknown
    const held = track(
      leases.hold('k', { ttlMs: 1_000 }, async (lease) => {
        await new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
        reason = lease.signal.reason
        await work.promise
        return lease.held
      }),
    )
    await clock.advance(100)
    const closing = track(leases.close())
    await clock.advance(3_000)
    expect(reason).toMatchObject({ code: 'LEASE_LOST', reason: 'closing' })
    expect([closing.is(), await holder('k')]).toEqual(['waiting', 'process-1'])
    expect(net.callsOf('renew').length).toBeGreaterThan(4)
    work.open()
    await clock.settle()
    expect(held.value()).toBe(true)
    expect([closing.is(), await holder('k')]).toEqual(['resolved', undefined])
    expect(clock.keepsAlive).toBe(false)
  })

  it('when the drain limit is over: lost, not released, renewed no more, and the keys are named', async () => {
    const { clock, memory, net, client } = setUp()
    const leases = client({ drainMs: 2_000, prefix: 'p/' })
    const stuck = await leases.acquire('stuck', { ttlMs: 1_000 })
    const seen = watchSignal(stuck, clock)
    const good = await leases.acquire('good', { ttlMs: 1_000 })
    good.signal.addEventListener('abort', () => void good.release())
    const closing = track(leases.close())
    await clock.advance(2_000)
    expect(closing.error()).toBeInstanceOf(DrainTimeoutError)
    expect(closing.error()).toMatchObject({ code: 'DRAIN_TIMEOUT', keys: ['stuck'] })
    expect((closing.error() as Error).message).toContain('"stuck"')
    expect(seen).toMatchObject({ aborts: 1, reason: { reason: 'closing' } })
    expect([stuck.held, stuck.remainingMs]).toEqual([false, 0])
    const before = await memory.inspect('p/stuck')
    expect(before?.state).toBe('held')
    await clock.advance(before?.remainingMs ?? 0)
    expect((await memory.inspect('p/stuck'))?.state).toBe('free')
    expect(net.callsOf('release').map(({ request }) => request.key)).toEqual(['p/good'])
    expect(await stuck.release()).toEqual({ is: 'lost', reason: 'closing' })
    await clock.advance(10_000)
    expect(net.callsOf('withdraw')).toEqual([])
  })

  it('and a request of such a lease that is still on its way changes nothing about it', async () => {
    const { clock, net, client } = setUp()
    const leases = client({ drainMs: 2_000 })
    const stuck = await leases.acquire('stuck', { ttlMs: 5_000 })
    net.hang('renew')
    const renewal = track(stuck.renew())
    const closing = track(leases.close())
    await clock.advance(2_000)
    expect(closing.error()).toBeInstanceOf(DrainTimeoutError)
    expect(renewal.is()).toBe('rejected')
    await stuck.release()
    await clock.advance(20_000)
    expect(net.callsOf('withdraw')).toEqual([])
  })

  it("takes its own limit before the client's, and refuses a bad one", async () => {
    const { clock, client } = setUp()
    const leases = client({ drainMs: 100_000 })
    await leases.acquire('k')
    await expect(leases.close({ drainMs: -1 })).rejects.toMatchObject({ option: 'drainMs', value: -1 })
    await expect(leases.close(5_000 as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    const closing = track(leases.close({ drainMs: 0 }))
    await clock.advance(1)
    expect(closing.error()).toBeInstanceOf(DrainTimeoutError)
  })

  it('waits for a release that is on its way, but not for ever', async () => {
    const { clock, net, client } = setUp()
    const leases = client({ drainMs: 1_000 })
    const lease = await leases.acquire('k', { ttlMs: 30_000 })
    net.hang('release')
    void lease.release()
    const closing = track(leases.close())
    await clock.advance(999)
    expect(closing.is()).toBe('waiting')
    await clock.advance(2_001)
    expect(closing.is()).toBe('resolved') // it was given back by its holder: nobody is told of lost work
  })

  it('waits for withdrawals, but no longer than the drain', async () => {
    const { clock, net, client } = setUp()
    const leases = client({ drainMs: 3_000 })
    net.hang('acquire')
    void leases.acquire('k').catch(() => {})
    await clock.settle()
    net.always('withdraw', { fail: new Error('down') })
    const closing = track(leases.close())
    await clock.advance(1_000)
    expect(closing.is()).toBe('waiting')
    net.heal()
    await clock.advance(1_000)
    expect(closing.is()).toBe('resolved')
    expect(net.callsOf('withdraw').at(-1)?.state).toBe('answered')
  })

  it('does not wait for a store that does not close', async () => {
    const { clock, net, client } = setUp()
    const never = client({ store: { ...net, close: () => new Promise(() => {}) }, closeStore: true, drainMs: 1_000 })
    const closing = track(never.close())
    await clock.advance(3_000)
    expect(closing.is()).toBe('resolved')
    const failing = client({
      store: {
        ...net,
        close: () => {
          throw new Error('cannot')
        },
      },
      closeStore: true,
    })
    await failing.close()
  })

  it('an adoption that is under way when the client closes gives no lease', async () => {
    const { clock, net, client } = setUp()
    const { grant } = await client().acquire('k', { renew: false })
    const leases = client()
    net.next('renew', { delayAfterMs: 100 })
    const adopting = track(leases.adopt(grant))
    await clock.advance(50)
    void leases.close()
    await clock.advance(50)
    expect(adopting.error()).toBeInstanceOf(ClosedError)
    await clock.advance(60_000)
    expect(net.callsOf('renew')).toHaveLength(1)
  })
})

describe('what a client leaves running', () => {
  it('nothing before it is used, nothing that counts once nothing is held', async () => {
    const { clock, client } = setUp({ givesUp: false })
    const leases = client()
    expect(clock.pending).toBe(0)
    const lease = await leases.acquire('k', { ttlMs: 3_600_000 })
    expect(clock.keepsAlive).toBe(true)
    await lease.release()
    expect(clock.keepsAlive).toBe(false)
    await clock.advance(250)
    expect(clock.pending).toBe(0)
  })

  it('no timers after 10,000 short leases with a ttl of an hour', async () => {
    const { clock, client } = setUp({ givesUp: false })
    const leases = client()
    for (let i = 0; i < 10_000; i++) await leases.hold(`k${i % 100}`, { ttlMs: 3_600_000 }, () => i)
    expect([clock.pending <= 1, clock.keepsAlive]).toEqual([true, false])
    await clock.advance(250)
    expect(clock.pending).toBe(0)
  })

  it('one timer for 1,000 held leases', async () => {
    const { clock, client } = setUp({ givesUp: false })
    const leases = client()
    for (let i = 0; i < 1_000; i++) await leases.acquire(`k${i}`)
    expect(clock.pending).toBe(1)
  })

  it('a wait keeps the process alive until it has its answer', async () => {
    const { clock, memory, client } = setUp()
    await memory.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 2_000 })
    const waiting = track(client().acquire('k', { waitMs: Number.POSITIVE_INFINITY }))
    while (waiting.is() === 'waiting') {
      expect(clock.keepsAlive).toBe(true)
      await clock.advance(100)
    }
    await waiting.value().release()
    expect(clock.keepsAlive).toBe(false)
  })
})
