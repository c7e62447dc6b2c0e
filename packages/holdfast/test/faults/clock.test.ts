// The machine's clock is stepped while leases are held. The SQLite store reads it, so this is where assumption A2 is put to the
// test: a step back must neither give two holders nor stop leases from expiring; a step forward ends leases early, which their
// holders notice, and the fence holds whatever they do.
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { believedAtOnce, grantsOf, termsOf, tokensThatFell } from './checkers.js'
import { FakeClock, folder, type Program, start, waitUntil } from './harness.js'

const KEY = 'k'
const HOUR_S = 3_600
const TTL_MS = 2_000

async function two() {
  const home = folder()
  const clock = new FakeClock(home)
  const files = [join(home, 'leases.db'), join(home, 'app.db')]
  const first = await start('holder', [...files, 'first'], { clock })
  const second = await start('holder', [...files, 'second'], { clock })
  return { clock, first, second }
}

/** Ends the terms of those that hold, and judges what all have said. */
async function expectSound(programs: Program[], holding = programs): Promise<void> {
  for (const program of holding) await program.ask('release', { key: KEY })
  const said = programs.flatMap((program) => program.said)
  expect(termsOf(said).length).toBeGreaterThan(0)
  expect(believedAtOnce(termsOf(said))).toEqual([])
  expect(tokensThatFell(grantsOf(said))).toEqual([])
  for (const program of programs) expect(program.stderr).toBe('')
}

describe('the clock of the machine', () => {
  it('is what the programs under test see stepped (control)', async () => {
    const { clock, first } = await two()
    const before = Number((await first.ask('time')).wallMs)
    clock.stepClock(-HOUR_S)
    const back = Number((await first.ask('time')).wallMs)
    clock.stepClock(2 * HOUR_S)
    const forward = Number((await first.ask('time')).wallMs)
    expect([back < before - 3_000_000, forward > before + 3_000_000]).toEqual([true, true])
  })

  it('set back by an hour: the holder keeps its lease for many terms, and nobody else gets it', async () => {
    const { clock, first, second } = await two()
    const held = await first.ask('acquire', { key: KEY, ttlMs: TTL_MS })
    clock.stepClock(-HOUR_S)
    // Two terms pass: long enough for a store that lost count to free the key.
    const refused = await second.ask('acquire', { key: KEY, ttlMs: TTL_MS, waitMs: 2 * TTL_MS })
    expect(refused).toMatchObject({ is: 'failed', code: 'LEASE_HELD' })
    expect(await first.ask('check', { key: KEY })).toMatchObject({ held: true })
    await first.ask('release', { key: KEY })
    const taken = await second.ask('acquire', { key: KEY, ttlMs: TTL_MS, waitMs: 20_000 })
    expect(taken.is).toBe('granted')
    expect(taken.token).toBeGreaterThan(Number(held.token))
    // The second may have given it back before it looked even twice: its own term need not show.
    await expectSound([first, second], [second])
  })

  it('set back by an hour: a holder that dies is succeeded within moments, not within the hour', async () => {
    const { clock, first, second } = await two()
    const held = await first.ask('acquire', { key: KEY, ttlMs: TTL_MS })
    await first.freeze()
    clock.stepClock(-HOUR_S)
    const askedMs = performance.now()
    const taken = await second.ask('acquire', { key: KEY, ttlMs: TTL_MS, waitMs: 60_000 }, 60_000)
    expect(taken.is).toBe('granted')
    expect(performance.now() - askedMs).toBeLessThan(30_000)
    expect(taken.token).toBeGreaterThan(Number(held.token))
    first.thaw()
    expect(await first.ask('check', { key: KEY })).toMatchObject({ held: false })
    expect(await second.ask('write', { key: KEY })).toMatchObject({ fenced: 'admitted' })
    expect(await first.ask('write', { key: KEY })).toMatchObject({ fenced: 'stale' })
    await expectSound([first, second])
  })

  it('set back by an hour, again and again: tokens rise, one believes at a time', async () => {
    const { clock, first, second } = await two()
    for (const program of [first, second]) await program.ask('work', { key: KEY, ttlMs: TTL_MS })
    const grants = () => grantsOf([...first.said, ...second.said])
    for (let step = 0; step < 4; step++) {
      const before = grants().length
      await waitUntil('both go on', () => grants().length > before + 6)
      clock.stepClock(-HOUR_S)
    }
    for (const program of [first, second]) program.tell('rest')
    for (const program of [first, second]) await program.hears('it rests', ({ rested }) => rested === true)
    const said = [...first.said, ...second.said]
    expect(believedAtOnce(termsOf(said))).toEqual([])
    expect(tokensThatFell(grantsOf(said))).toEqual([])
  })

  it('set forward by an hour: the holder notices, the next is let in, and the fence refuses the first', async () => {
    const { clock, first, second } = await two()
    const held = await first.ask('acquire', { key: KEY, ttlMs: 60_000 })
    clock.stepClock(HOUR_S)
    await first.hears('the loss', ({ lost, token }) => lost !== undefined && token === held.token, 20_000)
    expect(await first.ask('check', { key: KEY })).toMatchObject({ held: false })
    const taken = await second.ask('acquire', { key: KEY, ttlMs: 60_000 })
    expect(taken.is).toBe('granted')
    expect(taken.token).toBeGreaterThan(Number(held.token))
    expect(await second.ask('write', { key: KEY })).toMatchObject({ fenced: 'admitted' })
    expect(await first.ask('write', { key: KEY })).toMatchObject({ fenced: 'stale' })
    await expectSound([first, second])
  })
})
