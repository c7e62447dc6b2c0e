// What goes wrong with NATS and its network: lost replies, a server that hangs, is killed, and comes back; holders that die. The
// cases of other people's locks by their number (C20, C38, C45 to C47), each failed by a lock of the kind that people write.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLeases, type Leases } from '../../src/index.js'
import { systemRandom } from '../../src/lease/random.js'
import type { LeaseStore } from '../../src/store/contract.js'
import { type NatsKv, natsStore } from '../../src/stores/nats/index.js'
import { pass, waitUntil } from '../redis/servers.js'
import { counted, NatsBench } from './harness.js'
import { naiveLock } from './naive.js'

const TTL_MS = 1_500

let bench: NatsBench
let buckets = 0
beforeAll(async () => {
  bench = await NatsBench.start()
})
afterAll(() => bench?.stop())

const name = () => `b${++buckets}`
const ask = (claim = systemRandom.claim(), holder = claim.slice(0, 4)) => ({ key: 'k', claim, holder, ttlMs: TTL_MS })
const client = (store: LeaseStore): Leases => createLeases({ store, ttlMs: TTL_MS, callTimeoutMs: 300 })
const token = (answer: unknown) => (answer as { token: number }).token

describe('the network', () => {
  it('an acquire, a renewal and a release whose replies are lost have their effect once, and are known after a repeat (C08)', async () => {
    const bucket = name()
    const far = await bench.store(bucket)
    const proxy = await bench.proxy()
    const near = await bench.store(bucket, proxy.port)
    await near.inspect('k')
    const mine = ask()
    proxy.swallowReplies()
    const lost = near.acquire(mine, { timeoutMs: 300 }).catch((error) => error)
    await waitUntil('the grant', async () => (await far.inspect('k'))?.claim === mine.claim)
    const granted = token(await far.inspect('k'))
    proxy.cut()
    proxy.heal()
    expect(await waitUntil('a repeat', () => near.acquire(mine).catch(() => undefined))).toMatchObject({
      is: 'granted',
      token: granted,
    })
    await lost
    expect(await far.acquire(ask())).toMatchObject({ is: 'held', token: granted })
    proxy.swallowReplies()
    void near.release({ ...mine, token: granted }).catch(() => {})
    await waitUntil('the release', async () => (await far.inspect('k'))?.state === 'free')
    proxy.cut()
    proxy.heal()
    expect(
      await waitUntil('a second release', () => near.release({ ...mine, token: granted }).catch(() => undefined)),
    ).toEqual({ is: 'released' })
  })

  const LONG_MS = 600_000
  it.each<[string, (store: LeaseStore, claim: string) => Promise<unknown>, object | undefined, object]>([
    [
      'a renewal',
      (store, claim) => store.renew([{ key: 'k', claim, ttlMs: LONG_MS }]),
      [{ is: 'renewed' }],
      { state: 'held' },
    ],
    ['a withdrawal', (store, claim) => store.withdraw('k', claim), undefined, { state: 'free' }],
    ['a revocation', (store) => store.revoke('k'), { state: 'held' }, { state: 'held', revoked: true }],
    ['an inspection', (store) => store.inspect('k'), { state: 'held' }, { state: 'held', revoked: false }],
  ])('%s whose reply is lost has its effect once, and is known after a repeat (C08)', async (_, verb, told, stands) => {
    const bucket = name()
    const far = await bench.store(bucket)
    const proxy = await bench.proxy()
    const near = await bench.store(bucket, proxy.port)
    const mine = { ...ask(), ttlMs: LONG_MS }
    const granted = token(await near.acquire(mine))
    const swallowed = proxy.counts.bytesSwallowed
    proxy.swallowReplies()
    const lost = verb(near, mine.claim).catch((error) => error)
    await waitUntil('the reply', () => proxy.counts.bytesSwallowed > swallowed)
    proxy.cut()
    proxy.heal()
    const repeated = await waitUntil('a repeat', () =>
      verb(near, mine.claim).then(
        (answer) => ({ answer }),
        () => undefined,
      ),
    )
    if (told === undefined) expect(repeated.answer).toBeUndefined()
    else expect(repeated.answer).toMatchObject(told)
    expect(await far.inspect('k')).toMatchObject({ ...stands, token: granted })
    await lost
  })

  it('a lease that is passed on with its reply lost is passed on once, and the repeat finds its own (C08)', async () => {
    const bucket = name()
    const far = await bench.store(bucket)
    const proxy = await bench.proxy()
    const near = await bench.store(bucket, proxy.port)
    const [mine, next] = [ask(), ask()].map((one) => ({ ...one, ttlMs: LONG_MS }))
    if (mine === undefined || next === undefined) throw new Error('two claims')
    const first = token(await near.acquire(mine))
    proxy.swallowReplies()
    const lost = near.acquire({ ...next, replaces: mine.claim }, { timeoutMs: 300 }).catch((error) => error)
    await waitUntil('the grant', async () => (await far.inspect('k'))?.claim === next.claim)
    const granted = token(await far.inspect('k'))
    expect(granted).toBeGreaterThan(first)
    proxy.cut()
    proxy.heal()
    const repeat = () => near.acquire({ ...next, replaces: mine.claim }).catch(() => undefined)
    expect(await waitUntil('a repeat', repeat)).toMatchObject({ is: 'granted', token: granted, replaced: true })
    expect(await far.renew([mine])).toEqual([{ is: 'lost', reason: 'released' }])
    expect(await far.inspect('k')).toMatchObject({ claim: next.claim, token: granted, changes: 2 })
    await lost
  })

  it('what is freed by force with its reply lost is free, the one that freed it is told whom, and the one that held it, too (C08)', async () => {
    const bucket = name()
    const far = await bench.store(bucket)
    const proxy = await bench.proxy()
    const near = await bench.store(bucket, proxy.port)
    const mine = { ...ask(), ttlMs: LONG_MS }
    const granted = token(await far.acquire(mine))
    await near.inspect('k')
    proxy.swallowReplies()
    const revoking = near.revoke('k', { force: true }).catch((error) => error)
    await waitUntil('it is free', async () => (await far.inspect('k'))?.state === 'free')
    proxy.cut()
    proxy.heal()
    // The write is read back in the same call.
    expect(await revoking).toMatchObject({ state: 'held', claim: mine.claim, token: granted })
    expect(await near.revoke('k', { force: true })).toBeNull()
    expect(await far.inspect('k')).toMatchObject({ state: 'free', token: granted })
    expect(await far.renew([mine])).toEqual([{ is: 'lost', reason: 'revoked' }])
    expect(await far.acquire(mine)).toMatchObject({ is: 'held', because: 'ended' })
  })

  it('a holder that is cut off is told before another gets in, and follows when it is back (C45, C46)', async () => {
    const bucket = name()
    const proxy = await bench.proxy()
    const holder = client(await bench.store(bucket, proxy.port))
    const other = client(await bench.store(bucket))
    const lease = await holder.acquire('k')
    const plain = naiveLock(await bench.bucket(name(), {}, proxy.port), 'a', TTL_MS, () => Date.now())
    await plain.acquire()
    let toldMs = 0
    lease.signal.addEventListener('abort', () => {
      toldMs = performance.now()
    })
    proxy.hang()
    const taken = await other.acquire('k', { waitMs: 30_000 })
    const takenMs = performance.now()
    expect(toldMs).toBeGreaterThan(0)
    expect(toldMs).toBeLessThan(takenMs)
    expect(lease.held).toBe(false)
    expect(taken.token).toBeGreaterThan(lease.token)
    expect(plain.believes).toBe(true) // nobody tells it
    proxy.cut()
    proxy.heal()
    await waitUntil('an answer', () =>
      holder.tryAcquire('k').then(
        () => true,
        () => false,
      ),
    )
    expect(taken.held).toBe(true)
    expect(lease.held).toBe(false)
    await taken.release()
  })

  it('a renewal that overlaps an earlier one of the same holder is no loss (C20)', async () => {
    const store = await bench.store(name())
    const mine = ask()
    await store.acquire(mine)
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => store.renew([mine])))
    for (const [outcome] of outcomes) expect(outcome).toMatchObject({ is: 'renewed' })
  })
})

