// What each guard of the quorum keeps from happening, where several requests of one claim, or a request and the end of its claim,
// cross each other. Every test fails without its guard.
import { describe, expect, it } from 'vitest'
import { StoreError } from '../../src/index.js'
import { expectStoreError, NODE_TIMEOUT_MS, TTL_MS, tokenAt, world } from './world.js'

/** `b` holds nodes 0 and 1 of three, and is given back by `free`. */
async function heldByOther() {
  const made = world(3)
  const two = made.client()
  two.cut(2)
  await two.granted('b')
  const one = made.client()
  const free = () => two.store.release({ key: 'k', claim: 'b', token: 1, holder: 'b' })
  return { ...made, one, free, ask: () => one.store.acquire(one.request('a')).catch((error: Error) => error) }
}

describe('two attempts of one claim', () => {
  it.each([
    ['before', 40],
    ['after', 60],
  ])(
    'one is granted while the other is refused, whose only vote came %s the refusals: nothing is taken back',
    async (_, voteMs) => {
      const { one, free, ask, clock, holders } = await heldByOther()
      for (const place of [0, 1]) one.to[place]?.next('acquire', { delayAfterMs: 50 })
      one.to[2]?.next('acquire', { delayAfterMs: voteMs })
      const first = ask()
      await clock.advance(10)
      await free()
      expect(await clock.advanceUntil(ask())).toMatchObject({ is: 'granted' })
      await clock.advanceUntil(first)
      await clock.advance(5 * NODE_TIMEOUT_MS)
      expect(await holders()).toEqual(['a', 'a', 'a'])
      for (const to of one.to) expect(to.callsOf('withdraw')).toEqual([])
      expect(await one.renewed('a')).toBe('renewed')
    },
  )

  it('a vote for the first that comes while the second is under way is left to that', async () => {
    const { one, free, ask, clock, holders } = await heldByOther()
    for (const place of [0, 1]) one.to[place]?.next('acquire', { delayAfterMs: 20 }, { delayAfterMs: 20 })
    one.to[2]?.next('acquire', { delayAfterMs: 30 }, { delayAfterMs: 20 })
    const first = ask()
    await clock.advance(10)
    await free()
    expect(await clock.advanceUntil(first)).toMatchObject({ is: 'held' })
    const second = ask()
    expect(await clock.advanceUntil(second)).toMatchObject({ is: 'granted' })
    await clock.advance(5 * NODE_TIMEOUT_MS)
    expect(await holders()).toEqual(['a', 'a', 'a'])
  })

  it('one fails and is withdrawn: the votes of the other count no more', async () => {
    const { client, clock, holders } = world(3)
    const one = client()
    const ask = () => one.store.acquire(one.request('a')).catch((error: Error) => error)
    for (const to of one.to) to.next('acquire', { delayAfterMs: 50 }, { dropBefore: 'error' })
    const first = ask()
    await clock.advance(10)
    expectStoreError(await clock.advanceUntil(ask()), 'none')
    expect(await clock.advanceUntil(first)).toMatchObject({ is: 'held', because: 'ended' })
    await clock.advance(5 * NODE_TIMEOUT_MS)
    expect(await holders()).toEqual([undefined, undefined, undefined])
  })
})

describe('votes are taken back', () => {
  it('of a node that lags behind, where a majority holds for another: it is held, and the claim may ask again', async () => {
    const { one, free, ask, clock, servers } = await heldByOther()
    for (const place of [0, 1]) one.to[place]?.next('acquire', { delayAfterMs: 5 })
    const held = { is: 'held', because: 'held', holder: 'holder of b' }
    expect(await clock.advanceUntil(ask())).toMatchObject(held)
    await clock.advance(NODE_TIMEOUT_MS)
    expect(await servers[2]?.holder()).toBeUndefined()
    expect(one.to.map((to) => to.callsOf('withdraw').length)).toEqual([0, 0, 1])
    await free()
    expect(await clock.advanceUntil(ask())).toMatchObject({ is: 'granted' })
  })

  it('where a node failed before the refusals came, and may have applied it', async () => {
    const { one, ask, clock, servers } = await heldByOther()
    for (const place of [0, 1]) one.to[place]?.next('acquire', { delayAfterMs: 5 })
    one.to[2]?.next('acquire', { dropAfter: 'error' })
    expect(await clock.advanceUntil(ask())).toMatchObject({ is: 'held' })
    await clock.advance(NODE_TIMEOUT_MS)
    expect(await servers[2]?.holder()).toBeUndefined()
  })

  it('of a node that has none for now, when its grant comes after the refusal', async () => {
    const { client, clock, servers } = world(3, undefined, { waitAfterLossMs: TTL_MS })
    const two = client()
    two.cut(2)
    await two.granted('b')
    servers[2]?.restartEmpty()
    const one = client()
    one.to[2]?.next('acquire', { delayAfterMs: 20 })
    expect(await one.acquire('a')).toMatchObject({ is: 'held' })
    await clock.advance(NODE_TIMEOUT_MS)
    expect(await servers[2]?.holder()).toBeUndefined()
  })
})

