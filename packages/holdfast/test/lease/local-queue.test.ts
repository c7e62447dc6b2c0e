// Two-stage locking: callers of one process line up per key, only the head contends at the store, and a lease is handed to
// the next in line with one command and a new token.
import { describe, expect, it } from 'vitest'
import { type Lease, LeaseHeldError, LeaseLostError, StoreError, TooManyWaitersError } from '../../src/index.js'
import { setUp, track, type World } from './world.js'

/** Takes the key in `client`'s name, keeps it for `holdMs`, and notes who had it. */
function worker({ clock }: World, leases: ReturnType<World['client']>, name: string, log: string[], holdMs = 10) {
  return leases.hold('k', { waitMs: Number.POSITIVE_INFINITY, ttlMs: 30_000 }, async ({ token }) => {
    log.push(name)
    await new Promise<void>((resolve) => void clock.setTimer(holdMs, resolve))
    return token
  })
}

describe('the line', () => {
  it('is first in, first out, each under a token of its own', async () => {
    const world = setUp()
    const leases = world.client()
    const log: string[] = []
    const names = Array.from({ length: 20 }, (_, i) => `w${i}`)
    const tokens = await world.clock.advanceUntil(Promise.all(names.map((name) => worker(world, leases, name, log))))
    expect(log).toEqual(names)
    expect(tokens).toEqual(names.map((_, i) => i + 1))
  })

  it.each([100, 1_000])('of %i has one contender at the store, and one command for each handover', async (count) => {
    const { clock, net, memory, client } = setUp()
    const leases = client()
    const first = await leases.acquire('k')
    const waiting = Array.from({ length: count }, () => leases.acquire('k', { waitMs: 60_000 }))
    await clock.settle()
    expect(net.calls).toHaveLength(1) // while this process holds it, nobody asks the store at all
    let lease = first
    for (const next of waiting) {
      void lease.release()
      lease = await next
    }
    expect(lease.token).toBe(count + 1)
    await lease.release()
    expect(net.callsOf('acquire')).toHaveLength(count + 1)
    expect(net.callsOf('release')).toHaveLength(1)
    expect(net.calls).toHaveLength(count + 2)
    expect((await memory.inspect('k'))?.state).toBe('free')
  })

  it('while another process holds the key, only its head asks', async () => {
    const { clock, net, client } = setUp()
    const held = await client().acquire('k')
    const leases = client()
    const waiting = Array.from({ length: 1_000 }, () => track(leases.acquire('k', { waitMs: 60_000 })))
    await clock.advance(10_000)
    const claims = new Set(net.callsOf('acquire').map(({ request }) => request.claim))
    expect(claims.size).toBe(2)
    expect(net.callsOf('acquire').length).toBeLessThanOrEqual(2 + 11) // one keep-alive a second
    await held.release()
    await clock.settle()
    expect(waiting.filter(({ is }) => is() === 'resolved')).toHaveLength(1)
    expect(waiting[0]?.is()).toBe('resolved')
  })

  it('may be left from the middle', async () => {
    const { clock, net, client } = setUp()
    const leases = client()
    const lease = await leases.acquire('k')
    const controllers = Array.from({ length: 5 }, () => new AbortController())
    const waiting = controllers.map(({ signal }) => track(leases.acquire('k', { signal })))
    const why = new Error('changed my mind')
    controllers[2]?.abort(why)
    controllers[0]?.abort(why)
    await clock.settle()
    expect(waiting.map(({ is }) => is())).toEqual(['rejected', 'waiting', 'rejected', 'waiting', 'waiting'])
    expect(waiting[2]?.error()).toBe(why)
    expect(net.callsOf('withdraw')).toEqual([]) // they had asked nothing
    void lease.release()
    for (const place of [1, 3, 4]) {
      await clock.settle()
      expect(waiting[place]?.is()).toBe('resolved')
      void waiting[place]?.value().release()
    }
  })

  it('ends a wait in it with who holds the key: a lease of this process, with its own label', async () => {
    const { clock, net, client } = setUp()
    const leases = client({ holder: 'me' })
    await leases.acquire('k', { ttlMs: 60_000 })
    const waiting = track(leases.acquire('k', { waitMs: 500 }))
    await clock.advance(500)
    expect(waiting.error()).toBeInstanceOf(LeaseHeldError)
    expect(waiting.error()).toMatchObject({ holder: 'me', waitedMs: 500, remainingMs: 59_500 })
    expect(net.calls).toHaveLength(1)
  })

  it("ends a wait in it with the head's last answer, or says that there was none", async () => {
    const { clock, net, client } = setUp()
    await client({ holder: 'other' }).acquire('k')
    const held = client()
    void held.acquire('k', { waitMs: 60_000 }).catch(() => {})
    const second = track(held.acquire('k', { waitMs: 500 }))
    await clock.advance(500)
    expect(second.error()).toMatchObject({ code: 'LEASE_HELD', holder: 'other' })
    net.hang('acquire')
    const silent = client()
    void silent.acquire('k2', { waitMs: 60_000 }).catch(() => {})
    const unheard = track(silent.acquire('k2', { waitMs: 500 }))
    await clock.advance(500)
    expect(unheard.error()).toBeInstanceOf(StoreError)
  })

  it('is bounded: one too many is turned away at once', async () => {
    const { clock, client } = setUp()
    const leases = client({ maxLocalWaiters: 3 })
    await leases.acquire('k')
    const waiting = [1, 2, 3].map(() => track(leases.acquire('k')))
    const one = track(leases.acquire('k'))
    await clock.settle()
    expect(one.error()).toBeInstanceOf(TooManyWaitersError)
    expect(one.error()).toMatchObject({ key: 'k', code: 'TOO_MANY_WAITERS' })
    expect(waiting.map(({ is }) => is())).toEqual(['waiting', 'waiting', 'waiting'])
    expect((await leases.acquire('another key')).held).toBe(true)
  })

  it('of length 0 still lets one in who need not wait', async () => {
    const { client } = setUp()
    const leases = client({ maxLocalWaiters: 0 })
    const lease = await leases.acquire('k')
    await expect(leases.acquire('k')).rejects.toBeInstanceOf(TooManyWaitersError)
    await lease.release()
    expect((await leases.acquire('k')).token).toBe(2)
  })

  it('when a lease is lost, the next in line contends', async () => {
    const { clock, client } = setUp()
    const leases = client()
    const lost = await leases.acquire('k', { ttlMs: 1_000, renew: false })
    const next = track(leases.acquire('k', { waitMs: 60_000 }))
    await clock.advance(899)
    expect(next.is()).toBe('waiting')
    await clock.advance(101)
    expect(lost.held).toBe(false)
    expect(next.value().token).toBe(lost.token + 1)
  })
})

