// What a lock in Redis is asked for, each by the name that the page of the store gives it, on a real server and with both drivers.
import { describe, expect, it } from 'vitest'
import {
  type ClientOptions,
  createLeases,
  exponential,
  fixed,
  type Grant,
  type Lease,
  LeaseHeldError,
  LeaseLostError,
  type LeaseStore,
  type Leases,
  noRetry,
  type Situation,
  StaleTokenError,
  StoreError,
} from '../../src/index.js'
import { redisFence, redisStore } from '../../src/stores/redis/index.js'
import { clientKind } from './clients.js'
import { Bench, fresh } from './harness.js'
import { cli, pass, waitUntil } from './servers.js'

/** A store that notes when each verb is asked, and when it is answered. */
function noting(store: LeaseStore) {
  const calls: { verb: string; sentMs: number; answeredMs: number }[] = []
  const note = async <T>(verb: string, send: () => Promise<T>): Promise<T> => {
    const call = { verb, sentMs: performance.now(), answeredMs: Number.NaN }
    calls.push(call)
    try {
      return await send()
    } finally {
      call.answeredMs = performance.now()
    }
  }
  const noted: LeaseStore = {
    ...store,
    acquire: (request, call) => note('acquire', () => store.acquire(request, call)),
    renew: (leases, call) => note('renew', () => store.renew(leases, call)),
    release: (grant, call) => note('release', () => store.release(grant, call)),
    withdraw: (key, claim, call) => note('withdraw', () => store.withdraw(key, claim, call)),
  }
  return { store: noted, of: (verb: string) => calls.filter((call) => call.verb === verb) }
}

