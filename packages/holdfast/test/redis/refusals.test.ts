// What a server in trouble answers, for every kind of client: each answer is trouble of the store, never "held by another", says
// what to do, and says whether anything was applied (G13, C33).
import { rmSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { LeaseHeldError, StoreError } from '../../src/lease/errors.js'
import { createLeases } from '../../src/lease/leases.js'
import type { LeaseStore } from '../../src/store/contract.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { type ClientKind, clientKinds } from './clients.js'
import { granted, grantOf, request } from './harness.js'
import { cli, RedisServer, waitUntil } from './servers.js'

/** Loads a thousand keys in two seconds or so, and answers while it does. */
const SLOWLY_LOADED = ['--dbfilename', 'dump.rdb', '--key-load-delay', '2000']
SLOWLY_LOADED.push('--loading-process-events-interval-bytes', '1024')

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function started(...args: string[]): Promise<RedisServer> {
  const server = await RedisServer.start(...args)
  closing.push(() => server.stop())
  return server
}

async function storeOn({ port }: RedisServer, kind: ClientKind): Promise<LeaseStore> {
  const { client, close } = await kind.standalone(port)
  closing.push(close)
  return redisStore(client)
}

/** Every verb that writes is refused with this advice, and so is a caller. `a` is held by the claim `a`. */
async function expectRefused(store: LeaseStore, advice: string): Promise<void> {
  const refused = { outcome: 'none', lasting: false, message: expect.stringContaining(advice) }
  await expect(store.acquire(request('b', 'b'))).rejects.toMatchObject(refused)
  await expect(store.renew([{ key: 'a', claim: 'a', ttlMs: 7_200_000 }])).rejects.toMatchObject(refused)
  await expect(store.release(grantOf('a', 'a'))).rejects.toMatchObject(refused)
  await expect(store.withdraw('a', 'c')).rejects.toMatchObject(refused)
  await expect(store.revoke('a')).rejects.toMatchObject(refused)
  const leases = createLeases({ store, closeStore: false })
  const error = await leases.acquire('b', { waitMs: 100 }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(StoreError)
  expect(error).not.toBeInstanceOf(LeaseHeldError)
  expect(error).toMatchObject(refused)
  await expect(leases.tryAcquire('b')).rejects.toMatchObject(refused)
  await leases.close({ drainMs: 0 })
}

describe.each(clientKinds)('$name', (kind) => {
  it('LOADING: the server loads its data', async () => {
    const server = await started(...SLOWLY_LOADED)
    const store = await storeOn(server, kind)
    await granted(store, 'a', 'a')
    await cli(server.port, 'eval', "for i = 1, 1000 do redis.call('SET', 'filler' .. i, 'x') end", '0')
    await cli(server.port, 'save')
    await server.kill()
    await server.start()
    expect(await cli(server.port, 'get', 'x')).toContain('LOADING')
    // ioredis keeps commands back until the server is ready; one that was connected before is answered.
    const answer = await store.acquire(request('b', 'b')).catch((thrown: unknown) => thrown)
    if (answer instanceof Error)
      expect(answer).toMatchObject({ outcome: 'none', message: expect.stringContaining('still loading its data') })
    else expect(answer).toMatchObject({ is: 'granted' })
    await waitUntil('all its data', async () => !(await cli(server.port, 'get', 'x')).includes('LOADING'))
    expect(await store.renew([{ key: 'a', claim: 'a', ttlMs: 7_200_000 }])).toMatchObject([{ is: 'renewed' }])
  })

  it('MASTERDOWN: a replica that lost its primary, and does not serve old data', async () => {
    const server = await started()
    const store = await storeOn(server, kind)
    await granted(store, 'a', 'a')
    await cli(server.port, 'config', 'set', 'replica-serve-stale-data', 'no')
    await cli(server.port, 'replicaof', '127.0.0.1', '1')
    await expectRefused(store, 'has lost its primary')
  })

  it('MISCONF: the server cannot save', async () => {
    const server = await started('--dbfilename', 'dump.rdb', '--save', '3600 1')
    const store = await storeOn(server, kind)
    await granted(store, 'a', 'a')
    rmSync(server.folder, { recursive: true })
    await cli(server.port, 'bgsave')
    await waitUntil('the failure', async () => (await cli(server.port, 'info', 'persistence')).includes('status:err'))
    await expectRefused(store, 'since it cannot save its data')
  })

  it('NOREPLICAS: fewer replicas than min-replicas-to-write', async () => {
    const server = await started()
    const store = await storeOn(server, kind)
    await granted(store, 'a', 'a')
    await cli(server.port, 'config', 'set', 'min-replicas-to-write', '1')
    await expectRefused(store, 'min-replicas-to-write')
  })

  it('BUSY: a script of somebody runs for ever', async () => {
    const server = await started('--busy-reply-threshold', '50')
    const store = await storeOn(server, kind)
    await granted(store, 'a', 'a')
    const busy = cli(server.port, 'eval', 'while true do end', '0').catch(() => {})
    await waitUntil('the busy server', async () => (await cli(server.port, 'get', 'x')).startsWith('BUSY'))
    await expectRefused(store, 'SCRIPT KILL')
    await cli(server.port, 'script', 'kill')
    await busy
  })
})
