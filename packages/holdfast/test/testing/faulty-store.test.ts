// The faulty store: each fault does to a call what a network would do.
import { describe, expect, it } from 'vitest'
import { memoryStore } from '../../src/stores/memory/index.js'
import { type FaultyStoreOptions, faultyStore, VirtualClock } from '../../src/testing/index.js'

const setUp = (options: Omit<FaultyStoreOptions, 'clock'> = {}) => {
  const clock = new VirtualClock()
  const inner = memoryStore({ clock })
  const store = faultyStore(inner, { clock, ...options })
  const acquire = (claim: string, call = {}) => store.acquire({ key: 'k', claim, holder: claim, ttlMs: 10_000 }, call)
  const holder = async () => (await inner.inspect('k'))?.claim
  return { clock, inner, store, acquire, holder }
}

/** What has become of a promise: tells when asked. */
function track(clock: VirtualClock, promise: Promise<unknown>): () => Promise<unknown> {
  let state: unknown = 'waiting'
  const note = (value: unknown) => {
    state = value
  }
  promise.then(note, note)
  return async () => {
    await clock.settle()
    return state
  }
}

describe('faultyStore', () => {
  it('passes everything through when nothing is ordered', async () => {
    const { store, acquire } = setUp()
    const granted = await acquire('a')
    expect(granted).toMatchObject({ is: 'granted', token: 1 })
    expect(await store.renew([{ key: 'k', claim: 'a', ttlMs: 10_000 }])).toEqual([{ is: 'renewed', ttlMs: 10_000 }])
    expect(await store.inspect('k')).toMatchObject({ claim: 'a' })
    const listed: string[] = []
    for await (const { key } of store.list()) listed.push(key)
    expect(listed).toEqual(['k'])
    expect(await store.revoke('k')).toMatchObject({ claim: 'a' })
    await store.withdraw('k', 'b')
    expect(await store.release({ key: 'k', token: 1, claim: 'a', holder: 'a' })).toEqual({ is: 'released' })
    expect(store.calls.map(({ verb, applied, state }) => [verb, applied, state])).toEqual(
      ['acquire', 'renew', 'inspect', 'list', 'revoke', 'withdraw', 'release'].map((verb) => [verb, 1, 'answered']),
    )
    expect([store.name, store.contract, store.capabilities.fair]).toEqual(['memory', 1, true])
  })

  it('delays the request, and the reply', async () => {
    const { clock, store, acquire, holder } = setUp()
    store.next('acquire', { delayBeforeMs: 100, delayAfterMs: 50 })
    const call = track(clock, acquire('a'))
    await clock.advance(99)
    expect(await holder()).toBeUndefined()
    await clock.advance(1)
    expect(await holder()).toBe('a')
    await clock.advance(49)
    expect(await call()).toBe('waiting')
    await clock.advance(1)
    expect(await call()).toMatchObject({ is: 'granted' })
    expect(clock.pending).toBe(0)
  })

  it('loses the request: nothing is applied, and no answer comes until the time-out or the signal', async () => {
    const { clock, store, acquire, holder } = setUp()
    store.next('acquire', { dropBefore: true }, { dropBefore: true }, { dropBefore: 'error' }, { dropBefore: true })
    const timed = track(clock, acquire('a', { timeoutMs: 200 }))
    await clock.advance(199)
    expect(await timed()).toBe('waiting')
    await clock.advance(1)
    expect(await timed()).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' })
    const controller = new AbortController()
    const aborted = track(clock, acquire('a', { signal: controller.signal, timeoutMs: 200 }))
    const why = new Error('given up')
    controller.abort(why)
    expect(await aborted()).toMatchObject({ outcome: 'unknown', cause: why })
    expect(await track(clock, acquire('a'))()).toMatchObject({ outcome: 'none' })
    expect(await track(clock, acquire('a'))()).toBe('waiting')
    expect(await holder()).toBeUndefined()
    expect(store.callsOf('acquire').map((call) => call.applied)).toEqual([0, 0, 0, 0])
    expect(clock.pending).toBe(0)
  })

  it('loses the reply: it is applied, and the caller does not know', async () => {
    const { clock, store, acquire, holder } = setUp()
    store.next('acquire', { dropAfter: true }, { dropAfter: 'error' })
    const call = track(clock, acquire('a', { timeoutMs: 200 }))
    await clock.advance(200)
    expect(await call()).toMatchObject({ outcome: 'unknown' })
    expect(await holder()).toBe('a')
    await expect(acquire('a')).rejects.toMatchObject({ outcome: 'unknown' })
    expect(await acquire('a')).toMatchObject({ is: 'granted', token: 1 })
  })

  it('lets a request arrive whose caller has given up', async () => {
    const { clock, store, acquire, holder } = setUp()
    store.next('acquire', { delayBeforeMs: 500 })
    const call = track(clock, acquire('a', { timeoutMs: 100 }))
    await clock.advance(100)
    expect(await call()).toMatchObject({ outcome: 'unknown' })
    expect(store.calls[0]).toMatchObject({ state: 'failed', applied: 0 })
    await clock.advance(400)
    expect(await holder()).toBe('a')
    expect(store.calls[0]).toMatchObject({ state: 'failed', applied: 1 })
  })

  it('sends nothing when the signal is aborted already', async () => {
    const { store, acquire, holder } = setUp()
    await expect(acquire('a', { signal: AbortSignal.abort() })).rejects.toMatchObject({ outcome: 'none' })
    expect([await holder(), store.calls[0]?.applied]).toEqual([undefined, 0])
  })

  it('repeats a request, the second copy later', async () => {
    const { clock, inner, store, acquire, holder } = setUp()
    store.next('acquire', { duplicateAfterMs: 300 })
    expect(await acquire('a')).toMatchObject({ is: 'granted' })
    await clock.advance(299)
    await inner.release({ key: 'k', token: 1, claim: 'a', holder: 'a' })
    await inner.acquire({ key: 'k', claim: 'b', holder: 'b', ttlMs: 10_000 })
    await clock.advance(1)
    expect([await holder(), store.calls[0]?.applied]).toEqual(['b', 2])
  })

  it('holds calls up until it heals, and lets them arrive then', async () => {
    const { clock, store, acquire, holder } = setUp()
    store.hang('acquire')
    const call = track(clock, acquire('a'))
    const given = track(clock, acquire('b', { timeoutMs: 10 }))
    expect(await store.inspect('k')).toBeNull()
    await clock.advance(60_000)
    expect(await call()).toBe('waiting')
    expect(await given()).toMatchObject({ outcome: 'unknown' })
    store.heal()
    expect(await call()).toMatchObject({ is: 'granted' })
    expect(await holder()).toBe('a')
    expect(store.callsOf('acquire').map((entry) => entry.applied)).toEqual([1, 1])
    expect(await acquire('c')).toMatchObject({ is: 'held' })
  })

  it('fails with what it is told to', async () => {
    const { store, acquire, holder } = setUp()
    const own = new Error('mine')
    store.always('any', { fail: own })
    await expect(acquire('a')).rejects.toBe(own)
    await expect(store.inspect('k')).rejects.toBe(own)
    store.next('inspect', { fail: own })
    store.heal()
    expect(await store.inspect('k')).toBeNull()
    expect(await holder()).toBeUndefined()
  })

  it('asks the script first, then what stands, then the function', async () => {
    const { store, acquire } = setUp({
      faults: ({ verb, count }) => (verb === 'acquire' && count === 4 ? { fail: new Error('by function') } : undefined),
    })
    store.always('acquire', { fail: new Error('standing') })
    store.next('acquire', {})
    expect(await acquire('a')).toMatchObject({ is: 'granted' })
    await expect(acquire('a')).rejects.toThrow('standing')
    store.heal()
    expect(await acquire('a')).toMatchObject({ is: 'granted' })
    await expect(acquire('a')).rejects.toThrow('by function')
    expect(await acquire('a')).toMatchObject({ is: 'granted' })
  })

  it('passes hints on, or swallows them', async () => {
    const { clock, store, acquire } = setUp()
    const ending = new AbortController()
    let hints = 0
    const watching = (async () => {
      for await (const _ of store.watch?.('k', { claim: 'w', signal: ending.signal }) ?? []) hints++
    })()
    await clock.settle()
    expect(hints).toBe(1)
    store.dropHints = true
    await acquire('a')
    await store.release({ key: 'k', token: 1, claim: 'a', holder: 'a' })
    await clock.settle()
    expect(hints).toBe(1)
    store.heal()
    await acquire('b')
    await store.release({ key: 'k', token: 2, claim: 'b', holder: 'b' })
    await clock.settle()
    expect(hints).toBe(2)
    ending.abort()
    await watching
  })
})
