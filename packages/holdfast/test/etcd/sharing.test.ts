// Many keys on one etcd lease: whose fate they share, and whose they do not.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLeases } from '../../src/lease/leases.js'
import type { RenewRequest } from '../../src/store/contract.js'
import { type EtcdStore, etcdStore } from '../../src/stores/etcd/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import { naiveSharing } from './naive.js'
import { EtcdServer, post, waitUntil } from './servers.js'

const TTL_MS = 4_000

describe.concurrent('etcd leases that are shared', () => {
  let server: EtcdServer
  const proxies: TcpProxy[] = []
  let keys = 0
  const fresh = () => `shared ${keys++}`
  beforeAll(async () => {
    server = await EtcdServer.start()
  }, 90_000)
  afterAll(async () => {
    for (const proxy of proxies) await proxy.close()
    await server?.stop()
  })

  /** The etcd lease on which a key is; undefined when nobody holds it. */
  async function etcdLeaseOf(key: string): Promise<string | undefined> {
    const answer = await post(server.url, '/v3/kv/range', { key: btoa(`holdfast/h/${key}`) })
    return (answer as { kvs?: { lease: string }[] }).kvs?.[0]?.lease
  }
  async function between(): Promise<TcpProxy> {
    const proxy = await tcpProxy({ port: server.port })
    proxies.push(proxy)
    return proxy
  }
  const open = (port = server.port) => etcdStore({ endpoints: [`http://127.0.0.1:${port}`] })
  const ask = (key: string, claim: string) => ({ key, claim, holder: 'h', ttlMs: TTL_MS, shares: true })

  /** Renews until the condition holds. A connection that was cut may cost an answer. */
  const renewUntil = (what: string, store: EtcdStore, one: RenewRequest, condition: () => Promise<boolean>) =>
    waitUntil(what, async () => {
      const [outcome] = await store.renew([one]).catch(() => [])
      if (outcome?.is === 'lost') throw new Error(`${one.key} was lost: ${outcome.reason}`)
      return await condition()
    })

  it('what is renewed until it ends shares; what has a limit of its own, or nobody renews, does not', async () => {
    const client = createLeases({ store: open() })
    const [a, b, byHand, limited] = [fresh(), fresh(), fresh(), fresh()]
    const leases = await Promise.all([
      client.acquire(a),
      client.acquire(b),
      client.acquire(byHand, { renew: false }),
      client.acquire(limited, { maxHoldMs: 60_000 }),
    ])
    const ids = await Promise.all([a, b, byHand, limited].map(etcdLeaseOf))
    expect(ids[0]).toBe(ids[1])
    expect(new Set(ids).size).toBe(3)
    for (const lease of leases) await lease.release()
    await client.close()
  })

  it('one keep-alive for a thousand, and one read for each 128', async () => {
    const sent: string[] = []
    const store = etcdStore({
      endpoints: [server.url],
      fetch: (url, init) => {
        sent.push(new URL(url).pathname)
        return fetch(url, init)
      },
    })
    const many = Array.from({ length: 1_000 }, () => ({ ...ask(fresh(), 'a'), ttlMs: 60_000 }))
    for (let first = 0; first < many.length; first += 100) {
      await Promise.all(many.slice(first, first + 100).map((one) => store.acquire(one)))
    }
    expect(sent.filter((path) => path === '/v3/lease/grant').length).toBeLessThan(5)
    sent.length = 0
    const outcomes = await store.renew(many, { timeoutMs: 30_000 })
    expect(outcomes.every(({ is }) => is === 'renewed')).toBe(true)
    expect(sent.length).toBeLessThan(12)
    await store.renew(many, { timeoutMs: 30_000 })
    expect(sent.filter((path) => path === '/v3/lease/keepalive').length).toBeLessThan(2) // it lasts for the second, too
    await store.close()
  })

  it('the end of one, and its revocation, touch no other', async () => {
    const store = open()
    const [ended, revoked, stays] = [fresh(), fresh(), fresh()]
    for (const key of [ended, revoked, stays]) await store.acquire(ask(key, 'a'))
    const before = await etcdLeaseOf(stays)
    await store.release({ key: ended, claim: 'a', token: 1, holder: 'h' })
    await store.revoke(revoked)
    const outcomes = await store.renew([ended, revoked, stays].map((key) => ask(key, 'a')))
    expect(outcomes).toMatchObject([
      { is: 'lost', reason: 'released' },
      { is: 'lost', reason: 'revoked' },
      { is: 'renewed' },
    ])
    const isOver = async () => (await etcdLeaseOf(revoked)) === undefined
    await renewUntil('the end of the term that was revoked', store, ask(stays, 'a'), isOver)
    expect(await etcdLeaseOf(stays)).toBe(before) // nobody had a reason to leave it
    await store.close()
  })

  it('an end that was not confirmed moves the others to a fresh etcd lease, and the key is free after its term', async () => {
    const proxy = await between()
    const store = open(proxy.port)
    const [doubtful, stays] = [fresh(), fresh()]
    for (const key of [doubtful, stays]) await store.acquire(ask(key, 'a'))
    await store.withdraw(fresh(), 'a') // the etcd lease for what ended is at hand
    const before = await etcdLeaseOf(stays)
    proxy.hang()
    const error = await store
      .release({ key: doubtful, claim: 'a', token: 1, holder: 'h' }, { timeoutMs: 300 })
      .catch((thrown) => thrown)
    expect(error).toMatchObject({ outcome: 'unknown' })
    proxy.cut()
    proxy.heal()
    const stay = ask(stays, 'a')
    await waitUntil('a renewal', () => store.renew([stay]).catch(() => undefined)) // of a connection that was cut
    expect(await etcdLeaseOf(stays)).not.toBe(before)
    expect(await etcdLeaseOf(doubtful)).toBe(before)
    await renewUntil('the end of the term', store, stay, async () => (await etcdLeaseOf(doubtful)) === undefined)
    expect(await etcdLeaseOf(stays)).toBeDefined()
    await store.close()
  })

  it('whoever stops asking, with no word about an end, is free after two terms at the latest, whatever the others do', async () => {
    const store = open()
    const [left, stays] = [fresh(), fresh()]
    for (const key of [left, stays]) await store.acquire(ask(key, 'a'))
    const plain = await naiveSharing(server.url, [fresh(), fresh()], TTL_MS)
    const sinceMs = performance.now()
    await renewUntil('the end of its term', store, ask(stays, 'a'), async () => {
      await plain.renew()
      return (await etcdLeaseOf(left)) === undefined
    })
    expect(performance.now() - sinceMs).toBeGreaterThan(TTL_MS)
    expect(await plain.standing()).toBe(2) // kept for somebody who does not want it, for ever
    await store.close()
  })

  it('a claim that goes on elsewhere takes its key along, and does not keep those of a dead process', async () => {
    const [first, second] = [open(), open()]
    const [passed, dead] = [fresh(), fresh()]
    for (const key of [passed, dead]) await first.acquire(ask(key, 'a'))
    await first.close() // the process is gone
    expect(await second.renew([ask(passed, 'a')])).toMatchObject([{ is: 'renewed' }])
    expect(await etcdLeaseOf(passed)).not.toBe(await etcdLeaseOf(dead))
    const isOver = async () => (await etcdLeaseOf(dead)) === undefined
    await renewUntil('the end of the dead', second, ask(passed, 'a'), isOver)
    await second.close()
  })

  it('a renewal that may not share takes the key away, and one from elsewhere shortens nothing', async () => {
    const [store, elsewhere] = [open(), open()]
    const [alone, stays] = [fresh(), fresh()]
    for (const key of [alone, stays]) await store.acquire({ ...ask(key, 'a'), ttlMs: 60_000 })
    expect(await store.renew([{ key: alone, claim: 'a', ttlMs: 60_000 }])).toMatchObject([{ is: 'renewed' }])
    expect(await etcdLeaseOf(alone)).not.toBe(await etcdLeaseOf(stays))
    expect(await elsewhere.renew([ask(alone, 'a')])).toMatchObject([{ is: 'renewed' }])
    expect((await store.inspect(alone))?.remainingMs).toBeGreaterThan(30_000)
    await store.close()
    await elsewhere.close()
  })

  it('an acquire whose outcome is unknown leaves nothing on an etcd lease that others keep', async () => {
    const proxy = await between()
    const store = open(proxy.port)
    const [ghost, stays] = [fresh(), fresh()]
    await store.acquire(ask(stays, 'a'))
    proxy.swallowReplies()
    const error = await store.acquire(ask(ghost, 'a'), { timeoutMs: 300 }).catch((thrown) => thrown)
    expect(error).toMatchObject({ outcome: 'unknown' })
    proxy.cut()
    proxy.heal()
    expect(await etcdLeaseOf(ghost)).toBe(await etcdLeaseOf(stays))
    const isOver = async () => (await etcdLeaseOf(ghost)) === undefined
    await renewUntil('the end of the ghost', store, ask(stays, 'a'), isOver)
    await store.close()
  })

  it('one that is lost on the server is a loss of all that are on it, at once, and the next acquire has another', async () => {
    const store = open()
    const both = [ask(fresh(), 'a'), ask(fresh(), 'a')]
    for (const one of both) await store.acquire(one)
    await post(server.url, '/v3/lease/revoke', { ID: await etcdLeaseOf(both[0]?.key ?? '') })
    const lost = { is: 'lost', reason: 'expired' }
    expect(await store.renew(both)).toEqual([lost, lost])
    expect(await store.acquire(ask(both[0]?.key ?? '', 'b'))).toMatchObject({ is: 'granted' })
    await store.close()
  })
})
