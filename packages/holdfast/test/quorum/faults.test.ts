// Nodes that hang, throw, restart empty or are cut off: what the quorum answers, and what it leaves behind.
import { describe, expect, it } from 'vitest'
import { createLeases, fixed, StoreError } from '../../src/index.js'
import { seededRandom } from '../../src/testing/index.js'
import { expectStoreError, NODE_TIMEOUT_MS, TTL_MS, tokenAt, world } from './world.js'

describe('closed right after a release', () => {
  it('a node that lags behind hears of the release first: it would keep the lease for its term', async () => {
    const { client, clock, holders } = world(3)
    const one = client({ closeStores: true })
    one.to[2]?.always('acquire', { delayAfterMs: NODE_TIMEOUT_MS / 2 })
    await one.granted('a')
    expect(await one.released('a')).toBe('released')
    const { tookMs } = await one.ask(one.store.close())
    expect(tookMs).toBe(NODE_TIMEOUT_MS / 2)
    await clock.advance(1)
    expect(await holders()).toEqual([undefined, undefined, undefined])
  })

  it('one that hangs is waited for no longer than it may take for an answer', async () => {
    const { client } = world(3)
    const one = client({ closeStores: true })
    one.cut(2)
    await one.granted('a')
    expect(await one.released('a')).toBe('released')
    expect((await one.ask(one.store.close())).tookMs).toBe(NODE_TIMEOUT_MS)
  })
})

describe('with some of five nodes hung', () => {
  it.each([1, 2])('%i hung: acquires, renews, refuses and releases without a wait', async (hung) => {
    const { client, clock, holders } = world(5)
    const one = client()
    one.cut(...[1, 3].slice(0, hung))
    for (let round = 0; round < 3; round++) {
      const claim = `a${round}`
      expect(await one.ask(one.store.acquire(one.request(claim)))).toMatchObject({
        answer: { is: 'granted' },
        tookMs: 0,
      })
      expect(await one.ask(one.store.acquire(one.request('b')))).toMatchObject({ answer: { is: 'held' }, tookMs: 0 })
      expect(await one.renewed(claim)).toBe('renewed')
      expect(await one.released(claim)).toBe('released')
      await clock.advance(3 * NODE_TIMEOUT_MS)
    }
    one.heal(1, 3)
    await clock.advance(10_000)
    expect(await holders()).toEqual([undefined, undefined, undefined, undefined, undefined])
  })

  it('3 hung: unknown within one node time-out for every verb, and never "held"', async () => {
    const { client, clock } = world(5)
    const one = client()
    await one.granted('a')
    await clock.advance(1)
    one.cut(0, 1, 2)
    for (const claim of ['a', 'b']) {
      const { answer, tookMs } = await one.ask(one.store.acquire(one.request(claim)))
      expectStoreError(answer, 'unknown') // of "b" as well: those that hung may have granted it
      expect(tookMs).toBe(NODE_TIMEOUT_MS)
    }
    expect(await one.renewed('a')).toBe('unknown')
    const verbs: (() => Promise<unknown>)[] = [
      () => one.store.inspect('k'),
      () => one.store.revoke('k'),
      () => one.store.withdraw('k', 'a'),
      () => one.store.release({ key: 'k', claim: 'a', token: 1, holder: 'a' }),
    ]
    for (const verb of verbs) expectStoreError((await one.ask(verb())).answer, 'unknown')
  })

  it('1 hung and 1 that another keeps: unknown where the one that hung may make a majority, and withdrawn all the same', async () => {
    const { client, clock, servers, holders } = world(3)
    await servers[0]?.connect().acquire(client().request('rival'))
    const one = client()
    one.to[2]?.next('acquire', { dropAfter: true }) // granted there, and nobody hears of it
    const { answer } = await one.ask(one.store.acquire(one.request('a')))
    expectStoreError(answer, 'unknown')
    expect(String(answer)).toContain('1 granted, 1 held by others')
    await clock.advance(5 * NODE_TIMEOUT_MS)
    expect(await holders()).toEqual(['rival', undefined, undefined])
    expect(await one.acquire('a')).toMatchObject({ because: 'ended' })
  })

  it('takes no longer than a third of the time that the caller has', async () => {
    const { client } = world(3)
    const one = client()
    one.cut(1, 2)
    const { answer, tookMs } = await one.ask(one.store.acquire(one.request('a'), { timeoutMs: 93 }))
    expectStoreError(answer, 'unknown')
    expect(tookMs).toBeCloseTo(30, 5)
  })
})

