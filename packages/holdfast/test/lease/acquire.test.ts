// The verbs: what acquire, tryAcquire, hold and tryHold answer, and that a release never hides the work (G10, G13).
import { describe, expect, it } from 'vitest'
import { LeaseHeldError, LeaseLostError, type LeaseStore, type Released, StoreError } from '../../src/index.js'
import { gate, setUp, track, watchSignal } from './world.js'

describe('acquire and tryAcquire', () => {
  it('give a lease: its key as asked, the full name in its grant, a token that rises at each change of hands', async () => {
    const { client } = setUp()
    const leases = client({ prefix: 'billing/', holder: 'me' })
    const lease = await leases.acquire('invoice:42')
    expect(lease).toMatchObject({ key: 'invoice:42', token: 1, held: true, remainingMs: 27_000 })
    expect(lease.grant).toEqual({ key: 'billing/invoice:42', token: 1, claim: expect.any(String), holder: 'me' })
    expect(JSON.parse(JSON.stringify(lease.grant))).toEqual(lease.grant)
    expect(await lease.release()).toEqual({ is: 'released' })
    expect([lease.held, lease.remainingMs, lease.signal.aborted]).toEqual([false, 0, true])
    expect(lease.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'released' })
    expect((await leases.acquire('invoice:42')).token).toBe(2)
  })

  it('make a new claim for every acquisition', async () => {
    const { net, client } = setUp()
    const leases = client()
    for (let i = 0; i < 3; i++) await (await leases.acquire('k')).release()
    await leases.acquire('other')
    const claims = net.callsOf('acquire').map(({ request }) => request.claim)
    expect(new Set(claims).size).toBe(4)
  })

  it('tryAcquire gives null when another process holds it, after one attempt and without waiting', async () => {
    const { clock, net, client } = setUp()
    await client().acquire('k')
    expect(await client().tryAcquire('k')).toBeNull()
    expect(net.callsOf('acquire')).toHaveLength(2)
    expect(clock.monoMs()).toBe(1_000)
  })

  it('acquire rejects with the holder, what is left and how long it waited', async () => {
    const { clock, client } = setUp()
    await client({ holder: 'worker-7' }).acquire('k', { ttlMs: 60_000 })
    const waiting = track(client().acquire('k', { waitMs: 3_000 }))
    await clock.advanceUntil(() => waiting.is() !== 'waiting')
    expect(clock.monoMs()).toBe(4_000)
    expect(waiting.error()).toBeInstanceOf(LeaseHeldError)
    expect(waiting.error()).toMatchObject({ key: 'k', holder: 'worker-7', waitedMs: 3_000 })
    const { remainingMs } = waiting.error() as LeaseHeldError
    expect(remainingMs).toBeGreaterThan(50_000)
    expect((waiting.error() as Error).message).toMatch(/"k" is held by worker-7 after 3000 ms of waiting/)
  })

  it('an outage is a StoreError, never an answer that another holds it', async () => {
    const { clock, net, client } = setUp()
    net.always('acquire', { fail: new Error('connection refused') })
    const leases = client()
    const tried = track(leases.tryAcquire('k'))
    const waited = track(leases.acquire('k2', { waitMs: 2_000 }))
    await clock.advanceUntil(() => waited.is() !== 'waiting' && tried.is() !== 'waiting')
    for (const { error } of [tried, waited]) {
      expect(error()).toBeInstanceOf(StoreError)
      expect(error()).toMatchObject({ code: 'STORE_ERROR', cause: { message: 'connection refused' } })
    }
  })

  it('a store that hangs does not hang its caller', async () => {
    const { clock, net, client } = setUp({ givesUp: false })
    net.hang()
    const tried = track(client().tryAcquire('k', { callTimeoutMs: 500 }))
    await clock.advanceUntil(() => tried.is() !== 'waiting')
    expect(tried.error()).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' })
    expect(clock.monoMs()).toBe(2_000) // one attempt, and once more at once for the lost reply
  })

  it.each([
    ['its reply was lost', { dropAfter: 'error' }, 'held'],
    ['the request was lost, without a word', { dropBefore: true }, 'free'],
  ] as const)('once %s, no repeat that certainly did nothing makes it certain (G13)', async (_, fault, state) => {
    const { clock, memory, net, client } = setUp()
    net.next('acquire', fault, ...Array(20).fill({ dropBefore: 'error' }))
    const tried = track(client().tryAcquire('k', { callTimeoutMs: 500 }))
    const waited = track(client().acquire('k', { waitMs: 2_000 }))
    net.next('withdraw', { dropBefore: 'error' })
    await clock.advanceUntil(() => tried.is() !== 'waiting')
    expect(tried.error()).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown', cause: { outcome: 'none' } })
    expect((await memory.inspect('k'))?.state ?? 'free').toBe(state)
    await clock.advanceUntil(() => waited.is() !== 'waiting')
    expect(waited.error()).toMatchObject({ code: 'STORE_ERROR', outcome: 'none' }) // another claim, of which nothing is in doubt
  })

  it('a lost reply stays in doubt for as long as the caller waits (G13)', async () => {
    const { clock, net, client } = setUp()
    net.next('acquire', { dropAfter: 'error' }, ...Array(20).fill({ dropBefore: 'error' }))
    const waited = track(client().acquire('k', { waitMs: 2_000 }))
    await clock.advanceUntil(() => waited.is() !== 'waiting')
    expect(net.callsOf('acquire').length).toBeGreaterThan(3)
    expect(waited.error()).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' })
  })

  it('trouble that lasts ends the wait at once also after a lost reply, and says both (G13)', async () => {
    const { clock, net, client } = setUp()
    const lasting = new StoreError('a right is missing', { outcome: 'none', lasting: true })
    net.next('acquire', { dropAfter: 'error' }, { fail: lasting })
    const waited = track(client().acquire('k', { waitMs: 60_000 }))
    await clock.settle()
    expect(waited.error()).toMatchObject({ outcome: 'unknown', lasting: true, cause: { outcome: 'none' } })
  })

  it('a grant that is heard of too late is no certain refusal (G13)', async () => {
    const { clock, net, client } = setUp({ givesUp: false })
    net.next('acquire', { delayAfterMs: 600 }, { delayBeforeMs: 300, dropBefore: 'error' })
    const tried = track(client().tryAcquire('k', { callTimeoutMs: 500 }))
    await clock.advanceUntil(() => tried.is() !== 'waiting')
    expect(tried.error()).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' })
  })

  it('a grant that comes after its own deadline is no certain refusal, and is not asked for again in the same attempt (G13)', async () => {
    const { clock, net, client } = setUp({ givesUp: false })
    net.always('acquire', { delayAfterMs: 950 })
    const tried = track(client().tryAcquire('k', { ttlMs: 1_000, marginMs: 100, callTimeoutMs: 2_000, renew: false }))
    await clock.advanceUntil(() => tried.is() !== 'waiting')
    expect(tried.error()).toMatchObject({
      code: 'STORE_ERROR',
      outcome: 'unknown',
      message: expect.stringContaining('too late to be of use'),
    })
    expect(net.callsOf('acquire')).toHaveLength(1)
    expect(net.callsOf('withdraw')).toHaveLength(1)
  })

  it('a token that is no safe integer is refused, never rounded, and the claim is withdrawn', async () => {
    const { clock, memory, net, client } = setUp()
    const leases = client({
      store: { ...net, acquire: async (request) => ({ ...(await memory.acquire(request)), token: 2 ** 53 }) as never },
    })
    const tried = track(leases.tryAcquire('k'))
    await clock.settle()
    expect(tried.error()).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' }) // it was granted
    expect(net.callsOf('withdraw')).toHaveLength(1)
    expect((await memory.inspect('k'))?.state).toBe('free')
  })

  it('meta is shown by inspect, as it was when the lease was asked for', async () => {
    const { memory, client } = setUp()
    const meta = { job: 'nightly', parts: [1, 2] }
    const asked = client().acquire('k', { meta })
    meta.job = 'changed'
    await asked
    expect((await memory.inspect('k'))?.meta).toEqual({ job: 'nightly', parts: [1, 2] })
  })
})

