// Signals of the caller: they end waits, reach `lease.signal`, and get one listener per client however many use them (G9).
import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { AbortHub } from '../../src/lease/abort-hub.js'
import { setUp, track, watchSignal } from './world.js'

describe('a signal of the caller', () => {
  it('aborted before the call: nothing is sent, and its own reason comes back', async () => {
    const { net, client } = setUp()
    const leases = client()
    const why = new Error('not today')
    const options = { signal: AbortSignal.abort(why) }
    await expect(leases.acquire('k', options)).rejects.toBe(why)
    await expect(leases.tryAcquire('k', options)).rejects.toBe(why)
    await expect(leases.hold('k', options, () => 1)).rejects.toBe(why)
    await expect(leases.tryHold('k', options, () => 1)).rejects.toBe(why)
    await expect(leases.coalesce('k', options, () => 1)).rejects.toBe(why)
    const grant = { key: 'k', token: 1, claim: 'c', holder: 'h' }
    await expect(leases.adopt(grant, options)).rejects.toBe(why)
    expect(net.calls).toEqual([])
  })

  it('ends a wait without end', async () => {
    const { clock, client } = setUp()
    await client().acquire('k')
    const controller = new AbortController()
    const waiting = track(client().acquire('k', { waitMs: Number.POSITIVE_INFINITY, signal: controller.signal }))
    await clock.advance(3_600_000)
    expect(waiting.is()).toBe('waiting')
    const why = new Error('enough')
    controller.abort(why)
    await clock.settle()
    expect(waiting.error()).toBe(why)
  })

  it('is forwarded to the lease, which stays held until the work gives it back', async () => {
    const { clock, client, holder } = setUp()
    const controller = new AbortController()
    const lease = await client().acquire('k', { signal: controller.signal })
    const seen = watchSignal(lease, clock)
    const why = new Error('stop')
    controller.abort(why)
    expect(seen).toMatchObject({ aborts: 1, reason: why })
    await clock.advance(60_000)
    expect([lease.held, await holder('k')]).toEqual([true, 'process-1'])
    expect(await lease.release()).toEqual({ is: 'released' })
    expect(seen.aborts).toBe(1)
  })

  it('that aborts during an adoption reaches the adopted lease', async () => {
    const { clock, net, client } = setUp()
    const { grant } = await client().acquire('k', { renew: false })
    const controller = new AbortController()
    net.next('renew', { delayAfterMs: 100 })
    const adopting = track(client().adopt(grant, { signal: controller.signal }))
    await clock.advance(50)
    controller.abort(new Error('stop'))
    await clock.advance(50)
    expect(adopting.value().signal.aborted).toBe(true)
  })

  it('gets one listener from 1,000 waiters and holders, and none once they are through', async () => {
    const { clock, client } = setUp()
    const controller = new AbortController()
    const { signal } = controller
    const leases = client()
    const held = await Promise.all([1, 2, 3].map((n) => leases.acquire(`held-${n}`, { signal })))
    const first = await leases.acquire('k', { signal })
    const waiting = Array.from({ length: 1_000 }, () => leases.acquire('k', { signal, waitMs: 1_000 }).catch(() => {}))
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    await clock.advance(2_000)
    await Promise.all(waiting)
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    for (const lease of [first, ...held]) await lease.release()
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })

  it('shared by a whole line of waiters ends them all: nothing more is asked, and nobody is left holding', async () => {
    const { clock, memory, net, client } = setUp()
    await memory.acquire({ key: 'k', claim: 'elsewhere', holder: 'elsewhere', ttlMs: 5_000 })
    const controller = new AbortController()
    const { signal } = controller
    const leases = client()
    const waiting = Array.from({ length: 1_000 }, () => track(leases.acquire('k', { signal, waitMs: 60_000 })))
    await clock.advance(1_500)
    const asked = net.callsOf('acquire').length
    const why = new Error('shutdown')
    controller.abort(why)
    await clock.settle()
    expect(waiting.every(({ is, error }) => is() === 'rejected' && error() === why)).toBe(true)
    await clock.advance(60_000)
    expect(net.callsOf('acquire')).toHaveLength(asked)
    expect((await memory.inspect('k'))?.changes).toBe(1)
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
    expect(clock.keepsAlive).toBe(false)
  })

  it('shared by a holder and its waiters: a holder that gives back at once hands over to nobody', async () => {
    const { clock, memory, client, holder } = setUp()
    const controller = new AbortController()
    const { signal } = controller
    const leases = client()
    const lease = await leases.acquire('k', { signal })
    lease.signal.addEventListener('abort', () => void lease.release())
    const waiting = [1, 2, 3].map(() => track(leases.acquire('k', { signal })))
    controller.abort(new Error('shutdown'))
    await clock.settle()
    expect(waiting.map(({ is }) => is())).toEqual(['rejected', 'rejected', 'rejected'])
    expect(await holder('k')).toBeUndefined()
    expect((await memory.inspect('k'))?.changes).toBe(1)
  })
})

describe('AbortHub', () => {
  const log: string[] = []
  const say = (word: string) => () => void log.push(word)

  it('calls each function once, in the order in which they came', () => {
    const hub = new AbortHub()
    const controller = new AbortController()
    log.length = 0
    hub.on(controller.signal, say('a'))
    hub.on(controller.signal, say('b'))()
    hub.on(controller.signal, say('c'))
    controller.abort()
    expect(log).toEqual(['a', 'c'])
  })

  it('does not call what another function called off in the same abort', () => {
    const hub = new AbortHub()
    const controller = new AbortController()
    log.length = 0
    hub.on(controller.signal, () => off())
    const off = hub.on(controller.signal, say('called off'))
    controller.abort()
    expect(log).toEqual([])
  })

  it('listens once to each signal, and no longer than anybody wants to know', () => {
    const hub = new AbortHub()
    const { signal } = new AbortController()
    const offs = [1, 2, 3].map(() => hub.on(signal, () => {}))
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    for (const off of [...offs, ...offs]) off()
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
    hub.on(signal, () => {})
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
  })
})