describe('a node that throws', () => {
  it('has no vote: neither yes nor held', async () => {
    const { client, servers } = world(3)
    const one = client()
    const two = client()
    await servers[0]?.connect().acquire(two.request('rival'))
    one.to[1]?.next('acquire', { dropBefore: 'error' })
    one.to[2]?.next('acquire', { dropBefore: 'error' })
    expectStoreError(await one.acquire('a'), 'none')
    one.to[1]?.next('acquire', { fail: new Error('broken') })
    one.to[2]?.next('acquire', { fail: new Error('broken') })
    const answer = await one.acquire('b')
    expectStoreError(answer, 'unknown')
    expect(String(answer)).toContain('node 1 (server 1) failed to answer an acquire: broken')
  })

  it.each([0, 1, 2])('at once does not hide that another holds the key: node %i is down', async (down) => {
    const { client } = world(3)
    await client().granted('b')
    const one = client()
    one.to[down]?.always('acquire', { dropBefore: 'error' })
    for (const [place, to] of one.to.entries())
      if (place !== down) to.always('acquire', { delayAfterMs: 5 * place + 1 })
    expect(await one.acquire('a')).toMatchObject({ is: 'held', because: 'held', holder: 'holder of b' })
  })

  it('is told apart: certainly nothing done, or perhaps something', async () => {
    const { client, holders, clock } = world(3)
    const one = client()
    for (const to of one.to) to.next('acquire', { dropBefore: 'error' })
    expectStoreError(await one.acquire('a'), 'none')
    one.to[0]?.next('acquire', { dropBefore: 'error' })
    one.to[1]?.next('acquire', { dropBefore: 'error' })
    expectStoreError(await one.acquire('b'), 'none')
    await clock.advance(1)
    expect(await holders()).toEqual([undefined, undefined, undefined])
    for (const to of one.to) to.next('acquire', { dropAfter: 'error' })
    expectStoreError(await one.acquire('c'), 'unknown')
    expect(await holders()).toEqual(['c', 'c', 'c'])
    expect(await one.acquire('c')).toMatchObject({ is: 'granted' })
  })

  it('passes on what is wrong with the request', async () => {
    const { client } = world(3)
    const one = client()
    const wrong = new (await import('../../src/index.js')).InvalidArgumentError('key', 'k', 'must be nicer')
    for (const to of one.to) to.next('acquire', { fail: wrong })
    expect(await one.acquire('a')).toBe(wrong)
  })
})

