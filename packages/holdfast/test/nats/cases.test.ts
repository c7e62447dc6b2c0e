// Cases of the field by their number (C08, C20, C33, C49, C50), each beside a lock of the kind that people write, which fails it.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLeases, type LeaseEvent, type Leases } from '../../src/index.js'
import { natsStore } from '../../src/stores/nats/index.js'
import { waitUntil } from '../redis/servers.js'
import { counted, NatsBench } from './harness.js'
import { naiveElector } from './naive.js'
import { NatsServer } from './servers.js'

const TTL_MS = 60_000
const CALL_MS = 1_000
const NAIVE_MS = 2_000

let bench: NatsBench
let buckets = 0
const clients: Leases[] = []
beforeAll(async () => {
  bench = await NatsBench.start()
})
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close({ drainMs: 0 }).catch(() => {})))
  await bench?.stop()
})

const fresh = () => `case${++buckets}`

function client(store: Parameters<typeof createLeases>[0]['store'], options: object = {}) {
  const events: LeaseEvent[] = []
  const onEvent = (event: LeaseEvent) => void events.push(event)
  const leases = createLeases({ store, ttlMs: TTL_MS, callTimeoutMs: CALL_MS, onEvent, ...options })
  clients.push(leases)
  const count = (type: LeaseEvent['type']) => events.filter((event) => event.type === type).length
  return { leases, count }
}

describe('between a server and its clients', () => {
  it('C08: an acquire whose answer is lost blocks nobody: the next is in long before the ttl', async () => {
    const [mine, plain] = [fresh(), fresh()]
    const proxy = await bench.proxy()
    const near = client(await bench.store(mine, proxy.port)).leases
    const far = await bench.store(mine)
    const naive = naiveElector(await bench.bucket(plain, {}, proxy.port), 'a', NAIVE_MS)
    await (await near.acquire('k')).release() // and so it knows what stands there
    proxy.swallowReplies()
    const lost = near.acquire('k', { waitMs: 0 }).catch((error) => error)
    const turn = naive.turn()
    const there = await bench.bucket(plain)
    await waitUntil('the grant', async () => (await far.inspect('k'))?.state === 'held')
    await waitUntil('the key', () => there.get('k'))
    expect(await lost).toMatchObject({ code: 'STORE_ERROR', outcome: 'unknown' })
    expect(await turn).toBe(false)
    proxy.heal()
    proxy.cut()
    const next = await client(far).leases.acquire('k', { waitMs: 0.6 * TTL_MS })
    expect(next.held).toBe(true)
    await next.release()

    // It has the key, and takes it for somebody else's; nobody gets in, nor would after any time.
    expect(await naive.turn()).toBe(false)
    expect(await naiveElector(there, 'b', TTL_MS).turn()).toBe(false)
    expect((await there.get('k'))?.string()).toBe('a')
  })

  it('C20: renewals that take longer than their interval never overlap: no conflict, no loss', async () => {
    const proxy = await bench.proxy()
    const { kv, asked } = counted(await bench.bucket(fresh(), {}, proxy.port))
    const { leases, count } = client(natsStore(kv), { renewEveryMs: 100, callTimeoutMs: 5_000 })
    const lease = await leases.acquire('k')
    const naive = naiveElector(await bench.bucket(fresh()), 'naive', TTL_MS)
    await naive.turn()
    proxy.slow(350, 'toClient')
    await Promise.all([lease.renew(), lease.renew()])
    await waitUntil('renewals', () => count('renewed') >= 5)
    proxy.heal()
    expect([count('lost'), count('renewal-failed'), asked.writesAtOnce]).toEqual([0, 0, 1])
    expect(lease.held).toBe(true)
    await lease.release()

    await Promise.all([naive.turn(), naive.turn()]) // an interval that does not wait
    expect(naive.losses).toBe(1) // against itself
  })

  it('C49: an outage shorter than the lease, and a renewal whose answer is lost, end nothing', async () => {
    const proxy = await bench.proxy()
    const { leases, count } = client(await bench.store(fresh(), proxy.port), { renewEveryMs: 500 })
    const lease = await leases.acquire('k')
    const plain = fresh()
    const naive = naiveElector(await bench.bucket(plain, {}, proxy.port), 'naive', NAIVE_MS)
    const there = await bench.bucket(plain)
    await waitUntil('the naive lead', () => naive.turn())
    for (const fault of [() => proxy.hang(), () => proxy.refuse(), () => proxy.swallowReplies()]) {
      const before = count('renewal-failed')
      fault()
      proxy.cut()
      await waitUntil('a renewal that failed', () => count('renewal-failed') > before)
      if (naive.leads) await naive.turn()
      proxy.cut()
      proxy.heal()
      const renewed = count('renewed')
      await waitUntil('a renewal', () => count('renewed') > renewed)
    }
    expect([lease.held, count('lost')]).toEqual([true, 0])
    await lease.release()
    expect([naive.leads, naive.losses]).toEqual([false, 1])
    expect(await naive.turn()).toBe(false) // although the key names it
    expect((await there.get('k'))?.string()).toBe('naive')
  })
})

