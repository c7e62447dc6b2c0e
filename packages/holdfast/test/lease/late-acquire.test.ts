// What the model check found (docs/track-record.md): a release must know of an open acquire before it is sent. Between its send
// and its answer the acquire may arrive, be granted anew since the term has run out, and be answered.
import { describe, expect, it } from 'vitest'
import { setUp } from './world.js'

describe('a release with an acquire of its claim still on its way', () => {
  it('withdraws the claim also when that acquire is answered before the release is (G6)', async () => {
    const { clock, net, client } = setUp({ givesUp: false })
    const options = { ttlMs: 10_000, marginMs: 100, callTimeoutMs: 3_000, renew: false }
    net.next('acquire', { delayBeforeMs: 13_500 }) // asked at 0 s, given up at 3 s, arrives when the term is over
    const lease = await clock.advanceUntil(client().acquire('k', options))
    await clock.advance(9_850)
    expect(lease.held).toBe(true) // until 12.9 s; the store keeps the key until 13 s
    net.next('release', { delayBeforeMs: 500, delayAfterMs: 500 })
    expect(await clock.advanceUntil(lease.release())).toEqual({ is: 'lost', reason: 'expired' })
    const [late] = net.callsOf('acquire')
    expect(late).toMatchObject({ applied: 1 })
    await clock.advance(100)
    expect(await net.inspect('k')).toMatchObject({ state: 'free', token: 2 })
    expect(net.callsOf('withdraw')).toHaveLength(1)
  })
})
