// Three members that vote, and what becomes of leases when members die, hang, and come back with old data.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { LeaseHeldError, StaleTokenError, StoreError } from '../../src/lease/errors.js'
import { createLeases } from '../../src/lease/leases.js'
import { etcdFence, etcdStore } from '../../src/stores/etcd/index.js'
import { EtcdCluster, EtcdServer, etcdctl, waitUntil } from './servers.js'

describe('etcd, one member', () => {
  it('C37: killed and started again with its data: the lease is held as before, and a waiter is woken by the release', async () => {
    const server = await EtcdServer.start([])
    const store = () => etcdStore({ endpoints: [server.url] })
    const [holder, waiter] = [1, 2].map(() => createLeases({ store: store(), ttlMs: 30_000 }))
    if (holder === undefined || waiter === undefined) throw new Error('no client')
    try {
      const lease = await holder.acquire('k')
      const waiting = waiter.acquire('k', { waitMs: 60_000 })
      await waitUntil('a place in line', async () => (await store().inspect('k'))?.waiters.length === 1)
      await server.kill()
      await expect(holder.tryAcquire('other')).rejects.toBeInstanceOf(StoreError)
      await server.start()
      await waitUntil('a renewal', () =>
        lease.renew().then(
          () => true,
          () => false,
        ),
      )
      expect(await store().inspect('k')).toMatchObject({ state: 'held', token: lease.token })
      await lease.release()
      const next = await waiting
      expect(next.token).toBeGreaterThan(lease.token)
      await next.release()
      await holder.close()
      await waiter.close()
    } finally {
      await server.stop()
    }
  }, 120_000)
})