describe('what a process knows', () => {
  it('of a key in use is kept, however many others are used meanwhile', async () => {
    const { clock, net, client } = setUp()
    await client({ holder: 'other' }).acquire('wanted')
    const leases = client({ holder: 'me' })
    await leases.acquire('held')
    const waiting = track(leases.acquire('wanted', { waitMs: 60_000, ttlMs: 30_000 }))
    await clock.settle()
    for (let n = 0; n < 600; n++) await (await leases.acquire(`other:${n}`)).release()
    const asked = net.callsOf('acquire').length
    expect(await leases.tryHold('held', () => 1)).toMatchObject({ held: false, by: 'me' })
    expect(await leases.tryHold('wanted', () => 1)).toMatchObject({ held: false, by: 'other' })
    expect(net.callsOf('acquire')).toHaveLength(asked)
    expect(waiting.is()).toBe('waiting')
  })

  it('of a key is no reason to wait: it is taken and given back as often as one likes', async () => {
    const { client } = setUp()
    const leases = client()
    const tokens: number[] = []
    for (let n = 0; n < 1_200; n++) {
      const lease = await leases.acquire(`k${n % 600}`)
      tokens.push(lease.token)
      await lease.release()
    }
    expect(new Set(tokens)).toEqual(new Set([1, 2]))
  })
})