describe.each(['ioredis 6', 'node-redis 6'])('%s', (name) => {
  const bench = Bench.here()
  const kind = clientKind(name)
  const on = (...command: string[]) => cli(bench.port, ...command)
  const full = (key: string) => `holdfast:${key}`

  /** A process: its client, its calls to the store, and the proxy that it goes through. */
  async function process(options: Partial<ClientOptions> = {}) {
    const proxy = await bench.proxy()
    const calls = noting(bench.closing(redisStore(await bench.client(kind, proxy.port))))
    const leases = createLeases({ store: calls.store, closeStore: false, ...options })
    bench.closing({ close: () => leases.close({ drainMs: 0 }).catch(() => {}) })
    await (await leases.acquire(fresh())).release()
    return { leases, proxy, calls }
  }

  /** A key that another process holds. */
  async function taken(ttlMs = 60_000) {
    const { leases } = await process()
    return leases.acquire(fresh(), { ttlMs })
  }

  it('try once: a lease, or null at once when another holds it; trouble with Redis is an error', async () => {
    const { leases, calls } = await process()
    const { key } = await taken()
    const before = calls.of('acquire').length
    expect(await leases.tryAcquire(key)).toBeNull()
    expect(calls.of('acquire').length - before).toBe(1)
    const lease = await leases.tryAcquire(fresh())
    expect(lease?.held).toBe(true)
    await lease?.release()
    await on('config', 'set', 'maxmemory', '1')
    await expect(leases.tryAcquire(fresh())).rejects.toBeInstanceOf(StoreError)
    await on('config', 'set', 'maxmemory', '0')
  })

  it.each([
    ['none', noRetry, 1, 0],
    ['equal intervals, so often at most', fixed({ delayMs: 40, maxAttempts: 3 }), 3, 80],
    [
      'exponential back-off, so often at most',
      exponential({ minMs: 20, maxMs: 50, jitter: 0, maxAttempts: 4 }),
      4,
      110,
    ],
  ] as const)('lock, with a retry strategy: %s', async (_, retry, attempts, leastMs) => {
    const { leases, calls } = await process()
    const { key } = await taken()
    const before = calls.of('acquire').length
    const startMs = performance.now()
    await expect(leases.acquire(key, { retry, waitMs: 60_000 })).rejects.toBeInstanceOf(LeaseHeldError)
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(leastMs)
    // The subscription that begins with the wait has one question more asked, in case of a release just before it.
    expect(calls.of('acquire').length - before).toBeGreaterThanOrEqual(attempts)
    expect(calls.of('acquire').length - before).toBeLessThanOrEqual(attempts + (attempts > 1 ? 1 : 0))
  })

  it("lock, by a strategy of one's own: it sees who holds, or the last error, and may stop", async () => {
    const { leases } = await process()
    const { key } = await taken()
    const seen: Situation[] = []
    const retry = (situation: Situation) => {
      seen.push(situation)
      return seen.length < 2 ? 10 : null
    }
    await expect(leases.acquire(key, { retry })).rejects.toBeInstanceOf(LeaseHeldError)
    expect(seen.map(({ attempt, error }) => [attempt, error])).toEqual([
      [1, undefined],
      [2, undefined],
    ])
    expect(seen[0]?.remainingMs).toBeGreaterThan(30_000)
    seen.length = 0
    await on('replicaof', '127.0.0.1', '1')
    await expect(leases.acquire(fresh(), { retry })).rejects.toBeInstanceOf(StoreError)
    await on('replicaof', 'no', 'one')
    expect(seen.map(({ attempt, holder }) => [attempt, holder])).toEqual([
      [1, undefined],
      [2, undefined],
    ])
    expect(seen[1]?.error).toBeInstanceOf(StoreError)
    expect(String(seen[1]?.error)).toContain('READONLY')
  })

  it('an acquire that timed out is made again, and finds its own lock', async () => {
    const { leases, proxy, calls } = await process({ callTimeoutMs: 600 })
    const look = await bench.store()
    const key = fresh()
    proxy.swallowReplies()
    const asked = leases.acquire(key, { ttlMs: 60_000, waitMs: 30_000 })
    const token = await waitUntil('the grant', async () => (await look.inspect(key))?.token)
    await waitUntil('the next attempt', () => calls.of('acquire').length > 2)
    proxy.heal()
    const lease = await asked
    expect(lease.token).toBe(token)
    expect(await look.inspect(key)).toMatchObject({ changes: 1, claim: lease.grant.claim })
    await lease.release()
  })

  it('a release that timed out is made good in the background; one that was answered is not repeated', async () => {
    const { leases, proxy, calls } = await process({ callTimeoutMs: 600 })
    const look = await bench.store()
    const lease = await leases.acquire(fresh(), { ttlMs: 60_000 })
    proxy.hang()
    await lease.release() // rejects never, and is bounded in time
    expect(lease.held).toBe(false)
    proxy.heal()
    await waitUntil('the end of the lease', async () => (await look.inspect(lease.key))?.state === 'free')
    const lost = await leases.acquire(fresh(), { ttlMs: 60_000 })
    await on('del', full(lost.key))
    const before = calls.of('withdraw').length
    await lost.release()
    await lost.release()
    expect(calls.of('release').length).toBe(3) // the first of all, and one for each of these
    expect(calls.of('withdraw').length).toBe(before)
  })

  it('unlock and refresh compare the owner: who overran its ttl changes nothing of the next', async () => {
    const look = await bench.store()
    const { leases } = await process()
    const late = await leases.acquire(fresh(), { ttlMs: 400, renew: false })
    await waitUntil('the end of the term', async () => (await look.inspect(late.key))?.state === 'free')
    const next = await (await process()).leases.acquire(late.key, { ttlMs: 60_000, renew: false })
    await expect(late.renew()).rejects.toBeInstanceOf(LeaseLostError)
    await late.release()
    const record = await look.inspect(late.key)
    expect(record).toMatchObject({ state: 'held', claim: next.grant.claim, token: next.token })
    expect(record?.remainingMs).toBeLessThanOrEqual(60_000)
    await next.renew()
    await next.release()
    expect(next.token).toBeGreaterThan(late.token)
  })

  it('automatic refresh: at its interval, with its time-out, a time-out tried again at once; off when asked for', async () => {
    const { leases, proxy, calls } = await process()
    const lease = await leases.acquire(fresh(), { ttlMs: 20_000, renewEveryMs: 3_000, callTimeoutMs: 400 })
    await waitUntil('a renewal', () => calls.of('renew').length === 1)
    proxy.swallowReplies()
    await waitUntil('two that time out', () => calls.of('renew').length >= 3)
    proxy.heal()
    const [first, second, third] = calls.of('renew')
    expect((first?.sentMs ?? 0) - (calls.of('acquire').at(-1)?.sentMs ?? 0)).toBeGreaterThan(2_000)
    expect((third?.sentMs ?? 0) - (second?.sentMs ?? 0)).toBeGreaterThanOrEqual(399) // the time-out
    expect((third?.sentMs ?? 0) - (second?.sentMs ?? 0)).toBeLessThan(2_500) // not the next interval
    await waitUntil('one that is answered', () =>
      calls.of('renew').some(({ sentMs, answeredMs }) => sentMs > (third?.sentMs ?? 0) && answeredMs > 0),
    )
    expect(lease.held).toBe(true)
    await lease.release()
    const before = calls.of('renew').length
    const manual = await leases.acquire(fresh(), { ttlMs: 1_000, renew: false })
    await waitUntil('its end', () => !manual.held)
    expect(calls.of('renew').length).toBe(before)
  })

  it('a notice when it is lost: the work is interrupted, and what it did is compensated', async () => {
    const { leases } = await process()
    const next = await process()
    const fence = redisFence(await bench.client(kind))
    await fence.install()
    const key = fresh()
    const row = `{${key}}:row`
    const steps: string[] = []
    let mine: Grant | undefined
    const work = async ({ grant, signal }: Pick<Lease, 'grant' | 'signal'>) => {
      mine = grant
      await fence.set(grant, row, 'first')
      for (let step = 1; ; step++) {
        signal.throwIfAborted()
        steps.push(`step ${step}`)
        await pass(20)
      }
    }
    const compensated = leases.hold(key, { ttlMs: 10_000, renewEveryMs: 200 }, work).catch(async (error: unknown) => {
      if (!(error instanceof LeaseLostError) || mine === undefined) throw error
      steps.push(`interrupted: ${error.reason}`)
      const undone = fence.del(mine, row)
      await expect(undone).rejects.toBeInstanceOf(StaleTokenError) // the next has written, so there is nothing to undo
      steps.push('refused')
    })
    await waitUntil('some work', () => steps.length > 2)
    await on('del', full(key))
    const lease = await next.leases.acquire(key)
    await fence.set(lease.grant, row, 'second')
    await compensated
    expect(steps.slice(-2)).toEqual([expect.stringMatching(/^interrupted: (taken|expired)$/), 'refused'])
    expect(await on('get', row)).toBe('second')
    await lease.release()
  })

  it('two-stage locking: of all callers of a process one asks Redis, and the lease is handed on with a new token', async () => {
    const { leases, calls } = await process()
    const other: Leases = (await process()).leases
    const key = fresh()
    const first = await other.acquire(key)
    const before = calls.of('acquire').length
    const tokens: number[] = []
    let inside = 0
    const work = async ({ token }: { token: number }) => {
      expect(++inside).toBe(1)
      tokens.push(token)
      await pass(5)
      inside--
    }
    const all = Array.from({ length: 20 }, () => leases.hold(key, work))
    await waitUntil('the first to wait', () => calls.of('acquire').length > before)
    await pass(300)
    expect(calls.of('acquire').length - before).toBeLessThanOrEqual(2) // not twenty
    await first.release()
    await Promise.all(all)
    expect(tokens).toHaveLength(20)
    expect([...tokens].sort((a, b) => a - b)).toEqual(tokens)
    expect(new Set(tokens).size).toBe(20)
    expect(calls.of('acquire').length - before).toBeLessThan(25)
  })

  it('sharing a result: who asks before the run has begun gets that of one run', async () => {
    const { leases } = await process()
    const key = fresh()
    let runs = 0
    const results = await Promise.all(Array.from({ length: 10 }, () => leases.coalesce(key, async () => ++runs)))
    expect(results).toEqual(results.map(() => 1))
    expect(runs).toBe(1)
  })
})
