// This machine's clock: delays that the platform's timers cannot take are split (C02).
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/index.js'

describe('systemClock', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] }))
  afterEach(() => void vi.useRealTimers())

  const DAY_MS = 86_400_000

  it.each([2 ** 31 - 2, 2 ** 31 - 1, 2 ** 31, 40 * DAY_MS, 400 * DAY_MS])(
    'fires after %i ms, once, not before',
    async (delayMs) => {
      let fired = 0
      systemClock.setTimer(delayMs, () => fired++)
      await vi.advanceTimersByTimeAsync(delayMs - 1)
      expect(fired).toBe(0)
      await vi.advanceTimersByTimeAsync(1)
      expect(fired).toBe(1)
      await vi.advanceTimersByTimeAsync(DAY_MS)
      expect([fired, vi.getTimerCount()]).toEqual([1, 0])
    },
  )

  it('cancels also what was split', async () => {
    let fired = 0
    const timer = systemClock.setTimer(40 * DAY_MS, () => fired++)
    await vi.advanceTimersByTimeAsync(30 * DAY_MS)
    timer.cancel()
    await vi.advanceTimersByTimeAsync(30 * DAY_MS)
    expect([fired, vi.getTimerCount()]).toEqual([0, 0])
  })

  it('takes a negative delay for none', async () => {
    let fired = 0
    systemClock.setTimer(-5, () => fired++)
    await vi.advanceTimersByTimeAsync(1)
    expect(fired).toBe(1)
  })
})