describe('a handover', () => {
  it('ends the attempt of the claim that is passed on, whatever that is answered', async () => {
    const { client, clock, holders } = world(3)
    const one = client()
    for (const to of one.to) to.next('acquire', { delayAfterMs: 50 })
    const first = one.store.acquire(one.request('a'))
    await clock.advance(10)
    expect(await one.acquire('b', { replaces: 'a' })).toMatchObject({ is: 'granted', replaced: true })
    expect(await clock.advanceUntil(first)).toMatchObject({ is: 'held', because: 'ended' })
    expect(await holders()).toEqual(['b', 'b', 'b'])
  })

  it('from a claim whose term is over says so, although a node that lags behind still keeps it, and another has not answered (G10)', async () => {
    const { client, clock, servers } = world(3)
    const one = client()
    one.to[0]?.next('acquire', { delayBeforeMs: 50 })
    await one.granted('a')
    await clock.advance(TTL_MS)
    expect(await servers[0]?.holder()).toBe('a')
    for (const to of one.to.slice(2)) to.next('acquire', { delayAfterMs: 50 }, { delayAfterMs: 50 })
    expect(await one.acquire('b', { replaces: 'a' })).toMatchObject({ is: 'granted', replaced: false })
    expect(await one.acquire('b', { replaces: 'a' })).toMatchObject({ is: 'granted', replaced: false })
  })

  it('is not undone by the healing of the old claim', async () => {
    const { client, clock, servers, holders } = world(3)
    const one = client()
    await one.granted('a')
    servers[1]?.restartEmpty()
    one.to[1]?.next('renew', { delayAfterMs: 20 })
    const renewal = one.store.renew([{ key: 'k', claim: 'a', ttlMs: TTL_MS }])
    await clock.advance(10)
    one.to[1]?.next('acquire', { dropBefore: true })
    expect(await one.acquire('b', { replaces: 'a' })).toMatchObject({ is: 'granted' })
    await clock.advanceUntil(renewal)
    await clock.advance(5 * NODE_TIMEOUT_MS)
    expect(await holders()).toEqual(['b', undefined, 'b'])
  })

  it('that fails ends both claims everywhere', async () => {
    const { client, clock, holders } = world(3)
    const one = client()
    await one.granted('a')
    for (const place of [1, 2]) one.to[place]?.next('acquire', { dropBefore: 'error' })
    expectStoreError(await one.acquire('b', { replaces: 'a' }), 'none')
    await clock.advance(5 * NODE_TIMEOUT_MS)
    expect(await holders()).toEqual([undefined, undefined, undefined])
  })

  it('that is refused ends both claims where it may still arrive', async () => {
    const { one, clock, servers } = await heldByOther()
    await servers[2]?.connect().acquire(one.request('a'))
    one.to[2]?.next('acquire', { dropBefore: true })
    expect(await one.acquire('c', { replaces: 'a' })).toMatchObject({ is: 'held' })
    await clock.advance(5 * NODE_TIMEOUT_MS)
    expect(await servers[2]?.holder()).toBeUndefined()
  })
})

describe('a revoked lease', () => {
  it('keeps its term, also when its claim asks again and a node that lost it grants', async () => {
    const { client, clock, servers } = world(3)
    const one = client()
    await one.granted('a')
    expect((await one.ask(one.store.revoke('k'))).answer).toMatchObject({ claim: 'a' })
    servers[2]?.restartEmpty()
    for (const place of [0, 1]) one.to[place]?.next('acquire', { delayAfterMs: 5 })
    expect(await one.acquire('a')).toMatchObject({ is: 'held', because: 'revoked' })
    await clock.advance(5 * NODE_TIMEOUT_MS)
    expect(await client().acquire('c')).toMatchObject({ is: 'held' })
  })

  it('keeps its term when a renewal says so, also on the nodes that did not hear of it', async () => {
    const { client, clock, servers } = world(5)
    const one = client()
    await one.granted('a')
    for (const place of [0, 1, 2]) await servers[place]?.connect().revoke('k')
    expect(await one.renewed('a')).toBe('lost: revoked')
    await clock.advance(5 * NODE_TIMEOUT_MS)
    for (const to of one.to) expect(to.callsOf('withdraw')).toEqual([])
  })

  it('by force is freed also where the node did not answer', async () => {
    const { client, clock, holders } = world(3)
    const one = client()
    await one.granted('a')
    one.to[2]?.next('revoke', { dropBefore: true })
    expect((await one.ask(one.store.revoke('k', { force: true }))).answer).toMatchObject({ claim: 'a' })
    await clock.advance(5 * NODE_TIMEOUT_MS)
    expect(await holders()).toEqual([undefined, undefined, undefined])
  })
})

