// Faults of observed expiry that the simulation has found, each as the shortest story that shows it (docs/track-record.md).
import { expect, it } from 'vitest'
import { observedStore } from '../../src/store/observed/store.js'
import { memoryCapabilities } from '../../src/stores/memory/store.js'
import { seededRandom, VirtualClock } from '../../src/testing/index.js'
import { VersionedRegister } from '../../src/testing/versioned-register.js'

const TTL_MS = 1_000

it('a grant that is repeated is a sign of life: others may have seen the first one long before', async () => {
  const clock = new VirtualClock()
  const register = new VersionedRegister()
  const open = () =>
    observedStore({
      name: 'register',
      capabilities: { ...memoryCapabilities, clock: 'observed', fair: false, tellsTurns: false, tokenFloor: false },
      records: register.connect(),
      clock,
      random: seededRandom(1),
    })
  const ask = (claim: string) => ({ key: 'k', claim, holder: claim, ttlMs: TTL_MS })
  await open().acquire(ask('a')) // granted by a reply that its caller never saw
  const other = open()
  expect(await other.acquire(ask('b'))).toMatchObject({ is: 'held' })

  await clock.advance(0.9 * TTL_MS)
  const repeated = await open().acquire(ask('a'))
  expect(repeated).toMatchObject({ is: 'granted', ttlMs: TTL_MS })
  await clock.advance(0.9 * TTL_MS) // the caller of that one believes
  expect(await other.acquire(ask('b'))).toMatchObject({ is: 'held', because: 'held' })
})
