// G6: no ghosts. Whoever gives up sends nothing more but the withdrawal of what may be on its way; a withdrawn claim is
// refused even when its acquire arrives later. Each test here fails when that one withdrawal is left out.
import { describe, expect, it } from 'vitest'
import type { LeaseStore } from '../../src/index.js'
import { gate, setUp, track, type World } from './world.js'

const claimsOf = (world: World, verb: 'acquire' | 'withdraw') =>
  world.net.callsOf(verb).map(({ request }) => request.claim)

/** Lets everything that is on its way arrive, and says who holds the key then. */
async function holderInTheEnd(world: World): Promise<string | undefined> {
  world.net.heal()
  await world.clock.advance(2_000)
  return world.holder('k')
}

describe('an acquire that is given up is withdrawn', () => {
  it('aborted while its request is on its way', async () => {
    const world = setUp()
    const { clock, net, client } = world
    net.next('acquire', { hang: true })
    const controller = new AbortController()
    const given = track(client().acquire('k', { signal: controller.signal, ttlMs: 60_000 }))
    await clock.settle()
    controller.abort(new Error('stop'))
    await clock.settle()
    expect(given.is()).toBe('rejected')
    expect(claimsOf(world, 'withdraw')).toEqual(claimsOf(world, 'acquire'))
    expect(await holderInTheEnd(world)).toBeUndefined()
    expect(claimsOf(world, 'acquire')).toHaveLength(1)
  })

  it('aborted in the very turn in which it was granted', async () => {
    const world = setUp()
    const { clock, memory, net, client } = world
    await memory.acquire({ key: 'k', claim: 'elsewhere', holder: 'elsewhere', ttlMs: 300 })
    const controller = new AbortController()
    const granted: string[] = []
    const store: LeaseStore = {
      ...net,
      acquire: (request, call) => {
        const answer = net.acquire(request, call)
        // Two steps after the answer: the client has heard of it, and has not acted on it yet.
        void answer.then(({ is }) => {
          if (is !== 'granted') return
          granted.push(request.claim)
          queueMicrotask(() => controller.abort(new Error('stop')))
        })
        return answer
      },
    }
    const given = track(client({ store }).acquire('k', { signal: controller.signal }))
    await clock.advance(1_000)
    expect(given.is()).toBe('rejected')
    expect(granted).toHaveLength(1)
    expect(claimsOf(world, 'withdraw')).toEqual(granted)
    await clock.advance(1_000)
    expect(await world.holder('k')).toBeUndefined()
  })

  it('out of patience while a later request is on its way', async () => {
    const world = setUp({ fair: false })
    const { clock, memory, net, client } = world
    const elsewhere = { key: 'k', claim: 'elsewhere', holder: 'elsewhere', ttlMs: 300, token: 1 }
    await memory.acquire(elsewhere)
    net.next('acquire', {}, { hang: true })
    net.dropHints = true
    const waiting = track(client().acquire('k', { waitMs: 1_000, ttlMs: 60_000, retry: () => 500 }))
    await clock.advance(1_000)
    expect(waiting.error()).toMatchObject({ code: 'LEASE_HELD' }) // the last answer that there was
    expect(net.callsOf('withdraw')).toHaveLength(1)
    expect(await holderInTheEnd(world)).toBeUndefined()
  })

  it('answered too late to be of use, and its next attempt is a claim of its own', async () => {
    const world = setUp({ givesUp: false })
    const { clock, net, client } = world
    net.next('acquire', { delayAfterMs: 900 })
    const asked = client().acquire('k', {
      ttlMs: 1_000,
      marginMs: 100,
      renewEveryMs: 100,
      callTimeoutMs: 799,
      renew: false,
    })
    const answer = track(asked)
    await clock.advance(2_000)
    const [late] = claimsOf(world, 'acquire')
    expect(answer.value().grant.claim).toBe(late) // asked once more with the same claim, in time: that one counts
    net.next('acquire', { delayAfterMs: 950 })
    const slow = track(client().acquire('k2', { ttlMs: 1_000, marginMs: 100, callTimeoutMs: 2_000, renew: false }))
    await clock.advance(960)
    await clock.advanceUntil(() => slow.is() !== 'waiting')
    const [first, second] = net.callsOf('acquire').filter(({ request }) => request.key === 'k2')
    expect(second?.request.claim).not.toBe(first?.request.claim)
    expect(claimsOf(world, 'withdraw')).toEqual([first?.request.claim])
    expect(slow.value().grant.claim).toBe(second?.request.claim)
  })

  it('with an unknown outcome, asked for once more with the same claim, and unknown again', async () => {
    const world = setUp()
    const { clock, net, client } = world
    net.always('acquire', { dropAfter: true })
    const tried = track(client().tryAcquire('k', { ttlMs: 60_000, callTimeoutMs: 100 }))
    await clock.advance(200)
    expect(tried.error()).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' })
    const [first, second] = claimsOf(world, 'acquire')
    expect(second).toBe(first)
    expect(claimsOf(world, 'withdraw')).toEqual([first])
    expect(await world.holder('k')).toBeUndefined()
  })

  it('certainly not applied: there is nothing to withdraw', async () => {
    const { clock, net, client } = setUp()
    net.always('acquire', { dropBefore: 'error' })
    const tried = track(client().tryAcquire('k'))
    await clock.advance(5_000)
    expect(tried.error()).toMatchObject({ outcome: 'none' })
    expect(net.calls.map(({ verb }) => verb)).toEqual(['acquire'])
  })

  it('with a grant that came late, after the time-out', async () => {
    const world = setUp({ givesUp: false })
    const { clock, memory, net, client } = world
    net.always('acquire', { delayAfterMs: 500 })
    const controller = new AbortController()
    const waiting = track(
      client().acquire('k', { callTimeoutMs: 100, ttlMs: 60_000, signal: controller.signal, retry: () => 60_000 }),
    )
    net.dropHints = true
    await clock.advance(5_000)
    expect(waiting.is()).toBe('waiting')
    expect((await memory.inspect('k'))?.state).toBe('held')
    controller.abort()
    await clock.settle()
    expect(await world.holder('k')).toBeUndefined()
  })

  it('in the queue of the store: it leaves its place to the next', async () => {
    const world = setUp()
    const { clock, memory, client } = world
    await client().acquire('k')
    const controller = new AbortController()
    const waiting = track(client().acquire('k', { signal: controller.signal }))
    await clock.advance(100)
    expect((await memory.inspect('k'))?.waiters).toHaveLength(1)
    controller.abort()
    await clock.settle()
    expect(waiting.is()).toBe('rejected')
    expect((await memory.inspect('k'))?.waiters).toEqual([])
  })

  it('in the queue of the store by an answer that came late', async () => {
    const world = setUp({ givesUp: false })
    const { clock, memory, net, client } = world
    await client().acquire('k')
    net.always('acquire', { delayAfterMs: 500 })
    const controller = new AbortController()
    const { signal } = controller
    const waiting = track(client().acquire('k', { callTimeoutMs: 100, signal, retry: () => 60_000 }))
    await clock.advance(1_000)
    controller.abort()
    await clock.settle()
    expect(waiting.is()).toBe('rejected')
    expect((await memory.inspect('k'))?.waiters).toEqual([])
  })
})