describe('a renewal', () => {
  it('has no vote of a node that has it again, and may have forgotten others', async () => {
    const { client, servers, clock, holders } = world(3)
    const one = client({ waitAfterLossMs: TTL_MS })
    await one.granted('a')
    servers[1]?.restartEmpty()
    expect(await one.renewed('a')).toBe('renewed')
    await clock.advance(1)
    expect(await holders()).toEqual(['a', 'a', 'a'])
    one.cut(2)
    expect(await one.renewed('a')).toBe('unknown')
  })

  it('that a node leaves out of its answer is unknown there', async () => {
    const { client } = world(3)
    const one = client()
    await one.granted('a')
    for (const to of one.to.slice(1)) Object.assign(to, { renew: async () => [] })
    expect(await one.renewed('a')).toBe('unknown')
  })

  it('is refused by the first that hears that two nodes are one server (C35)', async () => {
    const { client } = world(2)
    const one = client({ places: [0, 1, 0] })
    const { answer } = await one.ask(one.store.renew([{ key: 'k', claim: 'a', ttlMs: TTL_MS }]))
    expect(answer).toMatchObject({ code: 'INVALID_ARGUMENT', option: 'stores[2]' })
  })

  it('heals a node whose answer came last', async () => {
    const { client, servers, clock, holders } = world(3)
    const one = client()
    await one.granted('a')
    servers[1]?.restartEmpty()
    one.to[1]?.next('renew', { delayAfterMs: 20 })
    expect(await one.renewed('a')).toBe('renewed')
    await clock.advance(NODE_TIMEOUT_MS)
    expect(await holders()).toEqual(['a', 'a', 'a'])
  })

  it('prolongs what this process knows: nothing has to be learned for healing in the second term', async () => {
    const { client, servers, clock, holders } = world(3)
    const one = client()
    await one.granted('a')
    await clock.advance(0.6 * TTL_MS)
    expect(await one.renewed('a')).toBe('renewed')
    await clock.advance(0.6 * TTL_MS)
    servers[1]?.restartEmpty()
    expect(await one.renewed('a')).toBe('renewed')
    await clock.advance(1)
    expect(await holders()).toEqual(['a', 'a', 'a'])
    for (const to of one.to) expect(to.callsOf('inspect')).toEqual([])
  })

  it('counts from its send: what is healed after that term is taken back', async () => {
    const { client, servers, clock } = world(3)
    const one = client({ nodeTimeoutMs: 2 * TTL_MS })
    await one.granted('a')
    await clock.advance(0.8 * TTL_MS)
    servers[1]?.restartEmpty()
    for (const to of one.to) to.next('renew', { delayAfterMs: 0.9 * TTL_MS })
    one.to[1]?.next('acquire', { delayBeforeMs: 0.3 * TTL_MS })
    expect(await one.renewed('a')).toBe('renewed')
    await clock.advance(0.5 * TTL_MS)
    expect(await servers[1]?.inspect()).toMatchObject({ state: 'free', changes: 1 })
  })

  it('sends nothing to a node on which another has the key', async () => {
    const { client, servers, clock } = world(3)
    const one = client()
    await one.granted('a')
    servers[1]?.restartEmpty()
    await servers[1]?.connect().acquire(one.request('x'))
    const before = one.to[1]?.callsOf('acquire').length
    expect(await one.renewed('a')).toBe('renewed')
    await clock.advance(NODE_TIMEOUT_MS)
    expect(one.to[1]?.callsOf('acquire')).toHaveLength(before ?? 0)
  })

  it('of an adopted lease heals with the greatest token that a majority keeps, whoever answers first', async () => {
    const { client, servers, clock } = world(5)
    const one = client()
    one.cut(0)
    const { token } = await one.granted('a', { tokenFloor: 2 ** 51 })
    await servers[0]?.connect().acquire(one.request('a', { tokenFloor: 1 })) // reached by an earlier round only
    servers[4]?.restartEmpty()
    const other = client()
    expect(await other.renewed('a')).toBe('renewed')
    await clock.advance(NODE_TIMEOUT_MS)
    expect(await tokenAt(servers[4])).toBe(token)
  })
})

describe('a term', () => {
  it('is the shortest that the nodes of the majority granted', async () => {
    const { client } = world(3)
    const one = client()
    const { acquire } = one.to[0] as (typeof one.to)[number]
    Object.assign(one.to[0] as object, {
      acquire: async (...given: Parameters<typeof acquire>) => ({ ...(await acquire(...given)), ttlMs: 9 * TTL_MS }),
    })
    one.to[2]?.next('acquire', { delayAfterMs: 5 })
    expect(await one.granted('a')).toMatchObject({ ttlMs: TTL_MS })
  })
})

