// Who may be a node of a quorum of real servers, and what the field has met with single servers, met with a quorum of five.
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { createLeases, InvalidArgumentError, type LeaseEvent, type LeaseStore } from '../../src/index.js'
import { quorumStore } from '../../src/stores/quorum/index.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { clientKind } from '../redis/clients.js'
import { fresh, grantOf, HOUR_MS, request } from '../redis/harness.js'
import { cli, pass, RedisCluster, RedisServer, waitUntil } from '../redis/servers.js'
import { claimsOf, granted, Quorums } from './harness.js'

const quorums = Quorums.here(5)
const failure = <T>(asked: Promise<T>) =>
  asked.then(
    (answer) => answer as unknown,
    (error: unknown) => error,
  )

describe('nodes that are one server (C35)', () => {
  /** Refused as soon as both have said who they are, with both places named. */
  async function expectRefused(store: LeaseStore, first: number, second: number): Promise<void> {
    const error = await waitUntil('the refusal', async () => {
      const answer = await failure(store.acquire(request(fresh(), 'a')))
      return answer instanceof InvalidArgumentError ? answer : undefined
    })
    expect(error).toMatchObject({ option: `stores[${second}]` })
    expect(String(error)).toContain(`another server than stores[${first}]`)
  }

  it('two names and two prefixes for one', async () => {
    const [port = 0, other = 0] = quorums.masters.ports
    const clients = [
      new Redis({ host: '127.0.0.1', port }),
      new Redis({ port: other }),
      new Redis({ host: 'localhost', port }),
    ]
    const nodes = clients.map((client, i) => redisStore(client, { prefix: `p${i}:` }))
    await expectRefused(quorumStore(nodes), 0, 2)
    for (const client of clients) client.disconnect()
  })

  it('a primary and its replica', async () => {
    const [port = 0, other = 0] = quorums.masters.ports
    const replica = await RedisServer.start('--replicaof', `127.0.0.1 ${port}`)
    const clients = [port, other, replica.port].map((at) => new Redis({ port: at }))
    const [primary, , second] = clients.map((client) => redisStore(client))
    await waitUntil('the replica', async () => (await second?.serverId()) === (await primary?.serverId()))
    await expectRefused(quorumStore(clients.map((client) => redisStore(client))), 0, 2)
    for (const client of clients) client.disconnect()
    await replica.stop()
  })

  it('one cluster twice, by one client and by two', async () => {
    const cluster = await RedisCluster.start()
    const [one, two] = [
      await clientKind('ioredis 6').cluster(cluster),
      await clientKind('node-redis 6').cluster(cluster),
    ]
    const [alone = 0] = quorums.masters.ports
    const client = new Redis({ port: alone })
    const master = () => redisStore(client)
    await expectRefused(quorumStore([redisStore(one.client), redisStore(one.client), master()]), 0, 1)
    await expectRefused(quorumStore([redisStore(one.client), master(), redisStore(two.client)]), 0, 2)
    await Promise.all([one.close(), two.close()])
    client.disconnect()
    await cluster.stop()
  })

  it('other servers under other prefixes are a quorum like any other', async () => {
    const clients = quorums.masters.ports.slice(0, 3).map((port) => new Redis({ port }))
    const open = () => quorumStore(clients.map((client, i) => redisStore(client, { prefix: `of ${i}:` })))
    const key = fresh()
    const token = await granted(open(), key, 'a')
    expect(await open().acquire(request(key, 'b'))).toMatchObject({ is: 'held' })
    expect(await open().release(grantOf(key, 'a', token))).toEqual({ is: 'released' })
    for (const client of clients) client.disconnect()
  })
})

describe('with one node of five hung', () => {
  it('C12: a waiter is woken by the release, long before the term would be over', async () => {
    const [one, two] = [await quorums.reach(), await quorums.reach()]
    const key = fresh()
    const [a, b] = [one, two].map(({ store }) => createLeases({ store, closeStore: false, ttlMs: 60_000 }))
    await (await b?.acquire(fresh()))?.release()
    two.proxies[3]?.hang()
    for (let round = 0; round < 5; round++) {
      const lease = await a?.acquire(key)
      const waiting = b?.acquire(key, { waitMs: 30_000 })
      await pass(round * 20)
      await lease?.release()
      await (await waiting)?.release()
    }
    two.proxies[3]?.heal()
    await Promise.all([a?.close(), b?.close()])
  })

  it('C15: renewals and releases that cross are no loss, and leave nothing behind', async () => {
    const { store, proxies, nodes } = await quorums.reach()
    const events: LeaseEvent[] = []
    const leases = createLeases({
      store,
      closeStore: false,
      ttlMs: 30_000,
      onEvent: (event) => void events.push(event),
    })
    await (await leases.acquire(fresh())).release()
    proxies[2]?.hang()
    for (const proxy of proxies.slice(3)) proxy.slow(15, 'toClient')
    const key = fresh()
    for (let round = 0; round < 20; round++) {
      const lease = await leases.acquire(key)
      const renewal = lease.renew().catch(() => {})
      if (round % 2 === 0) await pass(5)
      await lease.release()
      await renewal
    }
    expect(events.filter(({ type }) => type === 'lost')).toEqual([])
    for (const proxy of proxies) proxy.heal()
    await waitUntil('nothing kept', async () => (await claimsOf(nodes, key)).every((claim) => claim === undefined))
    await leases.close()
  })
})