describe('release', () => {
  it('is one call however often it is asked for, and ends with the same answer', async () => {
    const { net, client } = setUp()
    const lease = await client().acquire('k')
    const answers = await Promise.all([lease.release(), lease.release(), lease[Symbol.asyncDispose]()])
    expect(answers[0]).toBe(answers[1])
    expect(await lease.release()).toBe(answers[0])
    expect(net.callsOf('release')).toHaveLength(1)
  })

  it('asked for again by its own abort listener is still one release', async () => {
    const { clock, net, client, holder } = setUp()
    const leases = client()
    const lease = await leases.acquire('k')
    const inner: Promise<Released>[] = []
    lease.signal.addEventListener('abort', () => void inner.push(lease.release()))
    const outer = lease.release()
    expect(await inner[0]).toBe(await outer)
    expect(net.callsOf('release')).toHaveLength(1)
    expect(await holder('k')).toBeUndefined()
    // The look at the clocks still works for the leases that follow.
    const seen = watchSignal(await leases.acquire('k2', { ttlMs: 30_000 }), clock)
    clock.sleep(60_000)
    await clock.advance(250)
    expect(seen.aborts).toBe(1)
  })

  it('asked for again by its own abort listener hands over once, and nobody waits for ever', async () => {
    const { clock, net, client } = setUp()
    const leases = client()
    const lease = await leases.acquire('k')
    const [first, second] = [track(leases.acquire('k')), track(leases.acquire('k'))]
    lease.signal.addEventListener('abort', () => void lease.release())
    await lease.release()
    await clock.settle()
    expect([first.is(), second.is()]).toEqual(['resolved', 'waiting'])
    await first.value().release()
    await clock.settle()
    expect(second.is()).toBe('resolved')
    expect(net.callsOf('acquire')).toHaveLength(3)
  })

  it('is bounded in time, never rejects, and the key is free after the ttl at the latest', async () => {
    const { clock, net, client, holder } = setUp()
    const lease = await client().acquire('k', { ttlMs: 10_000 })
    net.hang()
    const released = track(lease.release())
    await clock.advanceUntil(() => released.is() !== 'waiting')
    expect(clock.monoMs()).toBeLessThanOrEqual(1_000 + 1_250)
    expect(released.value()).toMatchObject({ is: 'unknown', cause: { code: 'STORE_ERROR' } })
    await clock.advance(10_000)
    expect(await holder('k')).toBeUndefined()
    expect(net.callsOf('renew')).toEqual([])
  })

  it('that was not confirmed goes on in the background: the key need not wait for its ttl', async () => {
    const { clock, net, client, holder } = setUp()
    const lease = await client().acquire('k', { ttlMs: 60_000 })
    net.next('release', { dropBefore: 'error' })
    expect(await lease.release()).toMatchObject({ is: 'unknown' })
    await clock.advance(100)
    expect(await holder('k')).toBeUndefined()
  })

  it('tells when the store had ended the lease meanwhile', async () => {
    const { client, net } = setUp()
    const store: LeaseStore = { ...net, release: async () => ({ is: 'lost', reason: 'taken' }) }
    const lease = await client({ store }).acquire('k')
    expect(await lease.release()).toEqual({ is: 'lost', reason: 'taken' })
  })
})

