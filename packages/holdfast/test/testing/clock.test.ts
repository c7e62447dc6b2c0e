// The virtual clock: what a test may rely on when it moves time by hand.
import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../../src/testing/index.js'

const logged = () => {
  const clock = new VirtualClock({ monoMs: 0, wallMs: 0 })
  const log: string[] = []
  const at = (name: string) => () => void log.push(`${name}@${clock.monoMs()}`)
  return { clock, log, at }
}

describe('VirtualClock', () => {
  it('fires what is due in the order of time, each at its own time, never early', async () => {
    const { clock, log, at } = logged()
    clock.setTimer(30, at('c'))
    clock.setTimer(10, at('a'))
    clock.setTimer(10, at('b'))
    clock.setTimer(50, at('late'))
    await clock.advance(49)
    expect(log).toEqual(['a@10', 'b@10', 'c@30'])
    expect(clock.monoMs()).toBe(49)
    expect(clock.wallMs()).toBe(49)
    await clock.advance(1)
    expect(log.at(-1)).toBe('late@50')
  })

  it('lets long chains of promises run between two timers', async () => {
    const { clock, log, at } = logged()
    const chain = async () => {
      for (let i = 0; i < 200; i++) await Promise.resolve()
      at('chain')()
      clock.setTimer(5, at('set by the chain'))
    }
    clock.setTimer(10, () => void chain())
    clock.setTimer(20, at('second'))
    await clock.advance(20)
    expect(log).toEqual(['chain@10', 'set by the chain@15', 'second@20'])
  })

  it('runs reactions that are under way before time moves', async () => {
    const { clock, log, at } = logged()
    void Promise.resolve().then(() => clock.setTimer(5, at('due')))
    await clock.advance(5)
    expect(log).toEqual(['due@5'])
  })

  it('sleeps: the time of day goes on, nothing fires, the monotonic clock stands', async () => {
    const { clock, log, at } = logged()
    clock.setTimer(10, at('a'))
    clock.sleep(1_000)
    await clock.settle()
    expect([clock.monoMs(), clock.wallMs(), log.length]).toEqual([0, 1_000, 0])
    clock.stepWall(-2_000)
    expect([clock.monoMs(), clock.wallMs()]).toEqual([0, -1_000])
    await clock.advance(10)
    expect(log).toEqual(['a@10'])
  })

  it('blocks: both clocks move, and what is overdue fires in one burst at the next turn', async () => {
    const { clock, log, at } = logged()
    clock.setTimer(10, at('a'))
    const b = clock.setTimer(20, at('b'))
    clock.setTimer(25, () => {
      at('c')()
      d.cancel()
      clock.setTimer(0, at('set in the burst'))
    })
    const d = clock.setTimer(30, at('d'))
    b.cancel()
    clock.block(40)
    expect([clock.monoMs(), clock.wallMs(), log.length]).toEqual([40, 40, 0])
    await clock.settle()
    expect(log).toEqual(['a@40', 'c@40'])
    await clock.settle()
    expect(log.at(-1)).toBe('set in the burst@40')
  })

  it('counts live timers, and tells whether any keeps the process alive', async () => {
    const { clock } = logged()
    const one = clock.setTimer(10, () => {})
    const two = clock.setTimer(20, () => {})
    expect([clock.pending, clock.keepsAlive]).toEqual([2, true])
    one.keepAlive(false)
    two.keepAlive(false)
    expect([clock.pending, clock.keepsAlive]).toEqual([2, false])
    two.keepAlive(true)
    expect(clock.keepsAlive).toBe(true)
    one.cancel()
    one.cancel()
    await clock.advance(20)
    two.cancel()
    expect([clock.pending, clock.keepsAlive]).toEqual([0, false])
  })

  it('goes on until a condition holds or a promise settles, and no further', async () => {
    const { clock, log, at } = logged()
    clock.setTimer(10, at('a'))
    clock.setTimer(20, at('b'))
    clock.setTimer(30, at('c'))
    await clock.advanceUntil(() => log.length === 1)
    expect(clock.monoMs()).toBe(10)
    const value = new Promise<string>((resolve) => clock.setTimer(5, () => resolve('yes')))
    expect(await clock.advanceUntil(value)).toBe('yes')
    expect(clock.monoMs()).toBe(15)
    const failing = new Promise<string>((_, reject) => clock.setTimer(1, () => reject(new Error('no'))))
    await expect(clock.advanceUntil(failing)).rejects.toThrow('no')
    await expect(clock.advanceUntil(new Promise(() => {}), 100)).rejects.toThrow('not reached within 100 ms')
    expect([clock.monoMs(), log.length]).toEqual([116, 3])
    await clock.advanceUntil(() => clock.monoMs() >= 126, 10)
  })

  it('stops a loop without a delay, and refuses a delay that is no number', async () => {
    const { clock } = logged()
    let rounds = 0
    const again = () => void clock.setTimer(++rounds < 200_000 ? 0 : 1, again)
    again()
    await expect(clock.advance(1)).rejects.toThrow('at one instant')
    expect(() => clock.setTimer(Number.NaN, () => {})).toThrow('NaN')
  })
})