describe('a waiter that gave up', () => {
  it.each(['aborted', 'out of patience'])('%s: sends nothing more but one withdrawal', async (how) => {
    const world = setUp()
    const { clock, net, client } = world
    const lease = await client().acquire('k')
    const controller = new AbortController()
    const patience = how === 'aborted' ? Number.POSITIVE_INFINITY : 1_500
    const waiting = track(client().acquire('k', { waitMs: patience, signal: controller.signal }))
    await clock.advance(1_500)
    if (how === 'aborted') controller.abort()
    await clock.settle()
    expect(waiting.is()).toBe('rejected')
    const sent = net.calls.length
    expect(net.calls.at(-1)?.verb).toBe('withdraw')
    await lease.release()
    await clock.advance(60_000)
    expect(net.calls.slice(sent).map(({ verb }) => verb)).toEqual(['release'])
  })
})

describe('a lease that was lost with a request on its way', () => {
  const lose = async (world: World) => {
    const { clock, net, client } = world
    const lease = await client().acquire('k', { ttlMs: 10_000, marginMs: 1_000 })
    await clock.advance(4_000)
    net.hang('renew') // each renewal from here on stays on its way
    await clock.advanceUntil(() => !lease.held)
    expect(clock.monoMs()).toBe(1_000 + 9_000)
    return lease
  }

  it('is withdrawn when its known term ends, not before', async () => {
    const world = setUp()
    const { clock, net } = world
    const lease = await lose(world)
    await clock.advance(999)
    expect(net.callsOf('withdraw')).toEqual([])
    await clock.advance(1)
    expect(claimsOf(world, 'withdraw')).toEqual([lease.grant.claim])
  })

  it('or as soon as its holder gives it back', async () => {
    const world = setUp()
    const { net } = world
    const lease = await lose(world)
    expect(await lease.release()).toEqual({ is: 'lost', reason: 'deadline' })
    expect(claimsOf(world, 'withdraw')).toEqual([lease.grant.claim])
    expect(net.callsOf('release')).toEqual([])
    expect(await holderInTheEnd(world)).toBeUndefined() // the late renewals were refused
  })

  it('is withdrawn once', async () => {
    const world = setUp()
    const lease = await lose(world)
    await world.clock.advance(1_000)
    await lease.release()
    await world.clock.advance(10_000)
    expect(claimsOf(world, 'withdraw')).toHaveLength(1)
  })

  it('by an acquire that may still arrive', async () => {
    const world = setUp()
    const { clock, net, client } = world
    net.next('acquire', { delayBeforeMs: 30_000 })
    const asked = track(client().acquire('k', { ttlMs: 10_000, marginMs: 1_000, callTimeoutMs: 100, renew: false }))
    await clock.advance(100)
    const lease = asked.value()
    await clock.advance(12_000)
    expect([lease.held, claimsOf(world, 'withdraw')]).toEqual([false, [lease.grant.claim]])
    await clock.advance(30_000)
    expect(await world.holder('k')).toBeUndefined()
  })

  it('by a renewal of which the store cannot tell whether it was applied', async () => {
    const world = setUp()
    const { clock, net, client } = world
    const cause = new Error('locked row')
    const store: LeaseStore = { ...net, renew: async (leases) => leases.map(() => ({ is: 'unknown', cause })) }
    const lease = await client({ store }).acquire('k', { ttlMs: 10_000, marginMs: 1_000 })
    await clock.advance(9_999)
    expect([lease.held, claimsOf(world, 'withdraw')]).toEqual([false, []])
    await clock.advance(1)
    expect(claimsOf(world, 'withdraw')).toEqual([lease.grant.claim])
  })

  it('by a renewal whose good answer came after the loss', async () => {
    const world = setUp({ givesUp: false })
    const { clock, net, client } = world
    const lease = await client().acquire('k', { ttlMs: 10_000, marginMs: 1_000, renew: false, callTimeoutMs: 500 })
    await clock.advance(8_000)
    net.next('renew', { delayAfterMs: 3_000 })
    const renewal = track(lease.renew())
    await clock.advance(2_000)
    expect(renewal.error()).toMatchObject({ code: 'STORE_ERROR' })
    await clock.advance(1_000)
    expect(claimsOf(world, 'withdraw')).toEqual([lease.grant.claim])
    expect(await world.holder('k')).toBeUndefined()
  })

  it('by a renewal whose good answer was the first thing after a block', async () => {
    const world = setUp()
    const { clock, net, client } = world
    const answer = gate()
    const store: LeaseStore = {
      ...net,
      renew: async (leases) => {
        const outcomes = await net.renew(leases)
        await answer.promise
        return outcomes
      },
    }
    const lease = await client({ store }).acquire('k', { ttlMs: 10_000, marginMs: 1_000, renew: false })
    const renewal = track(lease.renew())
    await clock.advance(500)
    clock.block(9_000)
    answer.open() // before any timer has fired
    for (let i = 0; i < 20; i++) await Promise.resolve()
    expect(renewal.error()).toMatchObject({ code: 'LEASE_LOST', reason: 'deadline' })
    await clock.advance(500)
    expect(claimsOf(world, 'withdraw')).toEqual([lease.grant.claim])
  })

  it('with nothing on its way nothing is sent: its term runs out by itself', async () => {
    const { clock, net, client } = setUp()
    const lease = await client().acquire('k', { ttlMs: 1_000, renew: false })
    await clock.advance(30_000)
    expect(lease.held).toBe(false)
    expect(net.calls.map(({ verb }) => verb)).toEqual(['acquire'])
  })

  it('lost before its term ends and given back, it need not run out', async () => {
    const { clock, net, client, holder } = setUp()
    const lease = await client().acquire('k', { ttlMs: 10_000, marginMs: 5_000, renew: false })
    await clock.advance(5_000)
    expect(await lease.release()).toEqual({ is: 'lost', reason: 'deadline' })
    await clock.settle()
    expect(net.callsOf('withdraw')).toHaveLength(1)
    expect(await holder('k')).toBeUndefined()
  })
})