it('C33: a server that has lost its JetStream for a while is told as such, never as "held", and is not hammered', async () => {
  const own = await NatsServer.start()
  const file = join(own.folder, 'nats.conf')
  const whole = readFileSync(file, 'utf8')
  const options = { reconnectTimeWait: 100, maxReconnectAttempts: -1 }
  const connection = await connect({ servers: own.url, ...options })
  const again = async (config: string) => {
    await own.kill()
    writeFileSync(file, config)
    await own.begin()
    await waitUntil('the connection', () =>
      connection.flush().then(
        () => true,
        () => false,
      ),
    )
  }
  try {
    const bucket = await new Kvm(connection).create('leases', { replicas: 1 })
    const { kv, asked } = counted(bucket)
    const holder = client(natsStore(bucket), { renewEveryMs: 500 })
    const lease = await holder.leases.acquire('held')
    const store = natsStore(kv)
    await store.inspect('k')
    const naive = naiveElector(bucket, 'naive', TTL_MS)
    await again(whole.replace(/^jetstream.*$/m, ''))
    const before = asked.reads + asked.writes
    const waits = Array.from({ length: 5 }, (_, i) =>
      client(store, { callTimeoutMs: 5_000 })
        .leases.acquire(`k${i}`, { waitMs: 3_000 })
        .catch((error) => error),
    )
    for (const error of await Promise.all(waits)) expect(error).toMatchObject({ code: 'STORE_ERROR' })
    expect((asked.reads + asked.writes - before) / waits.length).toBeLessThan(40)
    await expect(store.acquire({ key: 'not seen', claim: 'c', holder: 'h', ttlMs: TTL_MS })).rejects.toMatchObject({
      outcome: 'none',
      message: expect.stringMatching(/nobody answers for JetStream/),
    })
    const answers: boolean[] = []
    for (let turn = 0; turn < 50; turn++) answers.push(await naive.turn()) // as often as it is called, whatever it was told
    expect(answers).toEqual(answers.map(() => false)) // the same as when another has it

    await again(whole)
    const renewed = holder.count('renewed')
    await waitUntil('a renewal', () => holder.count('renewed') > renewed)
    expect([lease.held, holder.count('lost')]).toEqual([true, 0])
    await lease.release()
  } finally {
    await Promise.all(clients.splice(0).map((one) => one.close({ drainMs: 0 }).catch(() => {})))
    await connection.close()
    await own.stop()
  }
})

it('C50: a right that is missing ends a wait at once, with what is missing; the naive one stands by in silence', async () => {
  const own = await NatsServer.start(`authorization { users: [
    { user: all, password: p },
    { user: reader, password: p, permissions: { publish: { deny: ["$KV.>"] } } }
  ] }`)
  const open = (user: string) => connect({ servers: own.url, user, pass: 'p' })
  const [all, reader] = [await open('all'), await open('reader')]
  try {
    await new Kvm(all).create('leases', { replicas: 1 })
    const bucket = await new Kvm(reader).open('leases')
    const { leases } = client(natsStore(bucket), { callTimeoutMs: 5_000 })
    await expect(leases.acquire('k', { waitMs: Number.POSITIVE_INFINITY })).rejects.toMatchObject({
      code: 'STORE_ERROR',
      outcome: 'none',
      lasting: true,
      message: expect.stringMatching(/needs to publish/),
    })
    const naive = naiveElector(bucket, 'naive', TTL_MS)
    for (let turn = 0; turn < 5; turn++) expect(await naive.turn()).toBe(false) // for ever, and nobody knows why
    await reader.close()
    await expect(leases.acquire('k', { waitMs: Number.POSITIVE_INFINITY })).rejects.toMatchObject({ lasting: true })
    await leases.close({ drainMs: 0 }).catch(() => {})
  } finally {
    await all.close()
    await reader.close()
    await own.stop()
  }
})