describe('late answers', () => {
  it('a grant that comes after the refusal is taken back', async () => {
    const { client, clock, servers } = world(3)
    const two = client()
    two.cut(2)
    await two.granted('b')
    const one = client()
    one.to[2]?.next('acquire', { delayBeforeMs: NODE_TIMEOUT_MS / 2 })
    expect(await one.acquire('a')).toMatchObject({ is: 'held', because: 'held' })
    await clock.advance(NODE_TIMEOUT_MS)
    expect(await servers[2]?.holder()).toBeUndefined()
    expect(one.to[2]?.callsOf('withdraw')).toHaveLength(1)
  })

  it('a grant that comes after the time-out is taken back, and the claim can still be granted by others', async () => {
    const { client, clock, servers } = world(5)
    const two = client()
    two.cut(3, 4)
    await two.granted('b')
    const one = client()
    one.to[4]?.next('acquire', { delayBeforeMs: 3 * NODE_TIMEOUT_MS })
    expect(await one.acquire('a')).toMatchObject({ is: 'held', because: 'held' })
    await clock.advance(5 * NODE_TIMEOUT_MS)
    expect([await servers[3]?.holder(), await servers[4]?.holder()]).toEqual([undefined, undefined])
    expect(await one.acquire('a')).toMatchObject({ is: 'held', because: 'held' })
    await two.released('b')
    expect(await one.acquire('a')).toMatchObject({ is: 'granted' })
  })

  it('a vote for an earlier attempt that comes while a later one is under way is taken back when that is refused', async () => {
    const { client, clock, servers } = world(3)
    const two = client()
    await two.granted('b')
    const one = client()
    for (const place of [0, 1]) one.to[place]?.next('acquire', {}, { delayAfterMs: 50 })
    one.to[2]?.next('acquire', { delayBeforeMs: 30, delayAfterMs: 5 }, { delayAfterMs: 40 })
    const answers = [one.store.acquire(one.request('a')), one.store.acquire(one.request('a'))]
    await clock.advance(20)
    await two.store.release({ key: 'k', claim: 'b', token: 1, holder: 'b' })
    expect(await clock.advanceUntil(Promise.all(answers))).toMatchObject([{ because: 'held' }, { because: 'held' }])
    await clock.advance(5 * NODE_TIMEOUT_MS)
    expect(await servers[2]?.holder()).toBeUndefined()
  })

  it('a node that is about to take its vote back has none for the claim', async () => {
    const { client, clock } = world(3)
    const two = client()
    two.cut(2)
    await two.granted('b')
    const one = client()
    one.to[2]?.next('acquire', { delayBeforeMs: 5 })
    one.to[2]?.always('withdraw', { delayBeforeMs: 50 })
    expect(await one.acquire('a')).toMatchObject({ is: 'held', because: 'held' })
    await clock.advance(10)
    await two.store.release({ key: 'k', claim: 'b', token: 1, holder: 'b' })
    one.cut(0)
    expect(await one.acquire('a')).toMatchObject({ is: 'held', because: 'ended' })
    expect(one.to[2]?.callsOf('acquire')).toHaveLength(1)
  })

  it('a withdrawal that is lost is sent again', async () => {
    const { client, clock, servers } = world(3)
    const two = client()
    two.cut(2)
    await two.granted('b')
    const one = client()
    one.to[2]?.next('acquire', { delayBeforeMs: 5 })
    one.to[2]?.next('withdraw', { dropBefore: true }, { dropBefore: 'error' })
    expect(await one.acquire('a')).toMatchObject({ is: 'held' })
    await clock.advance(1_000)
    expect(await servers[2]?.inspect()).toMatchObject({ state: 'free', changes: 1 })
    expect(one.to[2]?.callsOf('withdraw')).toHaveLength(3)
  })

  it('a grant that comes after the release is refused', async () => {
    const { client, clock, servers } = world(3)
    const one = client()
    one.to[2]?.next('acquire', { delayBeforeMs: TTL_MS / 2 })
    await one.granted('a')
    expect(await one.released('a')).toBe('released')
    await clock.advance(TTL_MS)
    expect(await servers[2]?.inspect()).toBeNull()
  })

  it('a release waits where the acquire has not been answered, and is an ordinary one then', async () => {
    const { client, clock, servers } = world(3)
    const one = client()
    one.to[2]?.next('acquire', { delayBeforeMs: NODE_TIMEOUT_MS / 2 })
    await one.granted('a')
    expect(await one.released('a')).toBe('released')
    expect(one.to[2]?.callsOf('release')).toHaveLength(0)
    await clock.advance(NODE_TIMEOUT_MS)
    expect(await servers[2]?.inspect()).toMatchObject({ state: 'free', changes: 1 })
    expect(one.to[2]?.callsOf('release')).toHaveLength(1)
    expect(one.to[2]?.callsOf('withdraw')).toHaveLength(0)
  })

  it('a release that waited too long is a withdrawal, and is not sent after it', async () => {
    const { client, clock, servers } = world(3)
    const one = client()
    one.to[2]?.next('acquire', { delayBeforeMs: 3 * NODE_TIMEOUT_MS })
    one.to[2]?.always('withdraw', { delayAfterMs: 5 * NODE_TIMEOUT_MS })
    await one.granted('a')
    expect(await one.released('a')).toBe('released')
    await clock.advance(4 * NODE_TIMEOUT_MS)
    expect(await servers[2]?.holder()).toBeUndefined()
    expect(one.to[2]?.callsOf('release')).toHaveLength(0)
  })

  it('an acquire that was withdrawn in the middle is not granted by the votes that it had', async () => {
    const { client, clock, holders } = world(3)
    const one = client()
    for (const place of [1, 2]) one.to[place]?.next('acquire', { delayAfterMs: NODE_TIMEOUT_MS / 2 })
    const answer = one.store.acquire(one.request('a'))
    await clock.settle()
    await one.store.withdraw('k', 'a')
    expect((await one.ask(answer)).answer).toMatchObject({ is: 'held', because: 'ended' })
    await clock.advance(TTL_MS / 2)
    expect(await holders()).toEqual([undefined, undefined, undefined])
  })
})

