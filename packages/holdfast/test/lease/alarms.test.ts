// The alarms of a client: one heap behind one timer of the platform.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Alarm, Alarms } from '../../src/lease/alarms.js'
import { Timeline } from '../../src/lease/timeline.js'
import { VirtualClock } from '../../src/testing/index.js'

const setUp = () => {
  const clock = new VirtualClock({ monoMs: 0 })
  const errors: unknown[] = []
  const timeline = new Timeline(clock)
  const alarms = new Alarms(clock, timeline, (error) => void errors.push(error))
  return { clock, timeline, alarms, errors }
}

describe('Alarms', () => {
  it('fire in the order of their time, each once, not early, whatever was set anew or cancelled', async () => {
    const operation = fc.record({
      what: fc.constantFrom('set', 'set', 'set', 'reset', 'cancel'),
      which: fc.nat(100),
      atMs: fc.nat(1_000),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 100 }), async (operations) => {
        const { clock, alarms } = setUp()
        const fired: { id: number; atMs: number }[] = []
        const all: Alarm[] = []
        const expected = new Map<number, number>()
        for (const { what, which, atMs } of operations) {
          if (what === 'set') {
            const id = all.length
            all.push(alarms.set(atMs, () => fired.push({ id, atMs: clock.monoMs() })))
            expected.set(id, atMs)
            continue
          }
          const id = which % Math.max(1, all.length)
          const alarm = all[id]
          if (alarm === undefined) continue
          if (what === 'cancel') {
            alarms.cancel(alarm)
            expected.delete(id)
          } else {
            alarms.reset(alarm, atMs)
            expected.set(id, atMs)
          }
        }
        await clock.advance(1_000)
        expect(fired.map(({ atMs }) => atMs)).toEqual([...expected.values()].sort((a, b) => a - b))
        for (const { id, atMs } of fired) expect(atMs).toBe(expected.get(id))
        expect(clock.pending).toBe(0)
      }),
      { numRuns: 50 },
    )
  })

  it('cost one timer of the platform, however many they are', () => {
    const { clock, alarms } = setUp()
    for (let i = 0; i < 1_000; i++) alarms.set(1_000 - i, () => {})
    expect(clock.pending).toBe(1)
  })

  it('keep the process alive as long as one of those that should is set', async () => {
    const { clock, alarms } = setUp()
    alarms.set(1_000, () => {}, false)
    expect([clock.pending, clock.keepsAlive]).toEqual([1, false])
    const one = alarms.set(2_000, () => {})
    const two = alarms.set(500, () => {})
    expect(clock.keepsAlive).toBe(true)
    alarms.cancel(one)
    alarms.cancel(one)
    expect(clock.keepsAlive).toBe(true)
    await clock.advance(500)
    expect(clock.keepsAlive).toBe(false)
    alarms.reset(two, 900)
    expect(clock.keepsAlive).toBe(true)
    alarms.cancel(two)
    alarms.set(3_000, () => {}, false)
    expect(clock.keepsAlive).toBe(false)
    await clock.advance(3_000)
    expect(clock.pending).toBe(0)
  })

  it('go on when one of them throws, and tell of it', async () => {
    const { clock, alarms, errors } = setUp()
    const mine = new Error('mine')
    let fired = 0
    alarms.set(10, () => {
      throw mine
    })
    alarms.set(10, () => fired++)
    alarms.set(20, () => fired++)
    await clock.advance(20)
    expect([errors, fired]).toEqual([[mine], 2])
  })

  it('fire in one turn after a block, those set in it for the same instant too', async () => {
    const { clock, alarms } = setUp()
    const log: string[] = []
    alarms.set(10, () => {
      log.push('a')
      alarms.set(30, () => log.push('c'))
    })
    alarms.set(20, () => log.push('b'))
    clock.block(100)
    await clock.settle()
    expect(log).toEqual(['a', 'b', 'c'])
  })

  it('look at the clocks while somebody wants to, at the pace of the one in the greatest hurry', async () => {
    const { clock, alarms } = setUp()
    let fired = 0
    alarms.set(60_000, () => fired++, false)
    alarms.startLooking(1_000)
    alarms.startLooking(50)
    await clock.advance(100)
    clock.sleep(60_000)
    await clock.advance(50)
    expect(fired).toBe(1)
    alarms.stopLooking()
    alarms.stopLooking()
    await clock.advance(50)
    expect(clock.pending).toBe(0)
  })

  it('set before a sleep that nobody looked at are not late once a new one is set', async () => {
    const { clock, timeline, alarms } = setUp()
    const log: number[] = []
    alarms.set(60_000, () => log.push(1))
    clock.sleep(30_000)
    alarms.set(timeline.now() + 60_000, () => log.push(2))
    await clock.advance(30_000)
    expect(log).toEqual([1])
    await clock.advance(30_000)
    expect(log).toEqual([1, 2])
  })
})
