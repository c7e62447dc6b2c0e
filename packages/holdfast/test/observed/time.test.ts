// The time that a call has, shared by all requests that it takes.
import { expect, it } from 'vitest'
import { StoreError } from '../../src/index.js'
import type { CallOptions } from '../../src/store/contract.js'
import { observedStore } from '../../src/store/observed/store.js'
import { memoryCapabilities } from '../../src/stores/memory/store.js'
import { seededRandom, VirtualClock } from '../../src/testing/index.js'
import { VersionedRegister } from '../../src/testing/versioned-register.js'

/** A store over a register whose writes are applied, and answered by an error after `ms` of the time that they were given. */
function unanswered(ms: (timeoutMs: number) => number) {
  const clock = new VirtualClock()
  const register = new VersionedRegister().connect()
  const times: string[] = []
  const note = (what: string, call?: CallOptions) => times.push(`${what} ${call?.timeoutMs}`)
  let failing = false
  const store = observedStore({
    name: 'register',
    capabilities: { ...memoryCapabilities, clock: 'observed', fair: false, tellsTurns: false, tokenFloor: false },
    records: {
      ...register,
      read(key, call) {
        note('read', call)
        return register.read(key, call)
      },
      async write(key, record, over, kind, call) {
        note('write', call)
        const written = await register.write(key, record, over, kind, call)
        if (!failing) return written
        failing = false
        await new Promise<void>((resolve) => clock.setTimer(ms(call?.timeoutMs ?? 0), resolve))
        throw new StoreError('no answer', { outcome: 'unknown' })
      },
    },
    clock,
    random: seededRandom(1),
  })
  const fail = () => {
    failing = true
    times.length = 0
  }
  return { clock, store, times, fail }
}

const mine = { key: 'k', claim: 'a', holder: 'a', ttlMs: 60_000 }

it('a write that took some of the time is read back within what is left', async () => {
  const { clock, store, times, fail } = unanswered(() => 100)
  await store.acquire(mine)
  fail()
  const renewing = store.renew([mine], { timeoutMs: 300 })
  await clock.advance(100)
  expect(await renewing).toMatchObject([{ is: 'renewed' }])
  expect(times).toEqual(['write 300', 'read 200', 'write 200'])
})

it('a write that took all of it is not read back, also when its timer fired a moment early: the outcome is unknown (G13, C46)', async () => {
  const { clock, store, times, fail } = unanswered((timeoutMs) => timeoutMs - 1)
  await store.acquire(mine)
  fail()
  const renewing = store.renew([mine], { timeoutMs: 300 })
  const refused = expect(renewing).rejects.toMatchObject({ outcome: 'unknown' })
  await clock.advance(300)
  await refused
  expect(times).toEqual(['write 300'])
})