describe('healing', () => {
  it('gives a node that restarted empty the lease back at the next renewal, with its token as floor', async () => {
    const { client, servers, holders, clock } = world(3)
    const one = client()
    const grant = await one.granted('a', { meta: { job: 1 } })
    servers[1]?.restartEmpty()
    expect(await one.renewed('a')).toBe('renewed')
    await clock.advance(1)
    expect(await holders()).toEqual(['a', 'a', 'a'])
    expect(await servers[1]?.inspect()).toMatchObject({ token: grant.token, holder: 'holder of a', meta: { job: 1 } })
    // Now another may fail.
    servers[0]?.restartEmpty()
    expect(await client().acquire('b')).toMatchObject({ is: 'held', holder: 'holder of a' })
    expect(await one.renewed('a')).toBe('renewed')
  })

  it('is not done when a majority did not renew, was not the last word, or the lease has ended meanwhile', async () => {
    const { client, servers, clock } = world(5)
    const one = client()
    await one.granted('a')
    servers[0]?.restartEmpty()
    one.cut(2, 3, 4)
    expect(await one.renewed('a')).toBe('unknown')
    await clock.advance(1)
    expect(await servers[0]?.holder()).toBeUndefined()
    one.heal(2, 3, 4)
    one.to[0]?.next('renew', { delayAfterMs: NODE_TIMEOUT_MS / 2 })
    expect(await one.renewed('a')).toBe('renewed')
    expect(await one.released('a')).toBe('released')
    await clock.advance(NODE_TIMEOUT_MS)
    expect(await servers[0]?.holder()).toBeUndefined()
  })

  it('that arrives when the lease is over is taken back', async () => {
    const { client, servers, clock } = world(3)
    const one = client({ nodeTimeoutMs: 2 * TTL_MS })
    await one.granted('a')
    servers[1]?.restartEmpty()
    one.to[1]?.always('acquire', { delayBeforeMs: 1.5 * TTL_MS })
    expect(await one.renewed('a')).toBe('renewed')
    await clock.advance(1.6 * TTL_MS)
    expect(await servers[1]?.inspect()).toMatchObject({ state: 'free', changes: 1 })
  })

  it('is not begun any more when the lease has ended before its turn', async () => {
    const { client, servers, clock } = world(3)
    const one = client()
    const keys = Array.from({ length: 20 }, (_, i) => `k${i}`)
    for (const key of keys) await one.store.acquire(one.request('a', { key }))
    servers[1]?.restartEmpty()
    one.to[1]?.always('acquire', { delayBeforeMs: 10 })
    await one.store.renew(keys.map((key) => ({ key, claim: 'a', ttlMs: TTL_MS })))
    await one.store.release({ key: 'k19', claim: 'a', token: 1, holder: 'a' })
    await clock.advance(1_000)
    const healed = one.to[1]?.callsOf('acquire').map(({ request }) => request.key) ?? []
    expect(healed.filter((key) => key === 'k18')).toHaveLength(2)
    expect(healed.filter((key) => key === 'k19')).toHaveLength(1)
  })

  it('waits while another has the node, and leaves a revoked lease alone', async () => {
    const { client, servers, clock, holders } = world(3)
    const one = client()
    await one.granted('a')
    servers[1]?.restartEmpty()
    await servers[1]?.connect().acquire(one.request('x'))
    expect(await one.renewed('a')).toBe('renewed')
    await clock.advance(1)
    expect(await holders()).toEqual(['a', 'x', 'a'])
    servers[1]?.restartEmpty()
    expect((await one.ask(one.store.revoke('k'))).answer).toMatchObject({ claim: 'a' })
    expect(await one.renewed('a')).toBe('lost: revoked')
    await clock.advance(1)
    expect(await servers[1]?.holder()).toBeUndefined()
    // The revoked term runs out: nobody is overtaken while believing.
    expect(await client().acquire('b')).toMatchObject({ is: 'held' })
  })

  it('is done by a process that adopted the lease as well: the token is the greatest that a majority keeps', async () => {
    const { client, servers, holders, clock } = world(5)
    const one = client()
    one.cut(4)
    const grant = await one.granted('a', { meta: { job: 1 }, tokenFloor: 2 ** 51 })
    // A node that knows a smaller token for the claim, as one that an earlier round reached.
    await servers[4]?.connect().acquire(one.request('a', { tokenFloor: 1, meta: { job: 1 } }))
    const other = client()
    servers[0]?.restartEmpty()
    expect(await other.renewed('a')).toBe('renewed')
    await clock.advance(1)
    expect(await holders()).toEqual(['a', 'a', 'a', 'a', 'a'])
    expect(await servers[0]?.inspect()).toMatchObject({ token: grant.token, holder: 'holder of a', meta: { job: 1 } })
    expect(other.to[1]?.callsOf('inspect')).toHaveLength(1)
    servers[1]?.restartEmpty()
    expect(await other.renewed('a')).toBe('renewed')
    await clock.advance(1)
    expect(await tokenAt(servers[1])).toBe(grant.token)
    expect(other.to[1]?.callsOf('inspect')).toHaveLength(1) // known by now
  })

  it('of an adopted lease is left alone when it ends meanwhile, is revoked, or a majority cannot be read', async () => {
    const { client, servers, clock } = world(3)
    const one = client()
    const other = client()
    await one.granted('a')
    servers[0]?.restartEmpty()
    for (const to of other.to) to.next('inspect', { delayAfterMs: 20 })
    expect(await other.renewed('a')).toBe('renewed')
    expect(await other.released('a')).toBe('released')
    await clock.advance(NODE_TIMEOUT_MS)
    expect(await servers[0]?.inspect()).toBeNull()

    await one.granted('b')
    servers[0]?.restartEmpty()
    for (const to of other.to) to.next('inspect', { delayBeforeMs: 20 })
    expect(await other.renewed('b')).toBe('renewed')
    await servers[1]?.connect().revoke('k')
    await clock.advance(NODE_TIMEOUT_MS)
    expect(await servers[0]?.holder()).toBeUndefined()

    const more = world(3)
    await more.client().granted('c')
    const adopter = more.client()
    more.servers[0]?.restartEmpty()
    adopter.to[1]?.next('inspect', { dropBefore: true })
    expect(await adopter.renewed('c')).toBe('renewed')
    await more.clock.advance(2 * NODE_TIMEOUT_MS)
    expect(await more.servers[0]?.holder()).toBeUndefined()
    expect(await adopter.renewed('c')).toBe('renewed') // and tries again
    await more.clock.advance(1)
    expect(await more.servers[0]?.holder()).toBe('c')
  })

  it('gives back a thousand leases a few at a time', async () => {
    const { client, servers, clock } = world(3)
    const one = client()
    const keys = Array.from({ length: 1000 }, (_, i) => `k${i}`)
    for (const key of keys) await one.store.acquire(one.request('a', { key }))
    servers[1]?.restartEmpty()
    const before = one.to[1]?.callsOf('acquire').length ?? 0
    one.to[1]?.always('acquire', { delayBeforeMs: 10 })
    await one.ask(one.store.renew(keys.map((key) => ({ key, claim: 'a', ttlMs: TTL_MS }))))
    const under = () => (one.to[1]?.callsOf('acquire').length ?? 0) - before
    expect(under()).toBeGreaterThan(0)
    expect(under()).toBeLessThan(50)
    await clock.advance(1_000)
    expect(under()).toBe(1000)
    expect(await servers[1]?.holder('k999')).toBe('a')
  })
})