describe('an answer that comes after its time-out', () => {
  it('tells a release that nothing is on its way any more', async () => {
    const { client, clock, servers } = world(3)
    const one = client({ answersLate: true })
    one.to[2]?.next('acquire', { delayBeforeMs: 3 * NODE_TIMEOUT_MS })
    await one.granted('a')
    await clock.advance(4 * NODE_TIMEOUT_MS)
    expect(await servers[2]?.holder()).toBe('a')
    expect(await one.released('a')).toBe('released')
    await clock.advance(1)
    expect(one.to[2]?.callsOf('release')).toHaveLength(1)
    expect(one.to[2]?.callsOf('withdraw')).toEqual([])
  })

  it('does not bring a release to a node that was told to refuse the claim', async () => {
    const { client, clock, servers } = world(3)
    const one = client({ answersLate: true })
    one.to[2]?.next('acquire', { delayBeforeMs: 3 * NODE_TIMEOUT_MS })
    one.to[2]?.always('withdraw', { delayAfterMs: 5 * NODE_TIMEOUT_MS })
    await one.granted('a')
    expect(await one.released('a')).toBe('released')
    await clock.advance(4 * NODE_TIMEOUT_MS)
    expect(await servers[2]?.holder()).toBeUndefined()
    expect(one.to[2]?.callsOf('release')).toEqual([])
  })
})

describe('the end of a claim', () => {
  it('by release cancels an attempt that is under way', async () => {
    const { client, clock, holders } = world(3)
    const one = client()
    await one.granted('a')
    for (const to of one.to) to.next('acquire', { delayAfterMs: 50 })
    const again = one.store.acquire(one.request('a'))
    await clock.advance(10)
    const release = one.store.release({ key: 'k', claim: 'a', token: 1, holder: 'a' })
    expect(await clock.advanceUntil(again)).toMatchObject({ is: 'held', because: 'ended' })
    await clock.advanceUntil(release)
    await clock.advance(NODE_TIMEOUT_MS)
    expect(await holders()).toEqual([undefined, undefined, undefined])
  })

  it('by withdrawal is tried on until the node that did not answer has confirmed it', async () => {
    const { client, clock, servers } = world(3)
    const one = client()
    await one.granted('a')
    one.to[2]?.next('withdraw', { dropBefore: true }, { dropBefore: 'error' })
    await one.ask(one.store.withdraw('k', 'a'))
    await clock.advance(20 * NODE_TIMEOUT_MS)
    expect(await servers[2]?.holder()).toBeUndefined()
    expect(one.to[2]?.callsOf('withdraw')).toHaveLength(3)
  })

  it('leaves nodes without a vote for the claim while they are being told', async () => {
    const { client, clock } = world(3)
    const one = client()
    for (const to of one.to) to.next('withdraw', { delayBeforeMs: 50 })
    const withdrawal = one.store.withdraw('k', 'a')
    await clock.advance(10)
    expect(await one.acquire('a')).toMatchObject({ is: 'held', because: 'ended' })
    await clock.advanceUntil(withdrawal)
    for (const to of one.to) expect(to.callsOf('acquire')).toEqual([])
  })

  it('is given up after a minute, and a node that is back is not met by all at once', async () => {
    const { client, clock } = world(3)
    const one = client()
    one.to[2]?.hang('withdraw')
    const keys = Array.from({ length: 100 }, (_, i) => `k${i}`)
    for (const key of keys) await one.store.acquire(one.request('a', { key }))
    await Promise.all(keys.map((key) => one.ask(one.store.withdraw(key, 'a'))))
    await clock.advance(1.5 * NODE_TIMEOUT_MS)
    const onTheirWay = one.to[2]?.callsOf('withdraw').filter(({ state }) => state === 'waiting')
    expect(onTheirWay).toHaveLength(16)
    await clock.advance(120_000)
    const atEnd = one.to[2]?.callsOf('withdraw').length
    await clock.advance(120_000)
    expect(one.to[2]?.callsOf('withdraw')).toHaveLength(atEnd ?? 0)
  })
})

describe('a request that was never sent', () => {
  it('is certainly not applied, and is not sent when its node says at last who it is', async () => {
    const { client, clock } = world(1)
    const one = client()
    const to = one.to[0] as (typeof one.to)[number]
    Object.assign(to, { serverId: () => new Promise((resolve) => void clock.setTimer(150, () => resolve('server 0'))) })
    const answer = await one.acquire('a')
    expect(answer).toBeInstanceOf(StoreError)
    expectStoreError(answer, 'none')
    await clock.advance(1_000)
    expect(to.callsOf('acquire')).toEqual([])
  })
})