describe('etcd, three members', () => {
  let cluster: EtcdCluster
  beforeAll(async () => {
    cluster = await EtcdCluster.start()
  }, 120_000)
  afterAll(() => cluster?.stop())

  it('C33, C37: the leader is killed in mid-hold: the lease is kept, and no token falls; the member comes back with its old data', async () => {
    const store = etcdStore({ endpoints: cluster.urls })
    const client = createLeases({ store, ttlMs: 20_000, closeStore: false })
    const lease = await client.acquire('survives')
    const leader = await cluster.leader()
    await leader.kill()
    await waitUntil(
      'a renewal',
      () =>
        lease.renew().then(
          () => true,
          (error: unknown) => {
            if (!(error instanceof StoreError)) throw error
            return false
          },
        ),
      15_000,
    )
    expect(lease.held).toBe(true)
    const waiting = client.tryAcquire('survives')
    expect(await waiting).toBeNull()
    await leader.start()
    const back = etcdStore({ endpoints: [leader.url] }) // asked straight: it must not answer from old data
    expect(await back.acquire({ key: 'survives', claim: 'b', holder: 'h', ttlMs: 5_000 })).toMatchObject({
      is: 'held',
      token: lease.token,
    })
    await lease.release()
    const next = await back.acquire({ key: 'survives', claim: 'c', holder: 'h', ttlMs: 5_000 })
    expect(next).toMatchObject({ is: 'granted' })
    expect(next.token).toBeGreaterThan(lease.token)
    const fence = etcdFence({ endpoints: cluster.urls })
    await fence.put({ key: 'survives', token: next.token, claim: 'c', holder: 'h' }, 'register', 'new')
    await expect(fence.put(lease.grant, 'register', 'old')).rejects.toThrow(StaleTokenError)
    await client.close()
    await back.close()
    await store.close()
  }, 90_000)

  it('C33, C45: with a majority that hangs nobody is granted anything, it is said as unreachable, and the holder stops in time', async () => {
    const store = etcdStore({ endpoints: cluster.urls })
    const client = createLeases({ store, closeStore: false })
    const lease = await client.acquire('cut', { ttlMs: 6_000 })
    const leader = await cluster.leader()
    const others = cluster.nodes.filter((node) => node !== leader)
    for (const node of others) node.freeze()
    try {
      const lone = etcdStore({ endpoints: [leader.url] })
      const error = await lone
        .acquire({ key: 'other', claim: 'x', holder: 'h', ttlMs: 5_000 }, { timeoutMs: 3_000 })
        .catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(StoreError)
      expect(error).not.toBeInstanceOf(LeaseHeldError)
      await waitUntil('the loss', () => lease.signal.aborted, 20_000)
      expect(lease.signal.reason).toMatchObject({ reason: 'deadline' })
    } finally {
      for (const node of others) node.thaw()
    }
    const next = await waitUntil(
      'the next grant',
      () => client.acquire('cut', { waitMs: 20_000 }).catch(() => undefined),
      60_000,
    )
    expect(next.token).toBeGreaterThan(lease.token)
    await next.release()
    await client.close()
    await store.close()
  }, 120_000)

  it('a minority that hangs costs one time-out: the next endpoint answers', async () => {
    const leader = await cluster.leader()
    const hung = cluster.nodes.find((node) => node !== leader)
    if (hung === undefined) throw new Error('no follower')
    const store = etcdStore({ endpoints: [hung.url, ...cluster.urls.filter((url) => url !== hung.url)] })
    hung.freeze()
    try {
      const request = { key: 'minority', claim: 'a', holder: 'h', ttlMs: 10_000 }
      const first = await store.acquire(request, { timeoutMs: 500 }).catch((error: unknown) => error)
      expect(first).toMatchObject({ outcome: 'none' }) // the etcd lease was what it waited for
      expect(await store.acquire(request)).toMatchObject({ is: 'granted' })
      expect(await store.release({ ...request, token: 1 })).toEqual({ is: 'released' })
    } finally {
      hung.thaw()
    }
    await store.close()
  }, 60_000)

  const changes: readonly (readonly [string, (leader: EtcdServer) => Promise<() => Promise<void>>])[] = [
    [
      'is killed',
      async (leader) => {
        await leader.kill()
        return () => leader.start()
      },
    ],
    [
      'hands over',
      async (leader) => {
        const other = cluster.nodes.find((node) => node !== leader)
        await etcdctl(leader.url, 'move-leader', (await other?.id()) ?? '')
        return async () => {}
      },
    ],
  ]

  it.each(changes)(
    'C12: the leader %s while two wait: each is told of its turn, in the order in which they came',
    async (name, change) => {
      const key = `waited for: ${name}`
      const leader = await cluster.leader()
      const others = cluster.nodes.filter((node) => node !== leader)
      const far = etcdStore({ endpoints: others.map(({ url }) => url) })
      const ask = (claim: string) => ({ key, claim, holder: claim, ttlMs: 3_600_000, queue: { pollMs: 60_000 } })
      const again = <Answer>(what: string, work: () => Promise<Answer>) =>
        waitUntil(what, () => work().catch(() => undefined), 60_000)
      await far.acquire(ask('a'))
      // One watches at the leader, one at another member.
      const waiting = [leader, ...others].slice(0, 2).map((node, i) => {
        const claim = i === 0 ? 'b' : 'c'
        const seen = { claim, hints: 0, streams: 0, ending: new AbortController(), watching: Promise.resolve() }
        const store = etcdStore({
          endpoints: [node.url, ...cluster.urls.filter((url) => url !== node.url)],
          fetch: async (url, init) => {
            const response = await fetch(url, init)
            if (url.endsWith('/v3/watch')) seen.streams++
            return response
          },
        })
        return { seen, store }
      })
      for (const { seen, store } of waiting) {
        const { claim } = seen
        expect(await store.acquire(ask(claim))).toMatchObject({ is: 'held' })
        seen.watching = (async () => {
          for await (const _ of store.watch(key, { claim, signal: seen.ending.signal })) seen.hints++
        })()
        await waitUntil('the stream', () => seen.streams > 0)
      }
      const [b, c] = waiting
      if (b === undefined || c === undefined) throw new Error('nobody waits')
      const restore = await change(leader)
      await waitUntil('another leader', async () => (await cluster.leader()) !== leader, 60_000)
      if (name === 'is killed') await waitUntil('a stream from another member', () => b.seen.streams > 1, 60_000)
      expect([b.seen.hints, c.seen.hints]).toEqual([0, 0])
      const grant = (claim: string) => ({ key, claim, holder: claim, token: 1 })
      await again('the release', () => far.release(grant('a')))
      await waitUntil('the first turn', () => b.seen.hints > 0, 60_000)
      expect(await again('an answer', () => b.store.acquire(ask('b')))).toMatchObject({ is: 'granted' })
      expect(await again('an answer', () => c.store.acquire(ask('c')))).toMatchObject({ is: 'held', holder: 'b' })
      const before = c.seen.hints
      await again('the release', () => b.store.release(grant('b')))
      await waitUntil('the second turn', () => c.seen.hints > before, 60_000)
      expect(await again('an answer', () => c.store.acquire(ask('c')))).toMatchObject({ is: 'granted' })
      for (const { seen, store } of waiting) {
        seen.ending.abort()
        await seen.watching
        await store.close()
      }
      await far.close()
      await restore()
    },
    180_000,
  )
})
