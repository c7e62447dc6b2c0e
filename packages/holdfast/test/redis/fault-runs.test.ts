// After every fault the registers are read: what is fenced is in the order of its tokens whatever happened (G7); the plain one
// shows two holders at once exactly where the docs say that the promise of exclusion ends.
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { clientKind } from './clients.js'
import { type FaultRun, faultRuns, World } from './fault-runs.js'
import { fresh } from './harness.js'
import { Registers } from './registers.js'
import { pass, RedisServer, waitUntil } from './servers.js'

vi.setConfig({ maxConcurrency: 8 })

let server: RedisServer
let data: Redis
beforeAll(async () => {
  server = await RedisServer.start()
  data = new Redis({ port: server.port })
})
afterAll(async () => {
  data?.disconnect()
  await server?.stop()
})

async function play({ args = [], ttlMs = 60_000, renewEveryMs = ttlMs / 2, happen }: FaultRun, kind: string) {
  const world = await World.start(clientKind(kind), args)
  const registers = new Registers(data, fresh('register'))
  let ended = false
  try {
    const lease = await (await world.leases(world.proxy.port)).acquire('k', {
      ttlMs,
      renewEveryMs,
      callTimeoutMs: ttlMs / 3, // a busy machine may take its time
    })
    let stopped = false
    const writes = (async () => {
      while (lease.held && !stopped) {
        await registers.write(lease)
        await pass(20)
      }
    })()
    await registers.write(lease)
    const next = (async () => {
      while (!ended) {
        // In the meantime the server may be another.
        const lease = await world
          .leases()
          .then((leases) => leases.acquire('k', { ttlMs: 60_000, waitMs: 1_000 }))
          .catch(() => undefined)
        if (lease !== undefined) return lease
      }
      throw new Error('the run has ended')
    })()
    next.catch(() => {})
    await happen(world, async () => {
      stopped = true
      await writes
      await lease.release()
    })
    const other = await next
    await registers.write(other)
    if (lease.held) await registers.write(lease)
    stopped = true
    await writes
    return { lease, next: other, lateAdmitted: await registers.writeLate(lease), ...(await registers.overwritten()) }
  } finally {
    ended = true
    await world.end()
  }
}

describe.each(['ioredis 6', 'node-redis 6'])('%s', (kind) => {
  for (const run of faultRuns) {
    const what = run.overlap ? 'two may believe, and only the fence tells them apart' : 'one believes at a time'
    it.concurrent(`${run.title}: ${what}`, async ({ expect }) => {
      const { lease, next, lateAdmitted, fenced, plain } = await play(run, kind)
      expect(next.token).toBeGreaterThan(lease.token)
      expect(lateAdmitted).toBe(false)
      expect(fenced).toEqual([])
      if (run.overlap) expect(plain).not.toEqual([])
      else expect(plain).toEqual([])
    })
  }
})

describe('lost replies in a row of holders', () => {
  it.each(['ioredis 6', 'node-redis 6'])('acquire, handover and release each lose one: %s', async (kind) => {
    const world = await World.start(clientKind(kind), [])
    const registers = new Registers(data, fresh('register'))
    const [near, far] = [await world.leases(world.proxy.port), await world.leases()]
    await (await near.acquire('warm')).release()
    const options = { ttlMs: 30_000, callTimeoutMs: 500, waitMs: 30_000 }
    const lost = async <T>(work: () => Promise<T>, arrived: () => Promise<boolean>) => {
      world.proxy.swallowReplies()
      const done = work()
      await waitUntil('the request at the server', arrived)
      await pass(600) // its time-out is over
      world.proxy.heal()
      return await done
    }
    const store = await world.store()
    const record = async () => await store.inspect('k')
    const first = await lost(
      () => near.acquire('k', options),
      async () => (await record())?.state === 'held',
    )
    await registers.write(first)
    const waiting = near.acquire('k', options)
    await lost(
      () => first.release(),
      async () => (await record())?.token !== first.token,
    )
    const second = await waiting
    expect(second.token).toBeGreaterThan(first.token)
    await registers.write(second)
    const third = far.acquire('k', options)
    await lost(
      () => second.release(),
      async () => (await record())?.claim !== second.grant.claim,
    )
    await registers.write(await third)
    expect(await registers.writeLate(second)).toBe(false)
    expect(await registers.overwritten()).toEqual({ fenced: [], plain: [] })
    await world.end()
  })
})
