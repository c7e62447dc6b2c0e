// adopt: a lease goes on in another handle, or another process, from its grant alone.
import { describe, expect, it } from 'vitest'
import { LeaseLostError, StoreError } from '../../src/index.js'
import { setUp, track, watchSignal } from './world.js'

describe('adopt', () => {
  it('takes over from a grant that travelled as text: same key, token and claim, renewed from now on', async () => {
    const { clock, net, client, holder } = setUp()
    const given = await client({ prefix: 'p/' }).acquire('k', { ttlMs: 2_000, renew: false })
    await clock.advance(1_000)
    const lease = await client({ prefix: 'p/' }).adopt(JSON.parse(JSON.stringify(given.grant)), { ttlMs: 2_000 })
    expect(lease).toMatchObject({ key: 'k', token: given.token, held: true, remainingMs: 1_800 })
    expect(lease.grant).toEqual(given.grant)
    await clock.advance(20_000)
    expect([given.held, lease.held]).toEqual([false, true])
    expect(await lease.release()).toEqual({ is: 'released' })
    expect(await holder('p/k')).toBeUndefined()
    expect(net.callsOf('release')).toHaveLength(1)
  })

  it('after detach the first handle does nothing more: not at its deadline with a renewal on its way, not at its release (G5)', async () => {
    const { clock, net, client, holder } = setUp()
    const given = await client().acquire('k', { ttlMs: 2_000, waitMs: 0 })
    net.hang('renew')
    await clock.advance(1_100)
    expect(net.callsOf('renew').length).toBeGreaterThan(0)
    const grant = given.detach()
    net.heal()
    const lease = await client().adopt(grant, { ttlMs: 2_000 })
    await clock.advance(20_000)
    expect([given.held, given.signal.aborted, lease.held, await holder('k')]).toEqual([false, true, true, 'process-1'])
    expect(await given.release()).toEqual({ is: 'released' })
    await clock.advance(20_000)
    expect([lease.held, net.callsOf('withdraw').length, net.callsOf('release').length]).toEqual([true, 0, 0])
    expect(() => given.detach()).toThrow(LeaseLostError)
  })

  it('counts the deadline from the send of its renewal', async () => {
    const { clock, net, client } = setUp()
    const { grant } = await client().acquire('k', { ttlMs: 2_000, renew: false })
    net.next('renew', { delayAfterMs: 200 })
    const lease = await clock.advanceUntil(client().adopt(grant, { ttlMs: 2_000 }))
    expect(lease.remainingMs).toBe(1_600)
  })

  it('rejects when the lease no longer holds, and says why', async () => {
    const { clock, client } = setUp()
    const leases = client()
    const released = await leases.acquire('a')
    await released.release()
    await expect(leases.adopt(released.grant)).rejects.toMatchObject({ code: 'LEASE_LOST', reason: 'released' })
    const { grant } = await leases.acquire('b', { ttlMs: 1_000, renew: false })
    await clock.advance(1_000)
    await expect(client().adopt(grant)).rejects.toMatchObject({ code: 'LEASE_LOST', reason: 'expired' })
    await client().acquire('b')
    await expect(client().adopt(grant)).rejects.toBeInstanceOf(LeaseLostError)
  })

  it('rejects with StoreError when the store does not answer, and ends nothing that is not its own', async () => {
    const { clock, net, client, holder } = setUp()
    const { grant } = await client().acquire('k')
    net.next('renew', { dropBefore: true })
    const adopting = track(client().adopt(grant))
    await clock.advance(2_000)
    expect(adopting.error()).toBeInstanceOf(StoreError)
    await clock.advance(60_000)
    expect([net.callsOf('withdraw').length, await holder('k')]).toEqual([0, 'process-1'])
  })

  it('an answer that is over before it comes gives no lease', async () => {
    const { clock, net, client } = setUp({ givesUp: false })
    const { grant } = await client().acquire('k', { ttlMs: 60_000 })
    net.next('renew', { delayAfterMs: 950 })
    const adopting = track(client().adopt(grant, { ttlMs: 1_000, marginMs: 100, renew: false, callTimeoutMs: 2_000 }))
    await clock.advance(950)
    expect(adopting.error()).toMatchObject({ code: 'LEASE_LOST', reason: 'deadline' })
  })

  it('a lost one is told like any other', async () => {
    const { clock, memory, client } = setUp()
    const { grant } = await client().acquire('k', { renew: false })
    const lease = await client().adopt(grant, { ttlMs: 10_000 })
    const seen = watchSignal(lease, clock)
    await memory.revoke('k')
    await clock.advance(5_000)
    expect(seen).toMatchObject({ aborts: 1, reason: { reason: 'revoked' } })
  })

  it.each([
    ['grant', null],
    ['grant', 'k'],
    ['grant.key', { key: 5, token: 1, claim: 'c', holder: 'h' }],
    ['grant.key', { key: 'elsewhere', token: 1, claim: 'c', holder: 'h' }],
    ['grant.key', { key: 'p/', token: 1, claim: 'c', holder: 'h' }],
    ['grant.token', { key: 'p/k', token: 1.5, claim: 'c', holder: 'h' }],
    ['grant.token', { key: 'p/k', token: '1', claim: 'c', holder: 'h' }],
    ['grant.claim', { key: 'p/k', token: 1, claim: '', holder: 'h' }],
    ['holder', { key: 'p/k', token: 1, claim: 'c', holder: 7 }],
  ])('refuses a bad %s before anything is sent', async (option, grant) => {
    const { net, client } = setUp()
    const adopting = client({ prefix: 'p/' }).adopt(grant as never)
    await expect(adopting).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option })
    expect(net.calls).toEqual([])
  })
})
