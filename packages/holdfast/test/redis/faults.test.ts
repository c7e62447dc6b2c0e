// What goes wrong with a server and its network, on real servers behind a proxy: kills, hangs, lost replies, lost records, lost
// scripts, a subscriber that hears nothing. Cases of the field by number.
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { LeaseHeldError, LeaseLostError, StoreError } from '../../src/lease/errors.js'
import { createLeases } from '../../src/lease/leases.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { clientKinds } from './clients.js'
import { Bench, fresh, granted, grantOf, HOUR_MS, request } from './harness.js'
import { cli, RedisServer, waitUntil } from './servers.js'

describe.each(clientKinds)('$name', (kind) => {
  const bench = Bench.here()
  const on = (...command: string[]) => cli(bench.port, ...command)

  /** A client whose connection goes through a proxy, and one that goes straight. */
  async function through() {
    const proxy = await bench.proxy()
    const near = bench.closing(redisStore(await bench.client(kind, proxy.port)))
    return { proxy, near, far: await bench.store({}, kind) }
  }

  it('C32: SCRIPT FLUSH between any two commands is not noticed', async () => {
    const store = await bench.store({}, kind)
    const key = fresh()
    const flushed = async <T>(work: Promise<T> | (() => Promise<T>)) => {
      await on('script', 'flush')
      return await (typeof work === 'function' ? work() : work)
    }
    await flushed(() => granted(store, key, 'a'))
    expect(await flushed(() => store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }]))).toMatchObject([{ is: 'renewed' }])
    expect(await flushed(() => store.inspect(key))).toMatchObject({ claim: 'a' })
    expect(await flushed(() => store.revoke(key))).toMatchObject({ claim: 'a' })
    await flushed(() => store.withdraw(key, 'a'))
    await flushed(() => granted(store, key, 'b'))
    expect(await flushed(() => store.release(grantOf(key, 'b')))).toEqual({ is: 'released' })
    expect(await flushed(() => store.prune({ olderThanMs: 0 }))).toBeGreaterThanOrEqual(0)
    const keys = Array.from({ length: 5 }, () => fresh())
    await flushed(() => Promise.all(keys.map((one) => granted(store, one, 'a'))))
  })

  it('C34: after the record was lost the holder is told at its next renewal, and the next token is bigger', async () => {
    const store = await bench.store({}, kind)
    const client = createLeases({ store, closeStore: false })
    const key = fresh()
    const lease = await client.acquire(key, { ttlMs: 30_000 })
    await on('flushall')
    await expect(lease.renew()).rejects.toMatchObject({ reason: 'expired' })
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError)
    const next = await client.acquire(key)
    expect(next.token).toBeGreaterThan(lease.token)
    await next.release()
    await client.close()
  })

  it('C08: replies of acquire, renew and release are swallowed: the repeat finds its own', async () => {
    const { proxy, near, far } = await through()
    const key = fresh()
    await granted(near, fresh(), 'warm')

    proxy.swallowReplies()
    const lost = near.acquire(request(key, 'a')).catch((error: unknown) => error)
    const token = await waitUntil('the grant', async () => (await far.inspect(key))?.token)
    proxy.heal()
    await lost // rejected, or repeated by the driver itself
    expect(await granted(near, key, 'a')).toBe(token)

    proxy.swallowReplies()
    const renewal = near.renew([{ key, claim: 'a', ttlMs: 2 * HOUR_MS }]).catch((error: unknown) => error)
    await waitUntil('the renewal', async () => ((await far.inspect(key))?.remainingMs ?? 0) > 1.5 * HOUR_MS)
    proxy.heal()
    await renewal
    expect(await near.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])

    proxy.swallowReplies()
    const release = near.release(grantOf(key, 'a')).catch((error: unknown) => error)
    await waitUntil('the release', async () => (await far.inspect(key))?.state === 'free')
    proxy.heal()
    await release
    expect(await near.release(grantOf(key, 'a'))).toEqual({ is: 'released' })
  })

  it('C08: a connection that breaks in the middle of a command leaves it unknown, or the driver repeats it', async () => {
    const { proxy, near } = await through()
    await granted(near, fresh(), 'warm')
    proxy.hang()
    const asked = near.acquire(request(fresh(), 'a')).catch((error: unknown) => error)
    proxy.cut()
    proxy.heal()
    const answer = await asked
    if (answer instanceof Error) expect(answer).toMatchObject({ outcome: 'unknown' })
    else expect(answer).toMatchObject({ is: 'granted' })
  })

  it('C15, C08: a handover whose reply is swallowed leaves one holder, and a bigger token', async () => {
    const { proxy, near, far } = await through()
    const key = fresh()
    const first = await granted(near, key, 'a')
    proxy.swallowReplies()
    const lost = near.acquire(request(key, 'b', { replaces: 'a' })).catch((error: unknown) => error)
    await waitUntil('the handover', async () => (await far.inspect(key))?.claim === 'b')
    proxy.heal()
    await lost
    expect(await granted(near, key, 'b', { replaces: 'a' })).toBeGreaterThan(first)
    expect(await far.acquire(request(key, 'c'))).toMatchObject({ is: 'held', holder: 'holder of b' })
    expect(await far.acquire(request(key, 'a'))).toMatchObject({ because: 'ended' })
  })

  it('a server that hangs in mid-hold: the signal aborts before the term is over (G5)', async () => {
    const { proxy, near } = await through()
    const client = createLeases({ store: near, closeStore: false })
    const lease = await client.acquire(fresh(), { ttlMs: 1_500, marginMs: 300 })
    proxy.hang()
    await waitUntil('the loss', () => lease.signal.aborted, 10_000)
    expect(lease.signal.reason).toMatchObject({ reason: 'deadline' })
    expect(lease.held).toBe(false)
    proxy.heal()
    await client.close()
  })

  it('C12: a release in the moment of subscribing wakes the waiter', async () => {
    const [one, two] = [await bench.store({}, kind), await bench.store({}, kind)]
    const [a, b] = [one, two].map((store) => createLeases({ store, closeStore: false }))
    const key = fresh()
    for (let round = 0; round < 50; round++) {
      const lease = await a?.acquire(key, { ttlMs: 60_000 })
      const waiting = b?.acquire(key, { ttlMs: 60_000, waitMs: 20_000 })
      if (round % 2 === 0) await Promise.resolve()
      else await one.inspect(key)
      await lease?.release()
      await (await waiting)?.release()
    }
    await Promise.all([a?.close(), b?.close()])
  })
})