describe('the server', () => {
  it('is killed and comes back with its data: the lease is held as before, an old revision is refused (C38)', async () => {
    const bucket = name()
    const kv = await bench.bucket(bucket)
    const store = await bench.store(bucket)
    const long = { ...ask(), ttlMs: 60_000 }
    const granted = await store.acquire(long)
    const before = (await kv.get('k'))?.revision ?? 0
    await store.renew([long])
    await bench.server.kill()
    await expect(store.acquire(ask(), { timeoutMs: 300 }).then(({ is }) => is)).rejects.toMatchObject({
      code: 'STORE_ERROR',
    })
    await bench.server.begin()
    // The server answers before its stream does.
    const fresh = await waitUntil('the bucket', () => bench.store(bucket).catch(() => undefined))
    expect(await waitUntil('an answer', () => fresh.acquire(ask()).catch(() => undefined))).toMatchObject({
      is: 'held',
      token: token(granted),
    })
    // Nor does the stream take writes at once: an answer is waited for, and it has to be the refusal.
    const put = () => kv.put('k', 'an old revision', { previousSeq: before }).catch((error) => error)
    const refusal = await waitUntil('an answer', async () => {
      const answer = await put()
      return answer?.name === 'TimeoutError' ? undefined : answer
    })
    expect(refusal).toMatchObject({ code: 10_071 })
    expect(await waitUntil('a renewal', () => store.renew([long]).catch(() => undefined))).toMatchObject([
      { is: 'renewed' },
    ])
  })

  it('is killed and comes back while one waits: the watch goes on, and the release wakes the waiter (G8)', async () => {
    const bucket = name()
    const far = await bench.store(bucket)
    const mine = { ...ask(), ttlMs: 600_000 }
    const granted = token(await far.acquire(mine))
    const { kv } = counted(await bench.bucket(bucket))
    let watches = 0
    const watch: NatsKv['watch'] = async (options) => {
      const entries = await kv.watch(options)
      watches++
      return entries
    }
    const leases = client(natsStore({ ...kv, watch }))
    const waiting = leases.acquire('k', { waitMs: 30_000, retry: () => 600_000 }) // nothing but the watch wakes it
    await waitUntil('the watch', () => watches > 0)
    await bench.server.kill()
    await bench.server.begin()
    await waitUntil('an answer', () => far.renew([mine]).catch(() => undefined))
    await far.release({ ...mine, token: granted })
    const lease = await waiting
    expect(lease.token).toBeGreaterThan(granted)
    await lease.release()
  })

  it('hangs in the middle of a hold: the signal aborts by the deadline, and nobody is told "held" (C46, G13)', async () => {
    const bucket = name()
    const leases = client(await bench.store(bucket))
    const lease = await leases.acquire('k')
    const store = await bench.store(bucket)
    bench.server.signal('SIGSTOP')
    try {
      await waitUntil('the abort', () => lease.signal.aborted)
      expect(lease.held).toBe(false)
      await expect(client(store).acquire('k', { waitMs: 500 })).rejects.toMatchObject({ code: 'STORE_ERROR' })
    } finally {
      bench.server.signal('SIGCONT')
    }
  })
})

