// The etcd leases that keys are put on: how much is left of one on a machine that sleeps, and whose time it takes to make one.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Clock, systemClock } from '../../src/lease/clock.js'
import { type EtcdStore, type EtcdStoreOptions, etcdStore } from '../../src/stores/etcd/index.js'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'
import { askForUsers, EtcdServer, pass, waitUntil } from './servers.js'

const SLEEP_MS = 5_000

describe.concurrent('etcd leases', () => {
  let server: EtcdServer
  let guarded: EtcdServer
  const proxies: TcpProxy[] = []
  let keys = 0
  const fresh = () => `terms ${keys++}`
  beforeAll(async () => {
    server = await EtcdServer.start()
    guarded = await EtcdServer.start()
    await askForUsers(guarded.url)
  }, 90_000)
  afterAll(async () => {
    for (const proxy of proxies) await proxy.close()
    await server?.stop()
    await guarded?.stop()
  })

  const ask = (key: string, claim = 'a') => ({ key, claim, holder: 'h', ttlMs: 20_000, shares: true })
  const open = (options: Partial<EtcdStoreOptions> = {}) => etcdStore({ endpoints: [server.url], ...options })
  const told = (work: Promise<unknown>) => work.catch((error: unknown) => error)

  /** A machine whose monotonic clock stands still while it sleeps, as that of Linux does. */
  function sleeper() {
    let sleptMs = 0
    const clock: Clock = { ...systemClock, monoMs: () => systemClock.monoMs() - sleptMs }
    const sleep = async () => {
      await pass(SLEEP_MS)
      sleptMs += SLEEP_MS
    }
    return { store: open({ clock }), sleep }
  }

  it('G1, G5: one that was given back before the machine slept is not taken for longer than it is', async () => {
    const { store, sleep } = sleeper()
    const [key, next] = [fresh(), fresh()]
    for (const shares of [true, false]) {
      await store.acquire({ ...ask(key), shares })
      await store.release({ ...ask(key), token: 1 })
    }
    await sleep()
    for (const shares of [true, false]) {
      const one = { ...ask(next, shares ? 'a' : 'b'), shares }
      expect(await store.acquire(one)).toMatchObject({ is: 'granted' })
      expect((await open().inspect(next))?.remainingMs).toBeGreaterThan(20_000 - SLEEP_MS / 2)
      await store.release({ ...one, token: 1 })
    }
    await store.close()
  })

  it('G1, G5: a renewal after the machine slept keeps it alive, however long it seems to last yet', async () => {
    const { store, sleep } = sleeper()
    const key = fresh()
    await store.acquire(ask(key))
    await sleep()
    expect(await store.renew([ask(key)])).toMatchObject([{ is: 'renewed' }])
    expect((await open().inspect(key))?.remainingMs).toBeGreaterThan(20_000 - SLEEP_MS / 2)
    await store.close()
  })

  /** Holds requests to a path back until the gate is opened. */
  function gated(path: string, options: Partial<EtcdStoreOptions> = {}) {
    let openGate = () => {}
    const gate = new Promise<void>((resolve) => {
      openGate = resolve
    })
    let asked = 0
    const store = open({
      ...options,
      async fetch(url, init) {
        if (url.endsWith(path)) {
          asked++
          await gate
        }
        return fetch(url, init)
      },
    })
    return { store, openGate, asked: () => asked }
  }

  const steps: readonly (readonly [
    string,
    string,
    () => Partial<EtcdStoreOptions>,
    (store: EtcdStore, key: string, call: { timeoutMs?: number; signal?: AbortSignal }) => Promise<unknown>,
  ])[] = [
    ['an etcd lease', '/v3/lease/grant', () => ({}), (store, key, call) => store.acquire(ask(key), call)],
    ['one for what ended', '/v3/lease/grant', () => ({}), (store, key, call) => store.withdraw(key, 'a', call)],
    [
      'a login',
      '/v3/auth/authenticate',
      () => ({ endpoints: [guarded.url], user: 'app', password: 'p' }),
      (store, key, call) => store.acquire(ask(key), call),
    ],
  ]
  it.each(steps)(
    'G13: %s that many wait for is not lost to the time-out or the signal of the first; for that one nothing was done',
    async (_, path, options, verb) => {
      const { store, openGate, asked } = gated(path, options())
      const giveUp = new AbortController()
      const first = told(verb(store, fresh(), { timeoutMs: 20_000, signal: giveUp.signal }))
      const second = told(verb(store, fresh(), { timeoutMs: 300 }))
      const key = fresh()
      const third = verb(store, key, { timeoutMs: 20_000 })
      await waitUntil('the request', async () => asked() > 0)
      giveUp.abort()
      expect(await first).toMatchObject({ code: 'STORE_ERROR', outcome: 'none' })
      expect(await second).toMatchObject({ code: 'STORE_ERROR', outcome: 'none' })
      openGate()
      await third
      expect(asked()).toBe(1)
      await verb(store, fresh(), {}) // and the next has it, too
      await store.close()
    },
  )

  it('one that an endpoint does not give in time is asked for at the next', async () => {
    const proxy = await tcpProxy({ port: server.port })
    proxies.push(proxy)
    proxy.hang()
    const store = open({ endpoints: [`http://127.0.0.1:${proxy.port}`, server.url] })
    expect(await told(store.acquire(ask(fresh()), { timeoutMs: 300 }))).toMatchObject({ outcome: 'none' })
    expect(await store.acquire(ask(fresh()), { timeoutMs: 4_000 })).toMatchObject({ is: 'granted' })
    await store.close()
  })
})
