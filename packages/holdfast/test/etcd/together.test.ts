// Verbs of one process that are asked for at the same time share a request to etcd: how few requests that takes, and that nobody
// notices it by anything else.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/lease/clock.js'
import { type EtcdStoreOptions, etcdStore } from '../../src/stores/etcd/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import { freePort } from '../servers/ports.js'
import { askForUsers, EtcdServer, post, voidTokens } from './servers.js'

const HOUR_MS = 3_600_000
const MANY = 64
/** More than the smaller of the servers takes. */
const HUGE = 'x'.repeat(50_000)

describe.concurrent('etcd: verbs that are asked for together', () => {
  let server: EtcdServer
  /** It takes 40,000 bytes and 16 operations at once. */
  let small: EtcdServer
  /** It has users. */
  let guarded: EtcdServer
  const proxies: TcpProxy[] = []
  let keys = 0
  const fresh = () => `together ${keys++}`
  beforeAll(async () => {
    server = await EtcdServer.start()
    guarded = await EtcdServer.start()
    small = await EtcdServer.start(['--unsafe-no-fsync', '--max-txn-ops', '16', '--max-request-bytes', '40000'])
  }, 90_000)
  afterAll(async () => {
    for (const proxy of proxies) await proxy.close()
    await server?.stop()
    await small?.stop()
    await guarded?.stop()
  })

  async function between({ port } = server): Promise<{ proxy: TcpProxy; url: string }> {
    const proxy = await tcpProxy({ port })
    proxies.push(proxy)
    return { proxy, url: `http://127.0.0.1:${proxy.port}` }
  }
  const ask = (key: string, claim = 'a', more = {}) => ({
    key,
    claim,
    holder: claim,
    ttlMs: HOUR_MS,
    shares: true,
    ...more,
  })
  const grant = (key: string, claim = 'a') => ({ key, claim, holder: claim, token: 1 })
  const told = <Answer>(work: Promise<Answer>): Promise<Answer | Error> => work.catch((error: Error) => error)

  /** A store that has etcd leases at hand, and the bodies of all transactions that it sends. */
  async function open(options: Partial<EtcdStoreOptions> = {}) {
    const sent: string[] = []
    const store = etcdStore({
      endpoints: [server.url],
      fetch: (url, init) => {
        if (url.endsWith('/txn')) sent.push(init.body)
        return fetch(url, init)
      },
      ...options,
    })
    const key = fresh()
    await store.acquire(ask(key))
    await store.release(grant(key))
    sent.length = 0
    return { store, sent }
  }

  it('sixty-four cost a few requests, and each has its own answer; one alone is sent as it is', async () => {
    const { store, sent } = await open()
    const far = etcdStore({ endpoints: [server.url] })
    const many = Array.from({ length: MANY }, fresh)
    const [taken = ''] = many
    await far.acquire(ask(taken, 'other'))
    const first = await Promise.all(many.map((key) => store.acquire(ask(key))))
    expect(first[0]).toMatchObject({ is: 'held', holder: 'other' })
    expect(first.slice(1).every(({ is }) => is === 'granted')).toBe(true)
    expect(sent.length).toBeLessThanOrEqual(3) // two for all, and one for who holds the one
    for (const [i, key] of many.entries()) expect((await far.inspect(key))?.token).toBe(first[i]?.token)

    sent.length = 0
    const ends = await Promise.all(many.map((key) => store.release(grant(key))))
    expect(ends[0]).toMatchObject({ is: 'lost' })
    expect(ends.slice(1).every(({ is }) => is === 'released')).toBe(true)
    expect(sent.length).toBeLessThanOrEqual(3)
    const again = await Promise.all(many.slice(1).map((key) => store.acquire(ask(key, 'b'))))
    for (const [i, { is, token }] of again.entries()) {
      expect(is).toBe('granted')
      expect(token).toBeGreaterThan(first[i + 1]?.token ?? Number.POSITIVE_INFINITY)
    }

    sent.length = 0
    expect(await store.acquire(ask(fresh()))).toMatchObject({ is: 'granted' })
    expect(sent.length).toBe(1)
    expect(JSON.parse(sent[0] ?? '')).toHaveProperty('compare')
    await store.close()
    await far.close()
  })

  it('what is asked for while a request is under way shares the next one', async () => {
    const { store, sent } = await open()
    const work = async (key: string) => {
      for (const claim of ['a', 'b', 'c', 'd']) {
        expect(await store.acquire(ask(key, claim))).toMatchObject({ is: 'granted' })
        expect(await store.release(grant(key, claim))).toEqual({ is: 'released' })
      }
    }
    await Promise.all(Array.from({ length: MANY }, () => work(fresh())))
    expect(sent.length).toBeLessThan((MANY * 8) / 4)
    await store.close()
  })

  it('two claims on one key do not share a request: one is granted, the other is told who holds', async () => {
    const { store, sent } = await open()
    const many = Array.from({ length: 10 }, fresh)
    const answers = await Promise.all(
      many.map((key) => Promise.all(['a', 'b'].map((claim) => store.acquire(ask(key, claim))))),
    )
    for (const both of answers) expect(both.map(({ is }) => is).sort()).toEqual(['granted', 'held'])
    // One for the first claims, one for the others, and a look of each of those: of one that names a key twice nothing is done.
    expect(sent.length).toBeLessThanOrEqual(2 + 10)
    await store.close()
  })

  it('the trouble of one is told to that one, and the others get their answers', async () => {
    const { store } = await open({ endpoints: [small.url] })
    const many = Array.from({ length: 20 }, fresh)
    const answers = await Promise.all(
      many.map((key, i) => told(store.acquire(ask(key, 'a', i === 7 ? { meta: HUGE } : {})))),
    )
    const [trouble] = answers.splice(7, 1)
    expect(trouble).toMatchObject({ code: 'STORE_ERROR', outcome: 'none', message: expect.stringMatching(/too large/) })
    expect(answers).toEqual(answers.map(() => expect.objectContaining({ is: 'granted' })))
    await store.close()
  })

  it('an etcd lease that is gone is no trouble of those on others', async () => {
    const { store, sent } = await open()
    const many = Array.from({ length: 8 }, fresh)
    const own = (key: string, claim: string) => ask(key, claim, { shares: false })
    for (const key of many) await store.acquire(own(key, 'a'))
    const { kvs } = (await post(server.url, '/v3/kv/range', { key: btoa(`holdfast/h/${many[3]}`) })) as {
      kvs: { lease: string }[]
    }
    await Promise.all(many.map((key) => store.release(grant(key))))
    await post(server.url, '/v3/lease/revoke', { ID: kvs[0]?.lease })
    sent.length = 0
    const answers = await Promise.all(many.map((key) => store.acquire(own(key, 'b'))))
    expect(answers.every(({ is }) => is === 'granted')).toBe(true)
    expect(sent.length).toBeLessThanOrEqual(1 + 8 + 1) // together, apart, and one once more, on another etcd lease
    await store.close()
  })

  it('a server that takes fewer in a transaction gets fewer, from the second time on at once', async () => {
    const { store, sent } = await open({ endpoints: [small.url] })
    for (const claim of ['a', 'b']) {
      const many = Array.from({ length: MANY }, fresh)
      sent.length = 0
      const answers = await Promise.all(many.map((key) => store.acquire(ask(key, claim))))
      expect(answers.every(({ is }) => is === 'granted')).toBe(true)
    }
    expect(sent.length).toBeLessThanOrEqual(MANY / 8)
    await store.close()
  })

  it('one that has less time gives up in its own, and takes none from the others; the next endpoint has its turn', async () => {
    const { proxy, url } = await between()
    const { store } = await open({ endpoints: [url, server.url] })
    const [short, long] = [fresh(), fresh()]
    proxy.hang()
    const patient = told(store.acquire(ask(long), { timeoutMs: 60_000 }))
    const hasty = await told(store.acquire(ask(short), { timeoutMs: 300 }))
    expect(hasty).toMatchObject({ outcome: 'unknown', message: expect.stringMatching(/did not answer/) })
    expect(await store.acquire(ask(fresh()), { timeoutMs: 20_000 })).toMatchObject({ is: 'granted' })
    proxy.heal()
    expect(await patient).toMatchObject({ is: 'granted' })
    await store.close()
  })

  it('G6: one that gave up before it was sent is not sent with the others', async () => {
    let aheadMs = 0
    const clock = { ...systemClock, monoMs: () => systemClock.monoMs() + aheadMs }
    const { store } = await open({ clock })
    const [short, long] = [fresh(), fresh()]
    const both = [
      told(store.acquire(ask(short), { timeoutMs: 1_000 })),
      told(store.acquire(ask(long), { timeoutMs: 60_000 })),
    ]
    aheadMs = 2_000
    expect(await both[0]).toMatchObject({ outcome: 'none', message: expect.stringMatching(/not sent/) })
    expect(await both[1]).toMatchObject({ is: 'granted' })
    expect(await store.inspect(short)).toBeNull()
    await store.close()
  })

  it('G6: one that gave up is not sent again when the others are', async () => {
    const { proxy, url } = await between(small)
    const { store } = await open({ endpoints: [url] })
    const [short, long, huge] = [fresh(), fresh(), fresh()]
    proxy.hang()
    const hasty = told(store.acquire(ask(short), { timeoutMs: 300 }))
    const others = [ask(long), ask(huge, 'a', { meta: HUGE })].map((one) =>
      told(store.acquire(one, { timeoutMs: 60_000 })),
    )
    expect(await hasty).toMatchObject({ outcome: 'unknown' })
    proxy.heal()
    expect(await others[0]).toMatchObject({ is: 'granted' })
    expect(await others[1]).toMatchObject({ outcome: 'none' })
    expect(await store.inspect(short)).toBeNull()
    await store.close()
  })

  it('C08: a reply that is lost is unknown to each, and the repeat of each finds its own', async () => {
    const { proxy, url } = await between()
    const { store, sent } = await open({ endpoints: [url] })
    const far = etcdStore({ endpoints: [server.url] })
    const many = Array.from({ length: 5 }, fresh)
    proxy.swallowReplies()
    const lost = await Promise.all(many.map((key) => told(store.acquire(ask(key), { timeoutMs: 3_000 }))))
    expect(lost).toEqual(lost.map(() => expect.objectContaining({ code: 'STORE_ERROR', outcome: 'unknown' })))
    expect(sent.length).toBe(1)
    proxy.heal()
    const tokens = await Promise.all(many.map(async (key) => (await far.inspect(key))?.token))
    const again = await Promise.all(many.map((key) => store.acquire(ask(key))))
    expect(again).toMatchObject(tokens.map((token) => ({ is: 'granted', token })))
    await store.close()
    await far.close()
  })

  it('where one endpoint is not there, all go to the next', async () => {
    const closed = `http://127.0.0.1:${await freePort()}`
    const store = etcdStore({ endpoints: [closed, server.url] })
    const answers = await Promise.all(Array.from({ length: 10 }, () => store.acquire(ask(fresh()))))
    expect(answers.every(({ is }) => is === 'granted')).toBe(true)
    await store.close()
  })

  it('C50: what a user may not do it may not do together; a token that is void is replaced for all', async () => {
    const root = await askForUsers(guarded.url)
    const user = { endpoints: [guarded.url], user: 'app', password: 'p' }
    const elsewhere = etcdStore({ ...user, prefix: 'other/' })
    const many = Array.from({ length: 8 }, fresh)
    const refused = await Promise.all(many.map((key) => told(elsewhere.acquire(ask(key)))))
    expect(refused).toEqual(
      many.map(() =>
        expect.objectContaining({ outcome: 'none', message: expect.stringMatching(/readwrite on the prefix/) }),
      ),
    )
    const { store, sent } = await open(user)
    const granted = await Promise.all(many.map((key) => store.acquire(ask(key))))
    expect(granted.every(({ is }) => is === 'granted')).toBe(true)
    expect(sent.length).toBe(1)
    await voidTokens(guarded.url, root)
    sent.length = 0
    const ends = await Promise.all(many.map((key) => store.release(grant(key))))
    expect(ends.every(({ is }) => is === 'released')).toBe(true)
    expect(sent.length).toBeLessThanOrEqual(1 + many.length)
    await store.close()
    await elsewhere.close()
  })
})
