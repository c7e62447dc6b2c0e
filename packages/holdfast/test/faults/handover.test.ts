// How one process takes over from another: from one that is told to end and drains, and from one that is killed (G2, G12).
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { grantsOf } from './checkers.js'
import { folder, start } from './harness.js'

const KEY = 'k'

async function two() {
  const home = folder()
  const files = [join(home, 'leases.db'), join(home, 'app.db')]
  return { first: await start('holder', [...files, 'first']), second: await start('holder', [...files, 'second']) }
}

describe('a process that ends', () => {
  it('by SIGTERM drains: its work ends while it still holds, then the next one begins (G12)', async () => {
    const { first, second } = await two()
    // Far longer than the test takes: whoever gets in was let in.
    first.tell('hold', { key: KEY, ttlMs: 600_000, windDownMs: 500 })
    const holding = await first.hears('it holds', ({ holding: key }) => key === KEY)
    second.tell('hold', { key: KEY, ttlMs: 600_000, windDownMs: 0, waitMs: 60_000 })
    const exit = await first.stop()
    expect(exit).toEqual({ code: 0, signal: null })
    expect(first.said).toContainEqual({ told: 'closing', heldStill: true })
    const ended = await first.hears('its work ended', ({ workEnded }) => workEnded === KEY)
    expect(ended.heldStill).toBe(true)
    const next = await second.hears('it holds', ({ holding: key }) => key === KEY)
    expect(Number(next.atUs)).toBeGreaterThan(Number(ended.atUs))
    expect(next.token).toBeGreaterThan(Number(holding.token))
  })

  it('by SIGKILL: the next one is let in when the ttl is over, not before and not much later, with a bigger token', async () => {
    const { first, second } = await two()
    const ttlMs = 2_000
    const held = await first.ask('acquire', { key: KEY, ttlMs })
    const died = await first.ask('check', { key: KEY })
    await first.kill()
    const taken = await second.ask('acquire', { key: KEY, ttlMs, waitMs: 60_000 }, 60_000)
    expect(taken.is).toBe('granted')
    expect(taken.token).toBeGreaterThan(Number(held.token))
    const [grant] = grantsOf(second.said)
    const afterMs = (Number(grant?.answeredUs) - Number(died.atUs)) / 1000
    // It still believed for so long when it was looked at; and a machine may be slow.
    expect(afterMs).toBeGreaterThan(Number(died.remainingMs))
    expect(afterMs).toBeLessThan(ttlMs + 15_000)
  })
})