describe('tryAcquire while others of the process wait', () => {
  it('is not refused on account of a lease whose deadline is over', async () => {
    const { clock, memory, client, eventsOf } = setUp()
    const leases = client()
    const stale = await leases.acquire('k', { ttlMs: 1_000 })
    clock.block(2_000) // no timer has told the lease yet
    await memory.withdraw('k', stale.grant.claim)
    const tried = track(leases.tryAcquire('k'))
    await clock.settle()
    expect(tried.value()?.token).toBe(stale.token + 1)
    expect(eventsOf('lost')).toHaveLength(1)
  })

  it('is refused at once when this process holds the key, without asking the store', async () => {
    const { clock, net, client } = setUp()
    const leases = client({ holder: 'me' })
    await leases.acquire('k')
    void leases.acquire('k').catch(() => {})
    expect(await leases.tryAcquire('k')).toBeNull()
    expect(await leases.tryHold('k', () => 1)).toMatchObject({ held: false, by: 'me', remainingMs: 30_000 })
    expect([clock.monoMs(), net.calls.length]).toEqual([1_000, 1])
  })

  it('is refused at once with the last answer that the head got', async () => {
    const { clock, net, client } = setUp()
    await client({ holder: 'other' }).acquire('k')
    const leases = client()
    void leases.acquire('k', { waitMs: 60_000 }).catch(() => {})
    await clock.advance(100)
    const asked = net.calls.length
    expect(await leases.tryHold('k', () => 1)).toMatchObject({ held: false, by: 'other' })
    expect([clock.monoMs(), net.calls.length]).toEqual([1_100, asked])
  })

  it('is told at once that the store failed, when that was the last answer', async () => {
    const { clock, net, client } = setUp()
    const leases = client()
    net.always('acquire', { dropBefore: 'error' })
    void leases.acquire('k', { waitMs: 60_000, retry: () => 30_000 }).catch(() => {})
    await clock.advance(100)
    const tried = track(leases.tryAcquire('k'))
    await clock.settle()
    expect(tried.error()).toBeInstanceOf(StoreError)
  })

  it.each([
    ['granted', null],
    ['refused', null],
    ['failed', StoreError],
  ] as const)("gets the head's first answer as its own: %s", async (how, answer) => {
    const { clock, net, client } = setUp()
    if (how === 'refused') await client({ holder: 'other' }).acquire('k')
    const before = net.calls.length
    net.dropHints = true // the subscription's first hint would let the head ask a second time
    net.next('acquire', { delayBeforeMs: 100, ...(how === 'failed' ? { dropBefore: 'error' as const } : {}) })
    const leases = client()
    void leases.acquire('k', { waitMs: 60_000 }).catch(() => {})
    const tried = track(leases.tryAcquire('k'))
    await clock.advance(100)
    if (answer === null) expect(tried.value()).toBeNull()
    else expect(tried.error()).toBeInstanceOf(answer)
    expect(net.callsOf('acquire').length - before).toBe(1)
  })

  it('asks the store itself once a lease that is being given back is free', async () => {
    const { clock, net, client } = setUp()
    const leases = client()
    const lease = await leases.acquire('k')
    net.next('release', { delayAfterMs: 100 })
    const released = track(lease.release())
    const tried = track(leases.tryAcquire('k'))
    await clock.advance(100)
    expect(released.value()).toEqual({ is: 'released' })
    expect(tried.value()?.token).toBe(2)
  })
})