describe('a node that restarted without its data', () => {
  /** `a` holds on a bare majority, one node of which comes back empty. */
  const bareMajority = async (waitAfterLossMs: number) => {
    const made = world(3)
    const one = made.client({ waitAfterLossMs })
    one.cut(2)
    await one.granted('a')
    made.servers[1]?.restartEmpty()
    const two = made.client({ waitAfterLossMs })
    return { ...made, two }
  }

  it('breaks exclusion when the lease was held by no more than a majority: the negative control', async () => {
    const { two } = await bareMajority(0)
    expect(await two.acquire('b')).toMatchObject({ is: 'granted' })
  })

  it('has no vote for one ttl with waitAfterLossMs, and then has', async () => {
    const { two, clock, holders } = await bareMajority(TTL_MS)
    const answer = await two.acquire('b')
    expectStoreError(answer, 'none')
    expect(String(answer)).toContain('has no vote yet')
    await clock.advance(1)
    expect(await holders()).toEqual(['a', undefined, undefined])
    await clock.advance(TTL_MS)
    expect(await two.acquire('c')).toMatchObject({ is: 'granted' })
  })
})

describe('a node that may have forgotten something', () => {
  it('has no vote in renewals either, until it has been up for long enough', async () => {
    const { client, servers, clock } = world(3)
    const one = client({ waitAfterLossMs: TTL_MS })
    await one.granted('a')
    servers[1]?.restartEmpty()
    one.cut(2)
    expect(await one.renewed('a')).toBe('unknown') // of nodes 0 and 1 only 0 has a vote
    one.heal(2)
    for (let round = 0; round < 4; round++) {
      await clock.advance(TTL_MS / 3)
      expect(await one.renewed('a')).toBe('renewed')
    }
    one.cut(2)
    expect(await one.renewed('a')).toBe('renewed') // healed, and up for longer than a ttl
  })
})

