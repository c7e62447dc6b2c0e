// coalesce: callers share a result, never a lock. Who asks after a run has begun gets the next one.
import { describe, expect, it } from 'vitest'
import { gate, setUp, track } from './world.js'

describe('coalesce', () => {
  it('one run serves all who asked before it started; later ones get the next', async () => {
    const { clock, memory, client } = setUp()
    await memory.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 1_000 })
    const leases = client()
    const works = [gate<string>(), gate<string>()]
    let runs = 0
    const work = () => works[runs++]?.promise
    const early = Array.from({ length: 100 }, () => track(leases.coalesce('k', work)))
    await clock.advance(2_000)
    expect(runs).toBe(1)
    const later = [track(leases.coalesce('k', work)), track(leases.coalesce('k', work))]
    works[0]?.open('first')
    await clock.advance(100)
    expect(early.every(({ value }) => value() === 'first')).toBe(true)
    expect([runs, later[0]?.is()]).toEqual([2, 'waiting'])
    works[1]?.open('second')
    await clock.advance(100)
    expect(later.map(({ value }) => value())).toEqual(['second', 'second'])
    expect((await memory.inspect('k'))?.changes).toBe(3)
  })

  it('different keys have nothing to do with each other', async () => {
    const { clock, client } = setUp()
    const leases = client()
    const both = Promise.all(['a', 'b'].map((key) => leases.coalesce(key, ({ key: name }) => name)))
    expect(await clock.advanceUntil(both)).toEqual(['a', 'b'])
  })

  it('an error of the run is the very error of each who shares it, and is not kept for later ones', async () => {
    const { clock, client } = setUp()
    const leases = client()
    const mine = new Error('mine')
    const all = [1, 2, 3].map(() => track(leases.coalesce('k', () => Promise.reject(mine))))
    await clock.settle()
    for (const { error } of all) expect(error()).toBe(mine)
    expect(await leases.coalesce('k', () => 7)).toBe(7)
  })

  it("a caller's signal ends only its own wait", async () => {
    const { clock, client } = setUp()
    const leases = client()
    const work = gate<number>()
    const controller = new AbortController()
    const leaving = track(leases.coalesce('k', { signal: controller.signal }, () => work.promise))
    const staying = track(leases.coalesce('k', () => work.promise))
    await clock.settle()
    const why = new Error('mine')
    controller.abort(why)
    await clock.settle()
    expect([leaving.error(), staying.is()]).toEqual([why, 'waiting'])
    work.open(1)
    await clock.settle()
    expect(staying.value()).toBe(1)
  })

  it('the last one to leave ends the run, and who comes then starts afresh', async () => {
    const { clock, memory, client } = setUp()
    await memory.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 60_000 })
    const leases = client()
    const controllers = [new AbortController(), new AbortController()]
    const all = controllers.map(({ signal }) => track(leases.coalesce('k', { signal }, () => 'never')))
    await clock.advance(100)
    for (const controller of controllers) controller.abort(new Error('mine'))
    const fresh = track(leases.coalesce('k', () => 'fresh'))
    await clock.settle()
    expect(all.map(({ is }) => is())).toEqual(['rejected', 'rejected'])
    await memory.revoke('k', { force: true })
    await clock.advance(1_000)
    expect(fresh.value()).toBe('fresh')
  })

  it('work that has begun is told when nobody wants it any more', async () => {
    const { clock, client } = setUp()
    const controller = new AbortController()
    let told: unknown
    const all = client().coalesce('k', { signal: controller.signal }, async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      told = signal.reason
    })
    const asked = track(all)
    await clock.settle()
    const why = new Error('mine')
    controller.abort(why)
    await clock.settle()
    expect([asked.error(), told]).toEqual([why, why])
  })
})