describe('hold', () => {
  it('runs the work under the lease, gives its value and then the lease back', async () => {
    const { client, holder } = setUp()
    const leases = client()
    const value = await leases.hold('k', { ttlMs: 5_000 }, async (lease) => {
      expect([lease.held, await holder('k')]).toEqual([true, 'process-1'])
      return 42
    })
    expect([value, await holder('k')]).toEqual([42, undefined])
    expect(await leases.hold('k', () => 'no options, no promise')).toBe('no options, no promise')
  })

  it('the very error of the work comes through, thrown or rejected, also when the release fails', async () => {
    const { clock, net, client, eventsOf } = setUp()
    const leases = client()
    const mine = new Error('mine')
    await expect(leases.hold('k', () => Promise.reject(mine))).rejects.toBe(mine)
    const sync = () => {
      throw mine
    }
    await expect(leases.hold('k', sync)).rejects.toBe(mine)
    net.always('release', { fail: new Error('down') })
    net.always('withdraw', { fail: new Error('down') })
    await expect(leases.hold('k', () => Promise.reject(mine))).rejects.toBe(mine)
    expect(await leases.hold('k2', () => 7)).toBe(7)
    expect(eventsOf('release-failed')).toHaveLength(2)
    net.heal()
    await clock.advance(10_000)
  })

  it.each(['returned', 'threw'])(
    'a loss rejects with LeaseLostError, and what the work %s is in its outcome',
    async (how) => {
      const mine = new RangeError('mine')
      const outcome = how === 'returned' ? { is: 'returned', value: 42 } : { is: 'threw', error: mine }
      const { clock, client } = setUp()
      const work = gate()
      const held = track(
        client().hold('k', { ttlMs: 1_000, renew: false }, async () => {
          await work.promise
          if (how === 'threw') throw mine
          return 42
        }),
      )
      await clock.advance(2_000)
      expect(held.is()).toBe('waiting') // the work is waited for, lost or not
      work.open()
      await clock.settle()
      expect(held.error()).toBeInstanceOf(LeaseLostError)
      expect(held.error()).toMatchObject({ reason: 'deadline', key: 'k', token: 1, outcome })
    },
  )

  it("work that ends with its signal's reason rejects with that very loss, and no outcome", async () => {
    const { clock, client } = setUp()
    let reason: unknown
    const held = track(
      client().hold('k', { ttlMs: 1_000, renew: false }, async ({ signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        reason = signal.reason
        throw reason
      }),
    )
    await clock.advance(2_000)
    expect(held.error()).toBe(reason)
    expect(held.error()).toMatchObject({ reason: 'deadline', outcome: undefined })
  })

  it('a loss that only the answer of the release tells of rejects too, with the value', async () => {
    const { client, net } = setUp()
    const store: LeaseStore = { ...net, release: async () => ({ is: 'lost', reason: 'taken' }) }
    await expect(client({ store }).hold('k', () => 'done')).rejects.toMatchObject({
      code: 'LEASE_LOST',
      reason: 'taken',
      outcome: { is: 'returned', value: 'done' },
    })
  })

  it('does not run the work without the lease', async () => {
    const { clock, client } = setUp()
    await client().acquire('k')
    let ran = 0
    const held = track(client().hold('k', { waitMs: 100 }, () => ran++))
    await clock.advance(200)
    expect(held.error()).toBeInstanceOf(LeaseHeldError)
    expect(ran).toBe(0)
  })
})

describe('tryHold', () => {
  it('runs the work if the lease is free, and says who holds it if not', async () => {
    const { client } = setUp()
    const leases = client()
    expect(await leases.tryHold('k', () => 42)).toEqual({ held: true, value: 42 })
    expect(await leases.tryHold('k', () => undefined)).toEqual({ held: true, value: undefined })
    await client({ holder: 'worker-7' }).acquire('k', { ttlMs: 20_000 })
    let ran = 0
    const skipped = await leases.tryHold('k', { ttlMs: 5_000 }, () => ran++)
    expect(skipped).toEqual({ held: false, by: 'worker-7', remainingMs: 20_000 })
    expect(ran).toBe(0)
  })

  it('rejects as hold does: the very error of the work, and the loss with its outcome', async () => {
    const { clock, client } = setUp()
    const leases = client()
    const mine = new Error('mine')
    await expect(leases.tryHold('k', () => Promise.reject(mine))).rejects.toBe(mine)
    const lost = leases.tryHold('k', { ttlMs: 1_000, renew: false }, () => {
      clock.block(1_000)
      return 1
    })
    await expect(lost).rejects.toMatchObject({ reason: 'deadline', outcome: { is: 'returned', value: 1 } })
  })
})