describe('tokens', () => {
  it('take one round when the nodes agree, also when they are ahead of the clock of the client', async () => {
    const { client, clock } = world(3)
    const one = client()
    let last = 0
    for (const claim of ['a', 'b', 'c']) {
      const { token } = await one.granted(claim, { tokenFloor: 2 ** 52 })
      expect(token).toBeGreaterThan(last)
      last = token
      await one.released(claim)
      await clock.advance(1)
    }
    for (const to of one.to) expect(to.callsOf('acquire')).toHaveLength(3)
  })

  it('follow the wall clock, so that they rise after every node has lost its data', async () => {
    const { client, clock, servers } = world(3)
    const first = await client().granted('a')
    for (const server of servers) server.restartEmpty()
    await clock.advance(1)
    expect((await client().granted('b')).token).toBeGreaterThan(first.token)
    expect(first.token).toBeGreaterThanOrEqual(Date.UTC(2026, 0, 1) * 1000)
  })

  it('are written back again when a greater one comes late', async () => {
    const { client, servers, clock } = world(5)
    const one = client()
    for (const [place, floor] of [
      [0, 2 ** 51],
      [1, 2 ** 52],
    ] as const) {
      await servers[place]?.connect().acquire(one.request('x', { tokenFloor: floor }))
      await servers[place]?.connect().withdraw('k', 'x')
    }
    one.to[1]?.next('acquire', { delayBeforeMs: 10 })
    for (const place of [2, 3, 4]) one.to[place]?.next('acquire', {}, { delayBeforeMs: 20 })
    one.cut(4)
    const { token } = await one.granted('a')
    await clock.advance(NODE_TIMEOUT_MS)
    const at = await Promise.all(servers.map(tokenAt))
    expect(at.filter((other) => other === token).length).toBeGreaterThanOrEqual(3)
  })
})