describe('of five masters', () => {
  it('C18: connections of a majority that break are no loss, and the next renewal goes through', async () => {
    const { store, proxies } = await quorums.reach()
    const leases = createLeases({ store, closeStore: false, ttlMs: 20_000, renewEveryMs: 400 })
    const lease = await leases.acquire(fresh())
    for (let round = 0; round < 3; round++) {
      for (const proxy of proxies.slice(round, round + 3)) proxy.cut()
      await lease.renew().catch(() => {})
      await waitUntil('a renewal', () =>
        lease.renew().then(
          () => true,
          () => false,
        ),
      )
    }
    expect(lease.held).toBe(true)
    await lease.release()
    await leases.close()
  })

  it('C26, C29: one who lost the lease neither renews, releases nor shortens that of the next', async () => {
    const [one, two] = [await quorums.reach(), await quorums.reach()]
    const key = fresh()
    const first = await granted(one.store, key, 'a', 1_000)
    const second = await waitUntil('the next grant', () => granted(two.store, key, fresh('b')).catch(() => undefined))
    expect(second).toBeGreaterThan(first)
    const before = await two.store.inspect(key)
    const release = await one.store.release(grantOf(key, 'a', first))
    expect(release).toMatchObject({ is: 'lost', reason: expect.stringMatching(/^(taken|expired)$/) })
    // Whichever answer first: those that the next has not reached had the old lease until the release.
    const [renewal] = await one.store.renew([{ key, claim: 'a', ttlMs: 2 * HOUR_MS }])
    expect(renewal).toMatchObject({ is: 'lost', reason: expect.stringMatching(/^(taken|released)$/) })
    expect(await two.store.inspect(key)).toMatchObject({ claim: before?.claim, token: second, state: 'held' })
    expect((await two.store.inspect(key))?.remainingMs).toBeLessThanOrEqual(before?.remainingMs ?? 0)
    const expired = fresh()
    const token = await granted(one.store, expired, 'a', 1_000)
    await pass(1_500)
    expect(await one.store.release(grantOf(expired, 'a', token))).toEqual({ is: 'lost', reason: 'expired' })
  })
})

describe('what does not pass by itself (StoreError.lasting)', () => {
  /** A quorum of three, of which so many are reached by a user who lacks a right. */
  async function withoutRight(count: number, right: string) {
    const ports = quorums.masters.ports.slice(0, 3)
    const connected = await Promise.all(
      ports.map(async (port, place) => {
        const user = fresh('user')
        const missing = place < count ? [right] : []
        await cli(port, 'acl', 'setuser', user, 'reset', 'on', '>pw', '~*', '&*', '+@all', ...missing)
        return clientKind('ioredis 6').standalone(port, { username: user, password: 'pw' })
      }),
    )
    const store = quorumStore(
      connected.map(({ client }) => redisStore(client)),
      { nodeTimeoutMs: 5_000 },
    )
    return { store, close: () => Promise.all(connected.map(({ close }) => close())) }
  }

  // Without INFO a node does not say which server it is, and so has no vote.
  it.each(['-evalsha', '-info'])('a majority without a right (%s): who waits is told at once', async (right) => {
    const { store, close } = await withoutRight(2, right)
    await expect(store.acquire(request(fresh(), 'a'))).rejects.toMatchObject({
      lasting: true,
      message: expect.stringContaining('the ACL needs'),
    })
    const leases = createLeases({ store })
    const asked = leases.acquire(fresh(), { waitMs: Number.POSITIVE_INFINITY })
    await expect(asked).rejects.toMatchObject({ lasting: true })
    await leases.close()
    await close()
  })

  it('a minority without a right: the others are a majority, and their trouble of the moment passes', async () => {
    const { store, close } = await withoutRight(1, '-evalsha')
    const key = fresh()
    await granted(store, key, 'a')
    const port = quorums.masters.ports[2] ?? 0
    await cli(port, 'config', 'set', 'min-replicas-to-write', '1')
    await expect(store.acquire(request(fresh(), 'b'))).rejects.toMatchObject({ lasting: false })
    await cli(port, 'config', 'set', 'min-replicas-to-write', '0')
    await granted(store, fresh(), 'c')
    await close()
  })
})