describe('the server', () => {
  it('killed and started again empty: tokens still rise, and the holder is told (C34)', async () => {
    const server = await RedisServer.start()
    const client = new Redis({ port: server.port })
    client.on('error', () => {})
    const store = redisStore(client)
    const leases = createLeases({ store })
    const key = fresh()
    const lease = await leases.acquire(key, { ttlMs: 20_000, renewEveryMs: 300 })
    await server.kill()
    await server.start()
    await waitUntil('the loss', () => lease.signal.aborted)
    expect(lease.signal.reason).toMatchObject({ reason: 'expired' })
    const next = await leases.acquire(key)
    expect(next.token).toBeGreaterThan(lease.token)
    await next.release()
    await leases.close()
    client.disconnect()
    await server.stop()
  })

  it('that is down gives StoreError, never "held" (G13, C18)', async () => {
    const server = await RedisServer.start()
    const client = new Redis({ port: server.port, maxRetriesPerRequest: 0 })
    client.on('error', () => {})
    const leases = createLeases({ store: redisStore(client) })
    const lease = await leases.acquire('a', { ttlMs: 20_000 })
    await server.kill()
    const error = await leases.acquire('b', { waitMs: 300 }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(StoreError)
    expect(error).not.toBeInstanceOf(LeaseHeldError)
    expect(lease.held).toBe(true) // its deadline is not over: a blip is no loss
    await server.start()
    client.disconnect()
    await leases.close({ drainMs: 100 }).catch(() => {})
    await server.stop()
  })

  it('that evicts the record: the holder is told at its next renewal, and the next token is bigger (C34)', async () => {
    const server = await RedisServer.start('--maxmemory', '3mb', '--maxmemory-policy', 'allkeys-random')
    const client = new Redis({ port: server.port })
    const store = redisStore(client)
    const token = await granted(store, 'a', 'a')
    await cli(
      server.port,
      'eval',
      "for i = 1, 30000 do redis.call('set', 'filler' .. i, string.rep('x', 100)) end",
      '0',
    ).catch(() => {})
    for (let i = 0; (await store.inspect('a')) !== null && i < 200; i++) {
      for (let n = 0; n < 500; n++) client.set(`more ${i} ${n}`, 'x'.repeat(200)).catch(() => {})
    }
    expect(await store.renew([{ key: 'a', claim: 'a', ttlMs: 1_000 }])).toEqual([{ is: 'lost', reason: 'expired' }])
    expect(await granted(store, 'a', 'b')).toBeGreaterThan(token)
    client.disconnect()
    await server.stop()
  })
})

describe('replicas', () => {
  async function replicated() {
    const primary = await RedisServer.start()
    const replica = await RedisServer.start('--replicaof', `127.0.0.1 ${primary.port}`)
    await waitUntil('the replica', async () =>
      (await cli(primary.port, 'info', 'replication')).includes('state=online'),
    )
    return { primary, replica }
  }

  it('a grant and a renewal wait for them; without their word they are unknown, and a repeat finds its own', async () => {
    const { primary, replica } = await replicated()
    for (const kind of clientKinds) {
      const { client, close } = await kind.standalone(primary.port)
      const store = redisStore(client, { replicas: 1, replicasTimeoutMs: 10_000 })
      const impatient = redisStore(client, { replicas: 1, replicasTimeoutMs: 200 })
      const key = fresh()
      const token = await granted(store, key, 'a')
      expect(await store.renew([{ key, claim: 'a', ttlMs: HOUR_MS }])).toMatchObject([{ is: 'renewed' }])
      replica.freeze()
      await expect(impatient.acquire(request(fresh(), 'b'))).rejects.toMatchObject({
        outcome: 'unknown',
        message: expect.stringContaining('1 replicas were to confirm it'),
      })
      const renewal = impatient.renew([{ key, claim: 'a', ttlMs: 2 * HOUR_MS }])
      await expect(renewal).rejects.toMatchObject({ outcome: 'unknown' })
      replica.thaw()
      expect(await granted(store, key, 'a')).toBe(token)
      await close()
    }
    await Promise.all([primary.stop(), replica.stop()])
  })

  it('no turn is told while grants wait for replicas: its token would be a grant that none has confirmed (ADR 0025)', async () => {
    const { primary, replica } = await replicated()
    for (const kind of clientKinds) {
      const { client, close } = await kind.standalone(primary.port)
      const turnsOf = async (replicas: number) => {
        const holds = redisStore(client)
        const waits = redisStore(client, { replicas, replicasTimeoutMs: 10_000 })
        const [key, ending, turns] = [fresh(), new AbortController(), [] as unknown[]]
        await granted(holds, key, 'a')
        const asks = { ...request(key, 'b'), queue: { pollMs: HOUR_MS, told: true } }
        const listening = async () => {
          for await (const turn of waits.watch(key, { claim: 'b', signal: ending.signal })) turns.push(turn)
        }
        expect(await waits.acquire(asks)).toMatchObject({ is: 'held' })
        const listened = listening()
        await waitUntil('the hint that the subscription is in place', async () => turns.length > 0)
        await holds.release(grantOf(key, 'a'))
        await waitUntil('the turn', async () => turns.length > 1)
        ending.abort()
        await listened
        await waits.close()
        return turns.at(-1)
      }
      expect(await turnsOf(0)).toEqual({ token: expect.any(Number) })
      expect(await turnsOf(1)).toBeUndefined()
      await close()
    }
    await Promise.all([primary.stop(), replica.stop()])
  })
})