describe('a handover that is given up', () => {
  it.each(['aborted', 'closed'])('%s: both claims are withdrawn, and the next waiter asks afresh', async (how) => {
    const world = setUp()
    const { clock, net, client } = world
    const leases = client()
    const lease = await leases.acquire('k', { ttlMs: 60_000 })
    const controller = new AbortController()
    const next = track(leases.acquire('k', { signal: controller.signal, ttlMs: 60_000 }))
    const afterNext = track(leases.acquire('k', { ttlMs: 60_000 }))
    net.next('acquire', { hang: true })
    const released = track(lease.release())
    await clock.settle()
    if (how === 'aborted') controller.abort(new Error('stop'))
    else void leases.close()
    await clock.settle()
    expect(next.is()).toBe('rejected')
    expect(released.value()).toMatchObject({ is: 'unknown' })
    const [, handedOver] = claimsOf(world, 'acquire')
    expect(claimsOf(world, 'withdraw').sort()).toEqual([lease.grant.claim, handedOver].sort())
    await clock.advance(100)
    if (how === 'aborted') {
      expect(afterNext.value().token).toBe(2)
      expect(net.callsOf('acquire').at(-1)?.request.replaces).toBeUndefined()
      await afterNext.value().release()
    } else expect(afterNext.is()).toBe('rejected')
    expect(await holderInTheEnd(world)).toBeUndefined()
  })

  it('by a refused new claim: the old one is passed on with the next', async () => {
    const world = setUp()
    const { clock, memory, net, client } = world
    const leases = client()
    const lease = await leases.acquire('k', { ttlMs: 60_000 })
    const next = track(leases.acquire('k'))
    const acquire = net.acquire
    net.acquire = async (request, call) => {
      net.acquire = acquire
      await memory.withdraw(request.key, request.claim) // somebody ended the new claim before it arrived
      return acquire(request, call)
    }
    void lease.release()
    await clock.advance(5_000)
    expect(next.value().token).toBe(2)
    expect(net.callsOf('acquire').at(-1)?.request.replaces).toBe(lease.grant.claim)
  })
})

