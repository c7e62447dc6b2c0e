// What goes wrong with one etcd and the network to it, on a real server behind a proxy: replies that are lost, leases that run out
// under a hung holder, a compaction under a watch, tokens of sessions that are no longer valid. Cases of the field by number.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/lease/clock.js'
import { LeaseLostError, StoreError } from '../../src/lease/errors.js'
import { createLeases } from '../../src/lease/leases.js'
import type { LeaseStore } from '../../src/store/contract.js'
import { Gateway } from '../../src/stores/etcd/gateway.js'
import { etcdStore } from '../../src/stores/etcd/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import { freePort } from '../servers/ports.js'
import { waitingFor } from '../store/signals.js'
import { naivePlace } from './naive.js'
import { EtcdServer, etcdctl, pass, post, waitUntil } from './servers.js'

const HOUR_MS = 3_600_000

describe('etcd behind a proxy', () => {
  let server: EtcdServer
  let proxy: TcpProxy
  let far: LeaseStore
  let near: LeaseStore
  let keys = 0
  const fresh = () => `key ${keys++}`
  const request = (key: string, claim: string, more = {}) => ({
    key,
    claim,
    holder: `of ${claim}`,
    ttlMs: HOUR_MS,
    ...more,
  })
  const grant = (key: string, claim: string) => ({ key, claim, holder: `of ${claim}`, token: 1 })
  const failed = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    )

  beforeAll(async () => {
    server = await EtcdServer.start()
    proxy = await tcpProxy({ port: server.port })
    far = etcdStore({ endpoints: [server.url] })
    near = etcdStore({ endpoints: [`http://127.0.0.1:${proxy.port}`] })
  }, 90_000)
  afterEach(() => proxy?.heal())
  afterAll(async () => {
    await near?.close()
    await far?.close()
    await proxy?.close()
    await server?.stop()
  })

  /** Sends it, lets it be applied, loses the reply. What the caller is told. */
  async function replyLost(work: () => Promise<unknown>, applied: () => Promise<unknown>) {
    const swallowed = proxy.counts.bytesSwallowed
    proxy.swallowReplies()
    const told = failed(work())
    await waitUntil('it was applied', applied)
    await waitUntil('a reply that is lost', () => proxy.counts.bytesSwallowed > swallowed)
    proxy.heal()
    expect(await told).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' })
  }

  it('C08: every verb whose request was applied and whose reply was lost is unknown, and its repeat finds its own', async () => {
    const key = fresh()
    const warm = [fresh(), fresh(), fresh()]
    for (const one of warm) await near.acquire(request(one, 'warm'))
    for (const one of warm) await near.release(grant(one, 'warm')) // etcd leases are at hand, and one for what ended
    await replyLost(
      () => near.acquire(request(key, 'a')),
      () => far.inspect(key),
    )
    const token = (await far.inspect(key))?.token
    expect(await near.acquire(request(key, 'a'))).toMatchObject({ is: 'granted', token })

    await replyLost(
      () => near.acquire(request(key, 'b', { replaces: 'a' })),
      async () => (await far.inspect(key))?.claim === 'b',
    )
    const again = await near.acquire(request(key, 'b', { replaces: 'a' }))
    expect(again).toMatchObject({ is: 'granted', replaced: true })
    expect(again.token).toBeGreaterThan(token ?? 0)

    const lease = (await post(server.url, '/v3/kv/range', { key: btoa(`holdfast/h/${key}`) })) as {
      kvs: { lease: string }[]
    }
    const left = async () => (await post(server.url, '/v3/lease/timetolive', { ID: lease.kvs[0]?.lease })).TTL
    const before = Number(await left())
    await waitUntil('a second to pass', async () => Number(await left()) < before)
    const low = Number(await left())
    await replyLost(
      () => near.renew([{ key, claim: 'b', ttlMs: HOUR_MS }]),
      async () => Number(await left()) > low,
    )
    expect(await near.renew([{ key, claim: 'b', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])

    await replyLost(
      () => near.release(grant(key, 'b')),
      async () => (await far.inspect(key))?.state === 'free',
    )
    expect(await near.release(grant(key, 'b'))).toEqual({ is: 'released' })

    await near.acquire(request(key, 'c'))
    await replyLost(
      () => near.withdraw(key, 'c'),
      async () => (await far.inspect(key))?.state === 'free',
    )
    await near.withdraw(key, 'c')
    expect(await near.acquire(request(key, 'c'))).toMatchObject({ is: 'held', because: 'ended' })
  })

  it('C08: an inspection and a revocation whose reply was lost are unknown too, and can be asked for again', async () => {
    let lose = () => {}
    const store = etcdStore({
      endpoints: [`http://127.0.0.1:${proxy.port}`],
      fetch: (url, init) => {
        if (init.body.includes('"compare"')) lose() // not of what a revocation reads before
        return fetch(url, init)
      },
    })
    const key = fresh()
    const { token } = await far.acquire(request(key, 'a'))
    await replyLost(
      () => store.inspect(key),
      async () => true,
    )
    expect(await store.inspect(key)).toMatchObject({ state: 'held', claim: 'a', token })

    for (const force of [false, true]) {
      const swallowed = proxy.counts.bytesSwallowed
      lose = proxy.swallowReplies.bind(proxy)
      const told = failed(store.revoke(key, { force }))
      await waitUntil('it was applied', async () => {
        const at = await far.inspect(key)
        return force ? at?.state === 'free' : at?.revoked
      })
      await waitUntil('a reply that is lost', () => proxy.counts.bytesSwallowed > swallowed)
      lose = () => {}
      proxy.heal()
      expect(await told).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' })
      const again = await store.revoke(key, { force })
      if (force) expect(again).toBeNull()
      else expect(again).toMatchObject({ claim: 'a', revoked: true })
    }
    expect(await far.acquire(request(key, 'a'))).toMatchObject({ is: 'held', because: 'ended' })
    await store.close()
  })

  it('C09, G13: no connection is outcome none; a hung server is unknown, within the time that was given', async () => {
    const closed = `http://127.0.0.1:${await freePort()}`
    const nobody = etcdStore({ endpoints: [closed] })
    expect(await failed(nobody.acquire(request('x', 'a')))).toMatchObject({ outcome: 'none' })
    const second = etcdStore({ endpoints: [closed, server.url] })
    expect(await second.acquire(request(fresh(), 'a'))).toMatchObject({ is: 'granted' })
    await near.withdraw(fresh(), 'a') // the etcd lease for what ended is at hand
    proxy.hang()
    const error = await failed(near.release(grant(fresh(), 'a'), { timeoutMs: 1_000 }))
    expect(error).toBeInstanceOf(StoreError)
    expect(error).toMatchObject({ outcome: 'unknown' })
  })

  it('C46, C37: a holder whose server hangs stops at its deadline; another gets in after the term, and the late renewal is lost', async () => {
    const client = createLeases({ store: near, closeStore: false })
    const key = fresh()
    const lease = await client.acquire(key, { ttlMs: 3_000, marginMs: 500 })
    proxy.hang()
    await waitUntil('the loss', () => lease.signal.aborted, 10_000)
    expect(lease.signal.reason).toMatchObject({ reason: 'deadline' })
    const next = await waitUntil('the next holder', async () => {
      const answer = await far.acquire(request(key, 'next'))
      return answer.is === 'granted' ? answer : undefined
    })
    expect(next.token).toBeGreaterThan(lease.token)
    proxy.heal()
    const late = await near.renew([{ key, claim: lease.grant.claim, ttlMs: 3_000 }])
    expect(late).toMatchObject([{ is: 'lost' }])
    expect(await far.inspect(key)).toMatchObject({ claim: 'next' })
    await client.close().catch(() => {})
  })

  it('C37: an etcd lease that is revoked under its holder is a loss at the next renewal, and the next acquire makes a new one', async () => {
    const client = createLeases({ store: far, closeStore: false })
    const key = fresh()
    const lease = await client.acquire(key, { ttlMs: 30_000 })
    const { kvs } = (await post(server.url, '/v3/kv/range', { key: btoa(`holdfast/h/${key}`) })) as {
      kvs: { lease: string }[]
    }
    await post(server.url, '/v3/lease/revoke', { ID: kvs[0]?.lease })
    await expect(lease.renew()).rejects.toMatchObject({ reason: 'expired' })
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError)
    const next = await client.acquire(key)
    expect(next.token).toBeGreaterThan(lease.token)
    await next.release()
    await client.close()
  })

  it('G13: what is in the way and answers with a page of its own is told; whether anything was done is unknown', async () => {
    let isPage = false
    const store = etcdStore({
      endpoints: [server.url],
      async fetch(url, init) {
        const response = await fetch(url, init)
        return isPage ? { status: 200, body: null, text: async () => '<html>Log in</html>' } : response
      },
    })
    const key = fresh()
    await store.acquire(request(key, 'a', { shares: true }))
    isPage = true
    const told = { code: 'STORE_ERROR', outcome: 'unknown', message: expect.stringMatching(/no JSON.*Log in/) }
    const others = [fresh(), fresh()]
    const together = others.map((one) => failed(store.acquire(request(one, 'a', { shares: true }))))
    for (const error of await Promise.all(together)) expect(error).toMatchObject(told)
    expect(await failed(store.inspect(key))).toMatchObject(told)
    expect(await failed(store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }]))).toMatchObject({ code: 'STORE_ERROR' })
    await store.close()
  })

  it('C50: a value that Holdfast did not write is left alone, told, and ends a wait', async () => {
    const store = etcdStore({ endpoints: [server.url], prefix: 'foreign/' })
    const client = createLeases({ store })
    for (const value of ['text', 'null', '5']) {
      const key = fresh()
      await etcdctl(server.url, 'put', `foreign/r/${key}`, value)
      await etcdctl(server.url, 'put', `foreign/h/${key}`, 'text')
      expect(await failed(client.acquire(key, { waitMs: Number.POSITIVE_INFINITY }))).toMatchObject({
        code: 'STORE_ERROR',
        outcome: 'none',
        lasting: true,
        message: expect.stringMatching(/did not write/),
      })
      expect(await etcdctl(server.url, 'get', '--print-value-only', `foreign/r/${key}`)).toBe(value)
    }
    await client.close()
  })

  it('a store whose prefix is in another alphabet is told apart by its server as well', async () => {
    const store = etcdStore({ endpoints: [server.url], prefix: 'замки/' })
    expect(await store.acquire(request('ключ', 'a'))).toMatchObject({ is: 'granted' })
    expect(await store.serverId()).toBe(await far.serverId?.())
    await store.close()
  })

  it('C37: an etcd lease that was given back and has gone since is not used again', async () => {
    const store = etcdStore({ endpoints: [server.url] })
    const key = fresh()
    await store.acquire(request(key, 'a'))
    const { leases } = (await post(server.url, '/v3/lease/leases', {})) as { leases: { ID: string }[] }
    await store.release(grant(key, 'a'))
    for (const { ID } of leases) await post(server.url, '/v3/lease/revoke', { ID })
    expect(await store.acquire(request(key, 'b'))).toMatchObject({ is: 'granted' })
    expect(await store.renew([{ key, claim: 'b', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
    expect(await store.release(grant(key, 'b'))).toEqual({ is: 'released' })
    await store.close()
  })

  it('C37: a waiter whose place is gone joins again, and whoever waits longer than a term gets a live lease', async () => {
    const client = createLeases({ store: far, closeStore: false })
    const key = fresh()
    await far.acquire(request(key, 'holder'))
    const waiting = client.acquire(key, { ttlMs: 2_000, waitMs: 60_000 })
    await waitUntil('a place in line', async () => (await far.inspect(key))?.waiters.length === 1)
    const line = { key: btoa(`holdfast/h/${key}\0`), range_end: btoa(`holdfast/h/${key}\x01`) }
    await post(server.url, '/v3/kv/deleterange', line)
    await waitUntil('the place again', async () => (await far.inspect(key))?.waiters.length === 1)
    await pass(4_000) // two terms of the waiter
    await far.release(grant(key, 'holder'))
    const lease = await waiting
    await lease.renew()
    expect(lease.held).toBe(true)
    await lease.release()
    await client.close()
  })

  it('C37, negative control: who waits on an etcd lease that nobody keeps is told that it is in, with nothing behind it', async () => {
    const name = fresh()
    const holder = await naivePlace(server.url, name, 120_000)
    expect(await holder.enter()).toBe('in')
    const waiter = await naivePlace(server.url, name, 2_000)
    const entered = waiter.enter()
    await waitUntil('the end of its etcd lease', async () => !(await waiter.stands()))
    await holder.leave()
    expect(await entered).toBe('in')
    const third = await naivePlace(server.url, name, 120_000)
    expect(await third.enter()).toBe('in') // beside the one that was told so
  })

  it('C12: a compaction, and a stream that broke, lose no wake-up', async () => {
    const key = fresh()
    await far.acquire(request(key, 'a'))
    const ending = new AbortController()
    let hints = 0
    const watching = (async () => {
      for await (const _ of near.watch?.(key, { claim: 'b', signal: ending.signal }) ?? []) hints++
    })()
    await waitUntil('the stream', () => proxy.counts.open > 0)
    proxy.refuse()
    proxy.cut()
    await far.release(grant(key, 'a'))
    for (let i = 0; i < 5; i++) await etcdctl(server.url, 'put', 'noise', String(i))
    const { header } = (await post(server.url, '/v3/kv/range', { key: btoa('noise') })) as {
      header: { revision: string }
    }
    await etcdctl(server.url, 'compact', header.revision)
    proxy.heal()
    await waitUntil('a hint', () => hints > 0)
    ending.abort()
    await watching
  })

  it('C33: streams that end at once, as behind a proxy that knows none, are asked for ever more slowly, and looks wake the waiter', async () => {
    let asked = 0
    const store = etcdStore({
      endpoints: [server.url],
      async fetch(url, init) {
        asked++
        const response = await fetch(url, init)
        if (!url.endsWith('/v3/watch')) return response
        await response.body?.cancel()
        return { status: response.status, body: null, text: async () => '' }
      },
    })
    const key = fresh()
    await far.acquire(request(key, 'a'))
    const ending = new AbortController()
    let hints = 0
    const watching = (async () => {
      for await (const _ of store.watch(key, { claim: 'b', signal: ending.signal })) hints++
    })()
    await pass(3_000)
    expect(asked).toBeLessThan(30)
    expect(hints).toBe(0)
    await far.release(grant(key, 'a'))
    await waitUntil('a hint', () => hints > 0)
    ending.abort()
    await watching
    await store.close()
  })

  it('streams that break after a request has found their endpoint dead do not turn away from the next, which is not', async () => {
    const own = await tcpProxy({ port: server.port })
    const endpoints = [`http://127.0.0.1:${own.port}`, server.url]
    const gateway = new Gateway({ endpoints }, systemClock)
    const body = JSON.stringify({ create_request: { key: btoa('nobody writes it') } })
    let lines = 0
    const streams = Array.from({ length: 3 }, async () => {
      for await (const _ of gateway.stream('a watch', '/v3/watch', body, new AbortController().signal)) lines++
    })
    const ends = Promise.allSettled(streams)
    await waitUntil('the streams', () => lines === 3)
    own.hang()
    const limits = { untilMonoMs: systemClock.monoMs() + 300, signal: undefined }
    expect(await failed(gateway.ask('a look', '/v3/kv/range', { key: btoa('x') }, limits))).toMatchObject({
      outcome: 'unknown',
    })
    expect(gateway.endpoint).toBe(server.url)
    own.cut()
    expect((await ends).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    expect(gateway.endpoint).toBe(server.url)
    gateway.close()
    await own.close()
  })

  it('a stream that has ended leaves nothing in its signal, and one that is open ends with the store', async () => {
    const gateway = new Gateway({ endpoints: [server.url] }, systemClock)
    const body = JSON.stringify({ create_request: { key: btoa('nobody writes it') } })
    const { signal } = new AbortController()
    for (let i = 0; i < 3; i++) {
      for await (const line of gateway.stream('a watch', '/v3/watch', body, signal)) {
        expect(line).toMatchObject({ result: { created: true } })
        break
      }
    }
    expect(waitingFor(signal)).toBe(0)
    let lines = 0
    const open = (async () => {
      for await (const _ of gateway.stream('a watch', '/v3/watch', body, signal)) lines++
    })()
    await waitUntil('the stream', () => lines > 0)
    gateway.close()
    await open
    expect(waitingFor(signal)).toBe(0)
  })

  it.each([200, 500, 999, 1_001, 1_500])(
    'C03: a ttl of %i ms lasts at least so long, and never less',
    async (ttlMs) => {
      const key = fresh()
      const sentMs = performance.now()
      const answer = await far.acquire(request(key, 'a', { ttlMs }))
      expect(answer).toMatchObject({ is: 'granted' })
      const { ttlMs: granted } = answer as { ttlMs: number }
      expect(granted).toBeGreaterThanOrEqual(ttlMs)
      await waitUntil('the end of the term', async () => (await far.acquire(request(key, 'b'))).is === 'granted')
      expect(performance.now() - sentMs).toBeGreaterThanOrEqual(ttlMs)
    },
  )

  it('C20: renewals that overlap are all renewed, and shorten nothing', async () => {
    const key = fresh()
    await far.acquire(request(key, 'a', { ttlMs: 5_000 }))
    const outcomes = await Promise.all(
      [60_000, 5_000, 30_000, 60_000].map((ttlMs) => far.renew([{ key, claim: 'a', ttlMs }])),
    )
    expect(outcomes.flat().map(({ is }) => is)).toEqual(['renewed', 'renewed', 'renewed', 'renewed'])
    expect((await far.inspect(key))?.remainingMs).toBeGreaterThan(50_000)
  })

  it('a thousand leases are renewed by few requests, each with an outcome of its own', async () => {
    const store = etcdStore({
      endpoints: [server.url],
      fetch: (url, init) => {
        sent++
        return fetch(url, init)
      },
    })
    let sent = 0
    const many = Array.from({ length: 1_000 }, () => fresh())
    for (let first = 0; first < many.length; first += 50) {
      await Promise.all(many.slice(first, first + 50).map((key) => store.acquire(request(key, 'a'))))
    }
    await far.revoke(many[3] ?? '')
    await far.withdraw(many[7] ?? '', 'a')
    sent = 0
    const outcomes = await store.renew(
      many.map((key) => ({ key, claim: 'a', ttlMs: HOUR_MS })),
      { timeoutMs: 30_000 },
    )
    expect(sent).toBeLessThan(60)
    expect(outcomes.map((one) => (one.is === 'lost' ? one.reason : one.is)).filter((is) => is !== 'renewed')).toEqual([
      'revoked',
      'released',
    ])
    await store.close()
  })
})

describe('options', () => {
  it.each([
    [{}, 'endpoints'],
    [{ endpoints: [] }, 'endpoints'],
    [{ endpoints: ['127.0.0.1:2379'] }, 'endpoints'],
    [{ endpoints: ['http://u:p@h:1'] }, 'endpoints'],
    [{ endpoints: ['http://h:99999'] }, 'endpoints'],
    [{ endpoints: ['http://a b:1'] }, 'endpoints'],
    [{ endpoints: ['http://h:1'], user: 'x' }, 'user'],
    [{ endpoints: ['http://h:1'], user: 7, password: 'x' }, 'user'],
    [{ endpoints: ['http://h:1'], user: 'x', password: 7 }, 'password'],
    [{ endpoints: ['http://h:1'], prefix: '' }, 'prefix'],
    [{ endpoints: ['http://h:1'], endedRetentionMs: -1 }, 'endedRetentionMs'],
    [{ endpoints: ['http://h:1'], fetch: 7 }, 'fetch'],
  ])('%j is refused, naming %s', (options, option) => {
    expect(() => etcdStore(options as never)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT', option }))
  })
})
