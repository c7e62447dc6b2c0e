// A turn that is told with its token is a grant (ADR 0025): the waiter holds at once, with a short term that counts from its last
// question, and renews soon. Whatever speaks against it makes the message a hint like any other.
import { describe, expect, it } from 'vitest'
import type { AcquireOptions } from '../../src/index.js'
import { gate, setUp, track, type World } from './world.js'

const TTL_MS = 30_000

/** A holder, and a waiter of another process that has just been refused. */
async function waiting(world: World, options: AcquireOptions = {}) {
  const { clock, net, client } = world
  const holder = await clock.advanceUntil(client({ ttlMs: TTL_MS }).acquire('k'))
  const wait = track(client({ ttlMs: TTL_MS }).acquire('k', options))
  await clock.advance(1)
  return { ...world, holder, wait, asked: (verb: 'acquire' | 'renew') => net.callsOf(verb).length }
}

/** Messages to waiters are on their way until they are let arrive. */
function delayMessages({ net }: World): () => void {
  const { watch } = net
  const { promise, open } = gate()
  net.watch = async function* (key, options) {
    for await (const turn of watch?.call(net, key, options) ?? []) {
      await promise
      yield turn ?? undefined
    }
  }
  return open
}

describe('a turn that is told', () => {
  it('is held at once, with no further question, for a short term that a renewal makes full (G5)', async () => {
    const { clock, holder, asked, wait } = await waiting(setUp())
    const before = asked('acquire')
    await clock.advance(100)
    await holder.release()
    await clock.advance(1)
    const lease = wait.value()
    expect(asked('acquire')).toBe(before)
    expect(lease.token).toBeGreaterThan(holder.token)
    // One poll of 1,500 ms, a tenth of it the margin, since the question about 101 ms ago.
    expect(lease.remainingMs).toBeGreaterThan(1_200)
    expect(lease.remainingMs).toBeLessThanOrEqual(1_500 - 150 - 100)
    await clock.advance(600)
    expect(asked('renew')).toBe(1)
    expect(lease.remainingMs).toBeGreaterThan(TTL_MS / 2)
    expect(await lease.release()).toEqual({ is: 'released' })
  })

  it('is given back without having been renewed, and a third gets in', async () => {
    const { clock, client, holder: first, wait, memory } = await waiting(setUp())
    const third = track(client({ ttlMs: TTL_MS }).acquire('k'))
    await clock.advance(1)
    await first.release()
    await clock.advance(1)
    const second = wait.value()
    expect(await second.release()).toEqual({ is: 'released' })
    await clock.advance(1)
    expect([first.token, second.token, third.value().token]).toEqual([1, 2, 3])
    expect((await memory.inspect('k'))?.claim).toBe(third.value().grant.claim)
  })

  it.each([
    ['the last question was some time ago', {}, 600],
    ['the caller renews by itself, and counts on its ttl', { renew: false }, 10],
    ['it has meta to be shown', { meta: { for: 'people' } }, 10],
  ])('is a hint where %s', async (_, options, agoMs) => {
    const { clock, holder, asked, wait } = await waiting(setUp(), options)
    await clock.advance(agoMs)
    const before = asked('acquire')
    await holder.release()
    await clock.advance(1)
    expect(asked('acquire')).toBe(before + 1)
    expect(wait.value().remainingMs).toBeGreaterThan(TTL_MS / 2)
  })

  it('is a hint when it is older than the last refusal', async () => {
    const world = setUp()
    const arrive = delayMessages(world)
    const { clock, memory, net, holder, wait, asked } = await waiting(world)
    net.always('acquire', { dropBefore: true })
    await holder.release() // its message is on its way while the turn passes, and another takes the lease
    await clock.advance(1_600)
    expect((await memory.acquire({ key: 'k', claim: 'x', holder: 'x', ttlMs: TTL_MS })).is).toBe('granted')
    net.heal()
    const before = asked('acquire')
    await clock.advanceUntil(() => asked('acquire') > before)
    await clock.advance(1)
    arrive()
    await clock.advance(50)
    expect(wait.is()).toBe('waiting')
  })

  it('is withdrawn when its waiter has given up', async () => {
    const world = setUp()
    const arrive = delayMessages(world)
    const giveUp = new AbortController()
    const { clock, holder, wait, memory } = await waiting(world, { signal: giveUp.signal })
    await holder.release()
    expect((await memory.inspect('k'))?.state).toBe('held')
    giveUp.abort(new Error('enough'))
    arrive()
    await clock.advance(50)
    expect(wait.is()).toBe('rejected')
    expect((await memory.inspect('k'))?.state).toBe('free')
  })

  it('outlives the loss of its first renewal: that one has a time-out which leaves time for others', async () => {
    const { clock, holder, net, wait, asked } = await waiting(setUp())
    await holder.release()
    await clock.advance(1)
    const lease = wait.value()
    net.next('renew', { hang: true })
    await clock.advance(1_400)
    expect(asked('renew')).toBe(2)
    expect(lease.held).toBe(true)
    expect(lease.remainingMs).toBeGreaterThan(TTL_MS / 2)
  })
})

describe('the first renewals of turns that were told within a few ms', () => {
  const keys = Array.from({ length: 40 }, (_, n) => `k${n}`)

  /** Each key is held by one process and told to another, one a ms. */
  async function told(world: World) {
    const { clock, client, net } = world
    const [holders, waiters] = [client({ ttlMs: TTL_MS }), client({ ttlMs: TTL_MS })]
    const held = await clock.advanceUntil(Promise.all(keys.map((key) => holders.acquire(key))))
    const waits = keys.map((key) => track(waiters.acquire(key)))
    await clock.advance(1)
    for (const lease of held) {
      void lease.release()
      await clock.advance(1)
    }
    const sizes = () => net.callsOf('renew').map(({ request }) => (request as readonly unknown[]).length)
    return { waiters, leases: waits.map((wait) => wait.value()), sizes }
  }

  it('share a few calls, and all terms become full', async () => {
    const world = setUp()
    const { leases, sizes } = await told(world)
    await world.clock.advance(600)
    expect(sizes().reduce((sum, size) => sum + size, 0)).toBe(keys.length)
    expect(sizes().length).toBeLessThanOrEqual(2) // the ticks of 50 ms in which 40 turns were told
    for (const lease of leases) expect(lease.remainingMs).toBeGreaterThan(TTL_MS / 2)
  })

  it('share a call with one of a full term, and give up before it does', async () => {
    const world = setUp({ givesUp: false })
    const { clock, net } = world
    const { leases, waiters, sizes } = await told(world)
    const [short] = leases
    const long = await clock.advanceUntil(waiters.acquire('long'))
    net.next('renew', { delayAfterMs: 1_000 })
    const [shortly, patiently] = [track(short?.renew() ?? Promise.reject()), track(long.renew())]
    await clock.advance(1)
    expect(sizes()).toEqual([2])
    await clock.advance(449) // a third of its short term
    expect([shortly.error(), patiently.is()]).toMatchObject([{ code: 'STORE_ERROR', outcome: 'unknown' }, 'waiting'])
    await clock.advance(100)
    expect(short?.remainingMs).toBeGreaterThan(TTL_MS / 2) // by another try
    await clock.advance(500)
    expect([patiently.is(), long.held, short?.held]).toEqual(['resolved', true, true])
    expect(await short?.release()).toEqual({ is: 'released' })
  })
})
