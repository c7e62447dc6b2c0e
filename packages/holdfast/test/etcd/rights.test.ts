// Etcd with users: what is refused is told at once with what to do, and what does not pass by itself ends a wait.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLeases } from '../../src/lease/leases.js'
import { type EtcdStoreOptions, etcdStore } from '../../src/stores/etcd/index.js'
import { freePort } from '../servers/ports.js'
import { askForUsers, EtcdServer, voidTokens } from './servers.js'

const HOUR_MS = 3_600_000

describe('etcd with authentication', () => {
  let server: EtcdServer
  let open: EtcdServer
  let root: { readonly authorization: string }
  beforeAll(async () => {
    server = await EtcdServer.start()
    open = await EtcdServer.start()
    root = await askForUsers(server.url)
  }, 90_000)
  afterAll(async () => {
    await server?.stop()
    await open?.stop()
  })

  const request = { key: 'a', claim: 'a', holder: 'h', ttlMs: 30_000 }
  const storeOf = (more: Partial<EtcdStoreOptions>) => etcdStore({ endpoints: [server.url], ...more })
  const errorOf = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    )

  it('C50: a token that is no longer valid is replaced', async () => {
    const store = storeOf({ user: 'app', password: 'p' })
    expect(await store.acquire(request)).toMatchObject({ is: 'granted' })
    await voidTokens(server.url, root)
    expect(await store.renew([request])).toMatchObject([{ is: 'renewed' }])
    expect(await store.release({ ...request, token: 1 })).toEqual({ is: 'released' })
    await store.close()
  })

  const troubles: readonly (readonly [string, () => Partial<EtcdStoreOptions>, RegExp])[] = [
    ['no user', () => ({}), /user name or password are missing/],
    ['a wrong password', () => ({ user: 'app', password: 'wrong' }), /user name or password are missing or wrong/],
    ['no right', () => ({ user: 'app', password: 'p', prefix: 'other/' }), /readwrite on the prefix/],
    [
      'a user where there are none',
      () => ({ user: 'app', password: 'p', endpoints: [open.url] }),
      /this etcd has no authentication/,
    ],
  ]

  it.each(troubles)(
    'C50: %s ends a wait and a watch at once, with an error that is lasting',
    async (_, more, advice) => {
      const store = storeOf(more())
      const client = createLeases({ store, closeStore: false })
      const lasting = { outcome: 'none', lasting: true, message: expect.stringMatching(advice) }
      expect(await errorOf(client.acquire('k', { waitMs: HOUR_MS }))).toMatchObject(lasting)
      const { signal } = new AbortController()
      const watching = (async () => {
        for await (const _ of store.watch('k', { claim: 'c', signal }));
      })()
      expect(await errorOf(watching)).toMatchObject(lasting)
      await client.close()
      await store.close()
    },
  )

  it('no connection may be better the next time: that is not lasting', async () => {
    const store = storeOf({ endpoints: [`http://127.0.0.1:${await freePort()}`] })
    expect(await errorOf(store.acquire(request))).toMatchObject({ outcome: 'none', lasting: false })
    await store.close()
  })
})
