// A quorum of five real Redis masters while some of them hang, are killed and come back empty, or are cut off. Processes that
// contend all the while are judged afterwards: who believed when, how tokens rose, what a fenced and a plain register took.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLeases, LeaseLostError, type LeaseStore, StaleTokenError, systemClock } from '../../src/index.js'
import { fresh, grantOf, HOUR_MS, request } from '../redis/harness.js'
import { cli, pass, waitUntil } from '../redis/servers.js'
import { claimsOf, expectSound, granted, Quorums, Registers, type Work, workOn } from './harness.js'

const failure = <T>(asked: Promise<T>) =>
  asked.then(
    (answer) => answer as unknown,
    (error: unknown) => error,
  )

describe('five masters', () => {
  const quorums = Quorums.here(5)
  let registers: Registers
  let straight: LeaseStore[]
  beforeAll(async () => {
    registers = await Registers.start()
    straight = await quorums.straight()
  })
  afterAll(() => registers.stop())

  const kept = (key: string) => claimsOf(straight, key)
  const freeze = (...places: number[]) => places.map((place) => quorums.masters.at(place).freeze())
  const thaw = (...places: number[]) => places.map((place) => quorums.masters.at(place).thaw())
  const restartEmpty = async (...places: number[]) => {
    const restart = async (place: number) => {
      await quorums.masters.at(place).kill()
      await quorums.masters.at(place).start()
    }
    await Promise.all(places.map(restart))
  }

  /**
   * A grant is answered as soon as a majority has given it. A master that is killed with it on its way would be sent it again by the
   * client, after its restart.
   */
  const grantedEverywhere = (key: string, claim: string) =>
    waitUntil('the grant everywhere', async () => (await kept(key)).every((one) => one === claim))

  /** Three processes contend for a key while something happens. */
  async function contend(key: string, happens: () => Promise<void>, options = { ttlMs: 3_000, holdMs: 20 }) {
    const work: Work = { terms: [], grants: [] }
    const ending = new AbortController()
    const processes = await Promise.all(['p1', 'p2', 'p3'].map(() => quorums.reach({ nodeTimeoutMs: 500 })))
    const working = processes.map(({ store }, i) =>
      workOn(key, `p${i + 1}`, store, registers, work, ending.signal, options),
    )
    const progress = async (what: string) => {
      const before = work.grants.length
      await waitUntil(`grants ${what}`, () => work.grants.length > before + 3)
    }
    await progress('before')
    await happens()
    await progress('afterwards')
    ending.abort()
    await Promise.all(working)
    return work
  }

  it.each([1, 2])(
    '%i hung: nothing waits for it, contenders go on, and once it wakes nothing is left there',
    async (count) => {
      const hung = [1, 3].slice(0, count)
      const key = fresh()
      const { store } = await quorums.reach({ nodeTimeoutMs: 20_000 })
      await granted(store, key, 'warm-up')
      await store.release(grantOf(key, 'warm-up'))
      // Released by a majority: the slowest node, whose vote is needed in a moment, may still have to hear of it.
      await waitUntil('the release on every node', async () => (await kept(key)).every((claim) => claim === undefined))
      freeze(...hung)
      try {
        const startMs = systemClock.monoMs()
        const token = await granted(store, key, 'a')
        expect(await store.acquire(request(key, 'b'))).toMatchObject({ is: 'held', holder: 'holder of a' })
        expect(await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
        expect(await store.inspect(key)).toMatchObject({ claim: 'a', token })
        expect(await store.release(grantOf(key, 'a', token))).toEqual({ is: 'released' })
        expect(systemClock.monoMs() - startMs).toBeLessThan(15_000) // not one node time-out
        const contended = fresh()
        await expectSound(contended, await contend(contended, () => pass(1_000)), registers)
      } finally {
        thaw(...hung)
      }
      await waitUntil('no claim on any node', async () => (await kept(key)).every((claim) => claim === undefined))
    },
  )

  it('3 hung: StoreError within the time-out for who asks, lost at the deadline for who holds, and never "held"', async () => {
    const key = fresh()
    const { store } = await quorums.reach({ nodeTimeoutMs: 300 })
    const leases = createLeases({ store, closeStore: false, ttlMs: 2_000 })
    const lease = await leases.acquire(key)
    freeze(0, 1, 2)
    try {
      const startMs = systemClock.monoMs()
      expect(await failure(store.acquire(request(key, 'b')))).toMatchObject({ code: 'STORE_ERROR' })
      expect(await failure(store.acquire(request(fresh(), 'b')))).toMatchObject({ code: 'STORE_ERROR' })
      expect(systemClock.monoMs() - startMs).toBeLessThan(10_000)
      expect(await failure(leases.acquire(fresh(), { waitMs: 500 }))).toMatchObject({ code: 'STORE_ERROR' })
      await waitUntil('the loss', () => lease.signal.aborted)
      expect(lease.signal.reason).toMatchObject({ reason: 'deadline' })
    } finally {
      thaw(0, 1, 2)
    }
    expect((await waitUntil('a grant', () => leases.acquire(key).catch(() => undefined))).token).toBeGreaterThan(
      lease.token,
    )
    await leases.close({ drainMs: 0 }).catch(() => {})
  })

  it.each([1, 2])(
    '%i killed and back without data: held all the time, and healed with its token at the next renewal (C34)',
    async (count) => {
      const lost = [2, 4].slice(0, count)
      const key = fresh()
      const { store } = await quorums.reach()
      const leases = createLeases({ store, closeStore: false, ttlMs: 6_000, renewEveryMs: 500 })
      const lease = await leases.acquire(key)
      await grantedEverywhere(key, lease.grant.claim)
      await restartEmpty(...lost)
      const other = await quorums.reach()
      expect(await other.store.acquire(request(key, 'thief'))).toMatchObject({ is: 'held' })
      await waitUntil(
        'the healing',
        async () => (await kept(key).catch(() => [])).filter((claim) => claim === lease.grant.claim).length === 5,
      )
      for (const place of [0, 1, 3]) expect(await straight[place]?.inspect(key)).toMatchObject({ token: lease.token })
      for (const place of lost) expect((await straight[place]?.inspect(key))?.token).toBeGreaterThanOrEqual(lease.token)
      expect(lease.held).toBe(true)
      await lease.release()
      await leases.close()
      const contended = fresh()
      await expectSound(contended, await contend(contended, () => restartEmpty(0)), registers)
    },
  )

  it('a majority that loses its data at once: the holder is told, tokens rise all the same, and the fence holds (C34)', async () => {
    const key = fresh()
    const { store } = await quorums.reach()
    const leases = createLeases({ store, closeStore: false, ttlMs: 20_000, renewEveryMs: 15_000 })
    const first = await leases.acquire(key)
    await grantedEverywhere(key, first.grant.claim)
    await registers.write(first.grant)
    await restartEmpty(0, 1, 2)
    const other = await quorums.reach()
    const second = createLeases({ store: other.store, closeStore: false, ttlMs: 20_000 })
    const next = await second.acquire(key) // two believe: the price, unless waitAfterLossMs is given
    expect(first.held).toBe(true)
    expect(next.token).toBeGreaterThan(first.token)
    await registers.write(next.grant)
    await expect(registers.write(first.grant)).rejects.toBeInstanceOf(StaleTokenError)
    const written = await registers.written(key)
    expect(written.filter(({ register }) => register === 'fenced').map(({ token }) => token)).toEqual([
      first.token,
      next.token,
    ])
    expect(written.filter(({ register }) => register === 'plain').at(-1)?.token).toBe(first.token) // the negative control
    await expect(first.renew()).rejects.toBeInstanceOf(LeaseLostError)
    await waitUntil('the end of its record', async () => !(await kept(key)).includes(first.grant.claim)) // given back to nobody
    await next.release()
    await Promise.all([leases.close(), second.close()])
  })

  it('a majority that loses its data at once, with waitAfterLossMs: nobody is overtaken', async () => {
    const key = fresh()
    const waitAfterLossMs = 4_000
    const { store } = await quorums.reach({ waitAfterLossMs })
    await waitUntil('masters that have been up for long enough', async () =>
      (await failure(store.acquire(request(fresh(), 'x')))) instanceof Error ? undefined : true,
    )
    const leases = createLeases({ store, closeStore: false, ttlMs: 3_000, renew: false })
    const first = await leases.acquire(key)
    await grantedEverywhere(key, first.grant.claim)
    await restartEmpty(0, 1, 2)
    const other = await quorums.reach({ waitAfterLossMs })
    const refused = await failure(other.store.acquire(request(key, 'early')))
    expect(String(refused)).toContain('a node has no vote yet')
    const second = createLeases({ store: other.store, closeStore: false, ttlMs: 3_000 })
    const next = await second.acquire(key, { waitMs: 30_000 })
    expect(first.held).toBe(false)
    expect(next.token).toBeGreaterThan(first.token)
    await next.release()
    await Promise.all([leases.close(), second.close()])
  })

  it('a partition: the side with three goes on, the side with two gets StoreError, and both after it heals (C35)', async () => {
    const [few, many] = [await quorums.reach({ nodeTimeoutMs: 1_500 }), await quorums.reach({ nodeTimeoutMs: 1_500 })]
    const cut = (on: boolean) => {
      for (const [place, proxy] of few.proxies.entries()) if (place < 3) on ? proxy.hang() : proxy.heal()
      for (const [place, proxy] of many.proxies.entries()) if (place >= 3) on ? proxy.hang() : proxy.heal()
    }
    const key = fresh()
    await Promise.all([granted(few.store, fresh(), 'a'), granted(many.store, fresh(), 'a')])
    cut(true)
    expect(await failure(few.store.acquire(request(key, 'few')))).toMatchObject({ code: 'STORE_ERROR' })
    const token = await granted(many.store, key, 'many')
    expect(await many.store.renew([{ key, claim: 'many', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
    cut(false)
    const again = () => failure(few.store.acquire(request(key, fresh('claim'))))
    await waitUntil('"held"', async () => ((await again()) as { because?: string }).because === 'held')
    expect(await many.store.release(grantOf(key, 'many', token))).toEqual({ is: 'released' })
    const next = await waitUntil('a grant', () => granted(few.store, key, fresh('claim')).catch(() => undefined))
    expect(next).toBeGreaterThan(token)
  })

  it('contenders behind partitions that come and go', async () => {
    const key = fresh()
    const work: Work = { terms: [], grants: [] }
    const ending = new AbortController()
    const processes = await Promise.all([0, 1, 2].map(() => quorums.reach({ nodeTimeoutMs: 200 })))
    const working = processes.map(({ store }, i) =>
      workOn(key, `p${i}`, store, registers, work, ending.signal, { ttlMs: 1_500, holdMs: 30 }),
    )
    for (let round = 0; round < 12; round++) {
      for (const [i, { proxies }] of processes.entries()) {
        for (const proxy of proxies) proxy.heal()
        const [first, second, third] = [0, 1, 2].map((n) => proxies[(round * (i + 1) + n) % 5])
        first?.hang()
        second?.swallowReplies()
        if (round % 4 === 3) third?.cut()
      }
      await pass(250)
    }
    for (const { proxies } of processes) for (const proxy of proxies) proxy.heal()
    const before = work.grants.length
    await waitUntil('grants afterwards', () => work.grants.length > before + 3)
    ending.abort()
    await Promise.all(working)
    await expectSound(key, work, registers)
  })

  it('a refused claim whose requests reach a node late is withdrawn there as well (C08, C11)', async () => {
    const key = fresh()
    const holder = await quorums.reach()
    const token = await granted(holder.store, key, 'holder')
    await waitUntil('the grant everywhere', async () => (await kept(key)).every((claim) => claim === 'holder'))
    const late = await quorums.reach({ nodeTimeoutMs: 1_500 })
    await granted(late.store, fresh(), 'warm-up')
    late.proxies[4]?.hang('toServer')
    expect(await late.store.acquire(request(key, 'late'))).toMatchObject({ is: 'held' })
    await holder.store.release(grantOf(key, 'holder', token))
    await waitUntil('the release', async () => (await kept(key)).every((claim) => claim === undefined))
    late.proxies[4]?.heal() // the acquire arrives at a node that is free by now, and its withdrawal after it
    await waitUntil('the withdrawal', async () => {
      const answer = await straight[4]?.acquire(request(key, 'late'))
      return answer?.is === 'held' && answer.because === 'ended'
    })
    expect(await kept(key)).not.toContain('late')
  })

  it('an acquire whose majority answers after the term is over fails, and nothing of it is left (C10)', async () => {
    const key = fresh()
    const { store, proxies } = await quorums.reach({ nodeTimeoutMs: 20_000 })
    await granted(store, fresh(), 'warm-up')
    for (const proxy of proxies.slice(0, 3)) proxy.slow(900, 'toClient')
    const answer = await failure(store.acquire(request(key, 'slow', { ttlMs: 700 })))
    expect(answer).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' }) // it was granted, for a while
    const leases = createLeases({ store, closeStore: false, ttlMs: 60_000, callTimeoutMs: 15_000 })
    const lease = await leases.acquire(key)
    expect(lease.remainingMs).toBeLessThan(60_000 - 900) // counted from before the first request was sent
    for (const proxy of proxies) proxy.heal()
    await lease.release()
    await leases.close()
    await waitUntil('nothing kept', async () => (await kept(key)).every((claim) => claim === undefined))
  })

  it('C33: a node that is read-only is no vote, three are a StoreError, and the lease is kept meanwhile', async () => {
    const key = fresh()
    const { store } = await quorums.reach()
    const leases = createLeases({ store, closeStore: false, ttlMs: 20_000 })
    const lease = await leases.acquire(key)
    const readOnly = (place: number, on: boolean) =>
      cli(quorums.masters.at(place).port, 'config', 'set', 'min-replicas-to-write', on ? '1' : '0')
    try {
      await readOnly(0, true)
      expect(await lease.renew()).toBeUndefined()
      await readOnly(1, true)
      await readOnly(2, true)
      const answer = await failure(store.acquire(request(fresh(), 'b')))
      expect(answer).toMatchObject({ code: 'STORE_ERROR', outcome: 'none' })
      expect(String(answer)).toContain('NOREPLICAS')
      expect(lease.held).toBe(true)
    } finally {
      await Promise.all([0, 1, 2].map((place) => readOnly(place, false)))
    }
    await lease.renew()
    await lease.release()
    await leases.close()
  })

  it('C32: SCRIPT FLUSH on one node and on all is not noticed', async () => {
    const key = fresh()
    const { store } = await quorums.reach()
    const flush = (...places: number[]) =>
      Promise.all(places.map((place) => cli(quorums.masters.at(place).port, 'script', 'flush')))
    const token = await granted(store, key, 'a')
    await flush(0)
    expect(await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
    await flush(0, 1, 2, 3, 4)
    expect(await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
    await flush(0, 1, 2, 3, 4)
    expect(await store.release(grantOf(key, 'a', token))).toEqual({ is: 'released' })
    expect(await granted(store, key, 'b')).toBeGreaterThan(token)
  })
})
