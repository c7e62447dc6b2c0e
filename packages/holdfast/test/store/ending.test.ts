// Watches end with their own signal and with the store, and leave nothing behind in a signal that lives on.
import { expect, it } from 'vitest'
import { observedStore } from '../../src/store/observed/store.js'
import { type MemoryStore, memoryCapabilities, memoryStore } from '../../src/stores/memory/index.js'
import { quorumStore } from '../../src/stores/quorum/index.js'
import { seededRandom, VirtualClock } from '../../src/testing/index.js'
import { VersionedRegister } from '../../src/testing/versioned-register.js'
import { waitingFor } from './signals.js'

const clock = new VirtualClock()
const memory = (): MemoryStore => memoryStore({ clock })
const stores = {
  observed: () =>
    observedStore({
      name: 'register',
      capabilities: { ...memoryCapabilities, clock: 'observed', fair: false, tellsTurns: false, tokenFloor: false },
      records: new VersionedRegister().connect(),
      clock,
      random: seededRandom(1),
    }),
  quorum: () => quorumStore([memory(), memory(), memory()], { clock }),
}

it('what counts them sees both kinds', () => {
  const { signal } = new AbortController()
  AbortSignal.any([signal, new AbortController().signal])
  signal.addEventListener('abort', () => {})
  expect(waitingFor(signal)).toBe(2)
})

it.each(Object.entries(stores))('%s: a watch that is left leaves nothing in its signal', async (_, open) => {
  const store = open()
  const { signal } = new AbortController()
  for (let i = 0; i < 10; i++) {
    // The key is free: there is a hint at once, or none at all.
    await store.acquire({ key: 'k', claim: `holder ${i}`, holder: 'h', ttlMs: 1_000 })
    const watching = store.watch?.('k', { claim: `waiter ${i}`, signal })[Symbol.asyncIterator]()
    const next = watching?.next()
    await store.withdraw('k', `holder ${i}`)
    await clock.advance(100)
    expect(await next).toMatchObject({ done: false })
    await watching?.return?.()
  }
  expect(waitingFor(signal)).toBe(0)
  await store.close()
})

it.each(Object.entries(stores))('%s: a watch ends with its signal, and with the store', async (_, open) => {
  for (const how of ['signal', 'store']) {
    const store = open()
    await store.acquire({ key: 'k', claim: 'holder', holder: 'h', ttlMs: 100_000 })
    const ending = new AbortController()
    const watching = (async () => {
      for await (const _ of store.watch?.('k', { claim: 'waiter', signal: ending.signal }) ?? []);
    })()
    await clock.advance(100)
    if (how === 'signal') ending.abort()
    else await store.close()
    await clock.advance(100)
    await watching
    expect(waitingFor(ending.signal)).toBe(0)
    await store.close()
  }
})