describe('holders', () => {
  it('a process that has just started waits for a whole ttl, by its own clock, whatever the dead holder wrote (C38)', async () => {
    const bucket = name()
    await (await bench.store(bucket)).acquire({ ...ask(), ttlMs: 4 * TTL_MS })
    await pass(TTL_MS)
    const fresh = await bench.store(bucket)
    const first = await fresh.acquire(ask())
    expect(first).toMatchObject({ is: 'held' })
    expect((first as { remainingMs: number }).remainingMs).toBeGreaterThan(3.5 * TTL_MS)

    // A lock that believes the writer's clock takes the key from a live holder whose clock is behind.
    const plain = await bench.bucket(name())
    await naiveLock(plain, 'a', TTL_MS, () => Date.now() - 60_000).acquire()
    expect(await naiveLock(plain, 'b', TTL_MS, () => Date.now()).acquire()).toBe(true)
  })

  it('a waiter is woken when a dead holder has given no sign of life for its ttl, with no message to wake it (G8)', async () => {
    const bucket = name()
    await (await bench.store(bucket)).acquire(ask())
    const lease = await client(await bench.store(bucket)).acquire('k', { waitMs: 30_000 })
    expect(lease.held).toBe(true)
    await lease.release()
  })

  it('two with one name are two claims: the second is refused (C47)', async () => {
    const bucket = name()
    const [one, two] = [await bench.store(bucket), await bench.store(bucket)]
    expect(await one.acquire(ask(systemRandom.claim(), 'worker'))).toMatchObject({ is: 'granted' })
    expect(await two.acquire(ask(systemRandom.claim(), 'worker'))).toMatchObject({ is: 'held', holder: 'worker' })

    const plain = await bench.bucket(name())
    const named = () => naiveLock(plain, 'worker', 60_000, () => Date.now())
    expect([await named().acquire(), await named().acquire()]).toEqual([true, true])
  })

  it('of many who find it free at one moment one gets it; a look that decides lets several in (C38)', async () => {
    const bucket = name()
    const stores = await Promise.all(Array.from({ length: 8 }, () => bench.store(bucket)))
    const answers = await Promise.all(stores.map((store) => store.acquire(ask())))
    expect(answers.filter(({ is }) => is === 'granted')).toHaveLength(1)

    const plain = await bench.bucket(name())
    const taken = await Promise.all(
      Array.from({ length: 8 }, (_, i) => naiveLock(plain, `n${i}`, 60_000, () => Date.now()).acquire()),
    )
    expect(taken.filter((got) => got).length).toBeGreaterThan(1)
  })

  it('a mark of deletion that was left behind blocks nobody (C38)', async () => {
    const bucket = await bench.bucket(name())
    await bucket.put('k', 'old')
    await bucket.delete('k')
    await bucket.put('p', 'old')
    await bucket.purge('p')
    const store = await bench.store(`b${buckets}`)
    expect(await store.acquire(ask())).toMatchObject({ is: 'granted' })
    expect(await store.acquire({ ...ask(), key: 'p' })).toMatchObject({ is: 'granted' })
  })
})
