// The timeline of a client: the greater advance of two clocks, never falling (G5).
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Timeline } from '../../src/lease/timeline.js'
import { VirtualClock } from '../../src/testing/index.js'

describe('Timeline', () => {
  it('goes with the clocks where they agree', async () => {
    const clock = new VirtualClock()
    const timeline = new Timeline(clock)
    const startMs = timeline.now()
    await clock.advance(5_000)
    expect([timeline.now() - startMs, timeline.skippedMs]).toEqual([5_000, 0])
  })

  it('counts sleep, of which the monotonic clock knows nothing', () => {
    const clock = new VirtualClock()
    const timeline = new Timeline(clock)
    const startMs = timeline.now()
    clock.sleep(60_000)
    expect([timeline.now() - startMs, timeline.skippedMs]).toEqual([60_000, 60_000])
  })

  it('goes by the monotonic clock where the wall clock was set back, and counts sleep from there', async () => {
    const clock = new VirtualClock()
    const timeline = new Timeline(clock)
    const startMs = timeline.now()
    clock.stepWall(-3_600_000)
    await clock.advance(1_000)
    expect(timeline.now() - startMs).toBe(1_000)
    clock.sleep(60_000)
    expect(timeline.now() - startMs).toBe(61_000)
  })

  it('takes a wall clock in whole ms for what it is, for years', async () => {
    const clock = new VirtualClock({ monoMs: 0.7 })
    const whole = { ...clock, monoMs: () => clock.monoMs(), wallMs: () => Math.floor(clock.wallMs()) }
    const timeline = new Timeline({ ...whole, setTimer: () => ({ cancel() {}, keepAlive() {} }) })
    const startMs = timeline.now()
    for (let i = 0; i < 10_000; i++) {
      clock.block(0.37)
      timeline.now()
    }
    expect(timeline.now() - startMs).toBeCloseTo(3_700, 3)
  })

  it('takes a pause between its two readings for a pause, not for a step', () => {
    let monoMs = 0
    let wallMs = 1_000
    let pauseMs = 0
    const clock = {
      monoMs: () => {
        const read = monoMs
        monoMs += pauseMs
        wallMs += pauseMs
        pauseMs = 0
        return read
      },
      wallMs: () => wallMs,
      setTimer: () => ({ cancel() {}, keepAlive() {} }),
    }
    const timeline = new Timeline(clock)
    pauseMs = 500
    expect([timeline.now(), timeline.skippedMs]).toEqual([500, 0])
  })

  it('never falls, and is never behind either clock since it last was asked', () => {
    const step = fc.tuple(fc.constantFrom('advance', 'sleep', 'stepWall'), fc.integer({ min: -100_000, max: 100_000 }))
    fc.assert(
      fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
        const clock = new VirtualClock()
        const timeline = new Timeline(clock)
        let beforeMs = timeline.now()
        for (const [kind, ms] of steps) {
          const [monoMs, wallMs] = [clock.monoMs(), clock.wallMs()]
          if (kind === 'advance') clock.block(Math.abs(ms))
          else if (kind === 'sleep') clock.sleep(Math.abs(ms))
          else clock.stepWall(ms)
          const nowMs = timeline.now()
          const advancedMs = Math.max(clock.monoMs() - monoMs, clock.wallMs() - wallMs, 0)
          // Twice the tolerance for clocks of whole ms: so far behind, and so far ahead, the wall clock has not stepped yet.
          expect(nowMs - beforeMs).toBeGreaterThanOrEqual(advancedMs - 4)
          beforeMs = nowMs
        }
      }),
    )
  })
})