describe('a withdrawal', () => {
  const giveUp = async (world: World, keys = ['k']) => {
    const { clock, net, client } = world
    net.hang('acquire')
    const controller = new AbortController()
    const leases = client()
    for (const key of keys) void leases.acquire(key, { signal: controller.signal }).catch(() => {})
    await clock.settle()
    controller.abort()
    return leases
  }

  it('is sent again, ever more slowly, until the store confirms it; each failure is told', async () => {
    const world = setUp()
    const { clock, net, eventsOf } = world
    net.always('withdraw', { fail: new Error('down') })
    await giveUp(world)
    await clock.advance(30_000)
    const tries = net.callsOf('withdraw').length
    expect(tries).toBeGreaterThan(8)
    expect(tries).toBeLessThan(30)
    expect(eventsOf('withdrawal-pending').map(({ attempt }) => attempt)).toEqual(
      Array.from({ length: tries }, (_, i) => i + 1),
    )
    net.heal()
    await clock.advance(10_000)
    expect(net.callsOf('withdraw')).toHaveLength(tries + 1)
    expect(await world.holder('k')).toBeUndefined()
  })

  it('is given up, and that is told, when nothing but one ghost of one ttl can be left', async () => {
    const world = setUp()
    const { clock, net, eventsOf } = world
    net.always('withdraw', { fail: new Error('down') })
    await giveUp(world)
    await clock.advance(120_000)
    expect(eventsOf('withdrawal-failed')).toMatchObject([{ key: 'k', cause: { code: 'STORE_ERROR' } }])
    const tries = net.callsOf('withdraw').length
    await clock.advance(120_000)
    expect(net.callsOf('withdraw')).toHaveLength(tries)
    expect(clock.pending).toBe(0)
  })

  it('that is not answered does not keep the process alive', async () => {
    const world = setUp({ givesUp: false })
    const { clock, net } = world
    net.hang('withdraw')
    await giveUp(world)
    await clock.advance(3_000) // the acquire has run into its time-out, the second withdrawal is on its way
    expect(net.callsOf('withdraw')).toHaveLength(2)
    expect([clock.pending > 0, clock.keepsAlive]).toEqual([true, false])
  })

  it('does not keep the process alive, and a thousand are not sent in one moment', async () => {
    const world = setUp()
    const { clock, net } = world
    net.always('withdraw', { delayAfterMs: 100 })
    await giveUp(
      world,
      Array.from({ length: 100 }, (_, i) => `k${i}`),
    )
    await clock.settle()
    expect(net.callsOf('withdraw')).toHaveLength(16)
    await clock.advance(2_001) // the calls that were given up have run into their time-outs
    expect(net.callsOf('withdraw')).toHaveLength(100)
    net.always('withdraw', { fail: new Error('down') })
    await giveUp(world)
    await clock.advance(2_500)
    expect(clock.pending).toBeGreaterThan(0)
    expect(clock.keepsAlive).toBe(false)
  })
})
