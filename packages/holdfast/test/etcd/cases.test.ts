// Cases of the field by their number (C03, C06, C20, C33, C46, C47, C49, C50), each beside a lock of the kind that people write, which
// fails there.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { StoreError } from '../../src/lease/errors.js'
import { createLeases } from '../../src/lease/leases.js'
import { etcdStore } from '../../src/stores/etcd/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import { freePort } from '../servers/ports.js'
import { naiveLock } from './naive.js'
import { EtcdServer, post, waitUntil } from './servers.js'

const TTL_MS = 6_000

describe.concurrent('etcd, cases of the field', () => {
  let server: EtcdServer
  const proxies: TcpProxy[] = []
  let keys = 0
  const fresh = () => `case ${keys++}`
  beforeAll(async () => {
    server = await EtcdServer.start()
  }, 90_000)
  afterAll(async () => {
    for (const proxy of proxies) await proxy.close()
    await server?.stop()
  })

  async function between(): Promise<{ proxy: TcpProxy; url: string }> {
    const proxy = await tcpProxy({ port: server.port })
    proxies.push(proxy)
    return { proxy, url: `http://127.0.0.1:${proxy.port}` }
  }
  const open = (url = server.url) => etcdStore({ endpoints: [url] })
  const ask = (key: string, claim = 'a', holder = 'h') => ({ key, claim, holder, ttlMs: TTL_MS })

  /** For how many seconds etcd has granted the etcd lease on which a key is. */
  async function grantedSeconds(key: string): Promise<number> {
    const { kvs } = (await post(server.url, '/v3/kv/range', { key: btoa(key) })) as { kvs: { lease: string }[] }
    return Number((await post(server.url, '/v3/lease/timetolive', { ID: kvs[0]?.lease })).grantedTTL)
  }

  it.each([2_001, 3_900, 10_500])('C03: %i ms are rounded up on the server, never down', async (ttlMs) => {
    const key = fresh()
    const answer = await open().acquire({ ...ask(key), ttlMs })
    const seconds = await grantedSeconds(`holdfast/h/${key}`)
    expect(1_000 * seconds).toBeGreaterThanOrEqual(ttlMs)
    expect((answer as { ttlMs: number }).ttlMs).toBeLessThanOrEqual(1_000 * seconds)
    await naiveLock(server.url, key, 'a', ttlMs).acquire()
    expect(1_000 * (await grantedSeconds(`lock/${key}`))).toBeLessThan(ttlMs) // it believes in time that nobody gives
  })

  it('C06: the end of a name is not the end of those that begin with it', async () => {
    const store = open()
    const key = fresh()
    const names = [key, `${key}:1`, `${key}{`, `${key}/*`, `${key} `, `${key}\n`, `${key}é`, `${key}😀`]
    for (const name of names) expect(await store.acquire(ask(name))).toMatchObject({ is: 'granted' })
    await store.release({ ...ask(key), token: 1 })
    for (const name of names.slice(1)) expect(await store.inspect(name)).toMatchObject({ key: name, state: 'held' })
    const [one, other] = [key, `${key}:1`].map((name) => naiveLock(server.url, name, name, TTL_MS))
    await one?.acquire()
    await other?.acquire()
    await one?.release()
    expect(await naiveLock(server.url, `${key}:1`, 'z', TTL_MS).acquire()).toBe(true) // beside one that believes
    expect(other?.believes).toBe(true)
  })

  it('C20: renewals that overlap are no loss', async () => {
    const key = fresh()
    const store = open()
    await store.acquire(ask(key))
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => store.renew([ask(key)])))
    expect(outcomes.flat().map(({ is }) => is)).toEqual(Array.from({ length: 8 }, () => 'renewed'))
    const plain = naiveLock(server.url, key, 'a', TTL_MS)
    await plain.acquire()
    await waitUntil('a fight with itself', async () => {
      const all = await Promise.all(Array.from({ length: 8 }, () => plain.renew()))
      return all.includes(false)
    })
  })

  it('C33: a server that is not there is not "held", and is not hammered', async () => {
    const closed = `http://127.0.0.1:${await freePort()}`
    let asked = 0
    const store = etcdStore({
      endpoints: [closed],
      fetch: (url, init) => {
        asked++
        return fetch(url, init)
      },
    })
    const client = createLeases({ store })
    const error = await client.acquire('k', { waitMs: 1_500 }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(StoreError)
    expect(error).toMatchObject({ outcome: 'none', message: expect.stringMatching(/no connection to etcd/) })
    expect(asked).toBeLessThan(60)
    await client.close()
    expect(await naiveLock(closed, 'k', 'a', TTL_MS).acquire()).toBe(false) // the same as when another has it
  })

  it('C46: a holder that hears nothing stops before another gets in', async () => {
    const { proxy, url } = await between()
    const key = fresh()
    const client = createLeases({ store: open(url), ttlMs: 3_000 })
    const lease = await client.acquire(key)
    const plain = naiveLock(url, key, 'a', 3_000)
    await plain.acquire()
    proxy.hang()
    const other = open()
    await waitUntil('the next holder', async () => (await other.acquire(ask(key, 'b'))).is === 'granted')
    expect(lease.held).toBe(false)
    expect(lease.signal.reason).toMatchObject({ reason: 'deadline' })
    await waitUntil('its twin', () => naiveLock(server.url, key, 'b', 3_000).acquire())
    expect(plain.believes).toBe(true) // nobody tells it
    await client.close({ drainMs: 0 }).catch(() => {})
  })

  it('C47: a name that is given twice, or begins with another, is a label and no claim', async () => {
    const key = fresh()
    const [one, two] = [open(), open()]
    expect(await one.acquire(ask(key, 'claim 1', 'node-1'))).toMatchObject({ is: 'granted' })
    expect(await two.acquire(ask(key, 'claim 2', 'node-1'))).toMatchObject({ is: 'held', holder: 'node-1' })
    expect(await two.acquire(ask(key, 'claim 1x', 'node-10'))).toMatchObject({ is: 'held', holder: 'node-1' })
    const lock = (who: string) => naiveLock(server.url, key, who, TTL_MS).acquire()
    expect([await lock('node-1'), await lock('node-1'), await lock('node-10')]).toEqual([true, true, true])
  })

  it('C49: an outage shorter than the lease, and a renewal whose answer is lost, end nothing', async () => {
    const { proxy, url } = await between()
    const key = fresh()
    let failed = 0
    const client = createLeases({
      store: open(url),
      ttlMs: TTL_MS,
      callTimeoutMs: 400,
      renewEveryMs: 500,
      onEvent: ({ type }) => type === 'renewal-failed' && failed++,
    })
    const lease = await client.acquire(key)
    const plain = naiveLock(url, key, 'a', TTL_MS)
    await plain.acquire()
    for (const fault of [() => proxy.refuse(), () => proxy.swallowReplies()]) {
      const before = failed
      fault()
      proxy.cut()
      await waitUntil('a renewal that failed', () => failed > before)
      await plain.renew()
      proxy.heal()
      proxy.cut()
      await waitUntil('a renewal', () =>
        lease.renew().then(
          () => true,
          () => false,
        ),
      )
      expect(lease.held).toBe(true)
    }
    expect(plain.believes).toBe(false) // it gave up a lease that was its own
    await lease.release()
    await client.close()
  })

  it('C50: what will not pass by itself is said, not waited for in silence', async () => {
    const key = fresh()
    const late = etcdStore({ endpoints: [server.url], user: 'nobody', password: 'x' })
    const error = await late.acquire(ask(key)).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ outcome: 'none', message: expect.stringMatching(/authentication/) })
    const lost = naiveLock(`${server.url}/no-such-place`, key, 'a', TTL_MS)
    expect([await lost.acquire(), await lost.acquire()]).toEqual([false, false]) // for ever, and nobody knows why
  })
})