describe('a handover', () => {
  it('tells the one who gives back as soon as the store has answered', async () => {
    const { clock, net, client, eventsOf } = setUp()
    const leases = client()
    const lease = await leases.acquire('k')
    const next = track(leases.acquire('k'))
    net.next('acquire', { delayAfterMs: 100 })
    const released = track(lease.release())
    expect([lease.held, lease.signal.aborted]).toEqual([false, true]) // ended for its owner before the request is answered
    await clock.advance(99)
    expect([released.is(), next.is()]).toEqual(['waiting', 'waiting'])
    await clock.advance(1)
    expect(released.value()).toEqual({ is: 'released' })
    expect(next.value().token).toBe(2)
    expect(eventsOf('released')).toEqual([{ type: 'released', key: 'k', token: 1 }])
    expect(net.callsOf('acquire')[1]?.request).toMatchObject({ replaces: lease.grant.claim })
  })

  it('counts the new deadline from its own send', async () => {
    const { clock, net, client } = setUp()
    const leases = client()
    const lease = await leases.acquire('k', { ttlMs: 10_000 })
    const next = track(leases.acquire('k', { ttlMs: 20_000 }))
    await clock.advance(1_000)
    net.next('acquire', { delayAfterMs: 300 })
    void lease.release()
    await clock.advance(300)
    expect(next.value().remainingMs).toBe(17_700)
  })

  it('gives a queued process its turn, and comes back to this one after it', async () => {
    const world = setUp()
    const { clock, client } = world
    const [one, other] = [client(), client()]
    const log: string[] = []
    const lease = await one.acquire('k')
    const work = [1, 2, 3].map((n) => worker(world, one, `one-${n}`, log))
    await clock.advance(100)
    work.push(worker(world, other, 'other', log))
    await clock.advance(100)
    await lease.release()
    await clock.advanceUntil(Promise.all(work))
    expect(log).toEqual(['other', 'one-1', 'one-2', 'one-3'])
  })

  it('the turn of another is no loss for the one who gave back', async () => {
    const { clock, client } = setUp()
    const [one, other] = [client(), client()]
    const lease = await one.acquire('k')
    const mine = track(one.acquire('k', { waitMs: 60_000 }))
    const theirs = track(other.acquire('k', { waitMs: 60_000 }))
    await clock.advance(100)
    const released = track(lease.release())
    await clock.settle()
    expect(released.value()).toEqual({ is: 'released' })
    expect([mine.is(), theirs.is()]).toEqual(['waiting', 'resolved'])
  })

  it('on a store that cannot tell who waits there are at most maxHandovers in a row', async () => {
    const world = setUp({ fair: false })
    const { clock, net, client } = world
    net.dropHints = true // without wake-ups the other one has to find the gap by itself
    const [one, other] = [client({ maxHandovers: 3 }), client({ retry: () => 20 })]
    const log: string[] = []
    const lease = await one.acquire('k')
    const work = Array.from({ length: 10 }, (_, n) => worker(world, one, `one-${n}`, log, 100))
    work.push(worker(world, other, 'other', log))
    await lease.release()
    await clock.advanceUntil(Promise.all(work))
    expect(log.indexOf('other')).toBeLessThanOrEqual(4)
    expect(net.callsOf('acquire').some(({ request }) => request.queue !== undefined)).toBe(false)
    let inARow = 0
    for (const { request } of net.callsOf('acquire')) {
      inARow = request.replaces === undefined ? 0 : inARow + 1
      expect(inARow).toBeLessThanOrEqual(3)
    }
  })

  it('on a store that can, there is no such limit', async () => {
    const { clock, net, client } = setUp()
    const leases = client({ maxHandovers: 3 })
    let lease = await leases.acquire('k')
    const waiting = Array.from({ length: 20 }, () => leases.acquire('k'))
    for (const next of waiting) {
      void lease.release()
      lease = await clock.advanceUntil(next)
    }
    expect(net.callsOf('release')).toEqual([])
  })

  it('that finds the lease taken: the one who gave back lost it, and the head goes on waiting', async () => {
    const { clock, memory, client } = setUp()
    const leases = client()
    const held = track(
      leases.hold('k', async () => {
        await memory.revoke('k', { force: true })
        await memory.acquire({ key: 'k', claim: 'thief', holder: 'thief', ttlMs: 5_000 })
        return 'done'
      }),
    )
    const next = track(leases.acquire('k', { waitMs: 60_000 }))
    await clock.advance(1_000)
    expect(held.error()).toBeInstanceOf(LeaseLostError)
    expect(held.error()).toMatchObject({ outcome: { is: 'returned', value: 'done' } })
    expect(next.is()).toBe('waiting')
    await clock.advance(5_000)
    expect(next.value().held).toBe(true)
  })

  it('whose reply was lost is asked for again with the same claim, and nobody is told of a loss', async () => {
    const { clock, net, client, eventsOf } = setUp()
    const leases = client()
    const value = track(leases.hold('k', async () => 'done'))
    let next: Lease | undefined
    void leases.acquire('k').then((lease) => {
      next = lease
    })
    net.next('acquire', { dropAfter: true })
    await clock.advance(10_000)
    const [, first, again] = net.callsOf('acquire').map(({ request }) => request.claim)
    expect(again).toBe(first)
    expect(next?.held).toBe(true)
    expect(eventsOf('lost')).toEqual([])
    expect(value.value()).toBe('done')
  })

  it('whose reply was lost leaves the release unknown when the repeat certainly did nothing (G13)', async () => {
    const { clock, net, client } = setUp()
    const leases = client()
    const lease = await leases.acquire('k')
    void leases.acquire('k').catch(() => {})
    net.next('acquire', { dropAfter: 'error' }, { dropBefore: 'error' })
    const released = track(lease.release())
    await clock.advanceUntil(() => released.is() !== 'waiting')
    expect(released.value()).toMatchObject({ is: 'unknown', cause: { outcome: 'unknown' } })
  })

  it('that the store does not answer is not waited for longer than two calls', async () => {
    const { clock, net, client, eventsOf } = setUp()
    const leases = client()
    const lease = await leases.acquire('k', { ttlMs: 10_000 })
    const next = track(leases.acquire('k', { ttlMs: 10_000, callTimeoutMs: 200, waitMs: 60_000 }))
    net.hang('acquire')
    const released = track(lease.release())
    await clock.advance(400)
    expect(released.value()).toMatchObject({ is: 'unknown', cause: { outcome: 'unknown' } })
    expect(eventsOf('release-failed')).toHaveLength(1)
    await clock.advance(2_000)
    net.heal()
    await clock.advance(5_000)
    expect(next.value().held).toBe(true)
    // Told once, and nothing else about it later.
    expect(eventsOf('release-failed')).toHaveLength(1)
    expect([eventsOf('released'), eventsOf('lost')]).toEqual([[], []])
  })

  it('is not made while an acquire of the old claim may still arrive: it is released and withdrawn instead', async () => {
    const { clock, net, client, holder } = setUp()
    const leases = client()
    net.next('acquire', { delayBeforeMs: 20_000 })
    const first = track(leases.acquire('k', { callTimeoutMs: 100, waitMs: 60_000 }))
    await clock.advance(200)
    const lease = first.value()
    const next = track(leases.acquire('k'))
    await lease.release()
    await clock.advance(1_000)
    expect(net.callsOf('release')).toHaveLength(1)
    expect(net.callsOf('withdraw').map(({ request }) => request.claim)).toEqual([lease.grant.claim])
    await next.value().release()
    await clock.advance(20_000)
    expect(await holder('k')).toBeUndefined() // the late one was refused
  })
})