describe('under the client', () => {
  const clientOn = (nodes: number) => {
    const made = world(nodes)
    let seed = 0
    const process = () => {
      const one = made.client()
      const random = seededRandom(++seed)
      const leases = createLeases({ store: one.store, clock: made.clock, random, ttlMs: TTL_MS, holder: 'test' })
      return { one, leases }
    }
    return { ...made, process }
  }

  it('holds, renews, hands over and releases with a node hung all the time', async () => {
    const { process, clock, holders } = clientOn(3)
    const { one, leases } = process()
    one.cut(0)
    const first = await clock.advanceUntil(leases.acquire('k'))
    const second = leases.acquire('k', { waitMs: 60_000 })
    await clock.advance(5 * TTL_MS)
    expect(first.held).toBe(true)
    await clock.advanceUntil(first.release())
    const next = await clock.advanceUntil(second)
    expect(next.token).toBeGreaterThan(first.token)
    await clock.advanceUntil(next.release())
    await clock.advanceUntil(leases.close())
    one.heal(0)
    await clock.advance(TTL_MS)
    expect(await holders()).toEqual([undefined, undefined, undefined])
  })

  it('loses a lease at its deadline when a majority hangs, and tells a store in trouble from one that is taken', async () => {
    const { process, clock } = clientOn(3)
    const { one, leases } = process()
    const lease = await clock.advanceUntil(leases.acquire('k'))
    one.cut(0, 1)
    await clock.advance(TTL_MS)
    expect(lease.held).toBe(false)
    expect(lease.signal.reason).toMatchObject({ reason: 'deadline' })
    const failed = await clock.advanceUntil(leases.acquire('other', { waitMs: 500 }).catch((error: unknown) => error))
    expect(failed).toBeInstanceOf(StoreError)
  })

  it.each([1, 2, 3])(
    'a majority that refuses connections is a StoreError, never "held", after %i attempts (G13)',
    async (maxAttempts) => {
      const { process, clock } = clientOn(3)
      const { one, leases } = process()
      for (const place of [0, 1]) one.to[place]?.always('any', { dropBefore: 'error' })
      const retry = fixed({ delayMs: 50, maxAttempts })
      expect(await clock.advanceUntil(leases.acquire('k', { retry }).catch((error: unknown) => error))).toBeInstanceOf(
        StoreError,
      )
    },
  )

  it('goes on with one node down for good while two contend for long', async () => {
    const { process, clock } = clientOn(3)
    const [a, b] = [process(), process()]
    for (const { one } of [a, b]) one.cut(2)
    const tokens: number[] = []
    const work = async ({ leases }: typeof a) => {
      for (let round = 0; round < 10; round++)
        await leases.hold('k', { waitMs: 60_000 }, async ({ token }) => void tokens.push(token))
    }
    await clock.advanceUntil(Promise.all([work(a), work(b)]), 120_000)
    expect(tokens).toHaveLength(20)
    expect(tokens).toEqual([...tokens].sort((x, y) => x - y))
    expect(new Set(tokens).size).toBe(20)
  })

  it('makes a handover whose reply was lost safe', async () => {
    const { process, clock } = clientOn(3)
    const { one, leases } = process()
    const first = await clock.advanceUntil(leases.acquire('k'))
    const second = leases.acquire('k')
    await clock.settle()
    for (const to of one.to) to.next('acquire', { dropAfter: true })
    await clock.advanceUntil(first.release())
    const next = await clock.advanceUntil(second)
    expect(next.token).toBeGreaterThan(first.token)
    await clock.advanceUntil(next.release())
  })
})
