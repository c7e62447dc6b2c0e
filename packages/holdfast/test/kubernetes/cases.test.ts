// Cases of other people's electors, by their numbers: each is passed by Holdfast and failed by an elector as people write it.
import { expect, it } from 'vitest'
import { createLeases, type LeaseEvent, type Leases } from '../../src/index.js'
import { kubernetesStore } from '../../src/stores/kubernetes/index.js'
import { waitUntil } from '../redis/servers.js'
import { KubernetesServer, Refusal } from '../servers/kubernetes.js'
import { ALL_VERBS } from '../servers/kubernetes-rights.js'
import { type Mounted, mount } from './harness.js'
import { NaiveElector } from './naive.js'

/** A server of its own for each story, so that faults of one are none of another's; and what runs on it. */
class Stage {
  readonly server: KubernetesServer
  readonly #mounted: Mounted[] = []
  readonly #clients: Leases[] = []

  constructor(server: KubernetesServer) {
    this.server = server
  }

  /** A pod with an account of its own, and clients in it. */
  readonly pod = () => {
    const token = `pod-${++count}`
    this.server.accounts.set(token, { user: token, verbs: ALL_VERBS })
    const mounted = mount(this.server, {}, token)
    this.#mounted.push(mounted)
    const events: LeaseEvent[] = []
    const client = (options: Partial<Parameters<typeof createLeases>[0]> = {}) => {
      const store = kubernetesStore(mounted.api, { namespace: 'default' })
      const made = createLeases({ store, ttlMs: 3_000, onEvent: (event) => events.push(event), ...options })
      this.#clients.push(made)
      return made
    }
    return { api: mounted.api, token, client, events }
  }

  readonly leaseAt = (key: string) => this.server.objects.get('default', key)

  readonly spec = (key: string) =>
    this.leaseAt(key)?.spec as { leaseDurationSeconds: number; holderIdentity: string } | undefined

  async end(): Promise<void> {
    this.server.heal()
    await Promise.all(this.#clients.map((client) => client.close({ drainMs: 0 }).catch(() => {})))
    for (const mounted of this.#mounted) mounted.remove()
    await this.server.stop()
  }
}

const on = (story: (stage: Stage) => Promise<void>) => async () => {
  const stage = new Stage(await KubernetesServer.start())
  try {
    await story(stage)
  } finally {
    await stage.end()
  }
}

let count = 0
const fresh = () => `case-${++count}`
const refusal = (code: number, reason = '', headers = {}) => new Refusal(code, reason, `it said ${code}`, {}, headers)

it.concurrent(
  'C03: a ttl in ms is rounded up to whole seconds, or refused below one; cut off, others get in while it is believed in',
  on(async ({ pod, spec }) => {
    const { client, api } = pod()
    for (const ttlMs of [1_001, 1_500]) {
      const key = fresh()
      const lease = await client().acquire(key, { ttlMs })
      expect(spec(key)?.leaseDurationSeconds).toBe(2)
      expect(lease.remainingMs).toBeLessThanOrEqual(ttlMs)
      await lease.release()
    }
    for (const ttlMs of [200, 500, 999])
      await expect(client().acquire(fresh(), { ttlMs })).rejects.toThrow(
        /^ttlMs must be at least 1000 on the kubernetes/,
      )
    const key = fresh()
    await new NaiveElector(api, key, 'naive', { ttlMs: 1_500 }).turn()
    expect(spec(key)?.leaseDurationSeconds).toBe(1) // and half a second of two holders
  }),
)

it.concurrent(
  'C20: renewals that take longer than their interval never overlap: no conflict, no loss',
  on(async ({ server, pod }) => {
    const key = fresh()
    const { client, events, api } = pod()
    const lease = await client({ ttlMs: 10_000, renewEveryMs: 100, callTimeoutMs: 5_000 }).acquire(key)
    server.fault({ verb: 'update', is: 'slow', ms: 350, times: 8 })
    await Promise.all([lease.renew(), lease.renew()])
    await waitUntil('renewals', () => events.filter(({ type }) => type === 'renewed').length >= 5)
    expect(events.filter(({ type }) => type === 'lost' || type === 'renewal-failed')).toEqual([])
    expect(lease.held).toBe(true)
    await lease.release()
    server.heal()

    const naive = new NaiveElector(api, fresh(), 'naive', { onError: 'step down' })
    await naive.turn()
    server.fault({ verb: 'update', is: 'slow', ms: 350, times: 2 })
    await Promise.all([naive.turn(), naive.turn()]) // an interval that does not wait
    expect(naive.losses).toBe(1) // against itself
  }),
)

it.concurrent(
  'C33: a server in trouble is told as such, never as "held", and is asked ever more slowly',
  on(async ({ server, pod }) => {
    const key = fresh()
    const { client, api } = pod()
    const holder = await client().acquire(key)
    await holder.release()
    server.fault({ verb: 'get', is: 'refuse', refusal: refusal(503), times: 10_000 })
    server.fault({ verb: 'update', is: 'refuse', refusal: refusal(503), times: 10_000 })
    const from = server.requests.length
    const waits = Array.from({ length: 5 }, () =>
      pod()
        .client()
        .acquire(key, { waitMs: 3_000 })
        .catch((error) => error),
    )
    for (const error of await Promise.all(waits)) expect(error).toMatchObject({ code: 'STORE_ERROR' })
    expect((server.requests.length - from) / waits.length).toBeLessThan(40)

    const before = server.requests.length
    const naive = new NaiveElector(api, key, 'naive')
    for (let turn = 0; turn < 20; turn++) await naive.turn()
    expect(server.requests.length - before).toBeGreaterThanOrEqual(20) // as often as it is called, whatever it was told
  }),
)

it.concurrent(
  'C38: no read decides: what an old cache says makes nobody a holder',
  on(async ({ server, pod, leaseAt, spec }) => {
    const key = fresh()
    const [first, second] = [pod(), pod()]
    const lease = await first.client().acquire(key)
    const cached = leaseAt(key)
    server.objects.letCacheLag()
    await lease.release()
    const next = await second.client().acquire(key)
    await expect(first.client().acquire(key, { waitMs: 0 })).rejects.toMatchObject({ code: 'LEASE_HELD' })
    expect(next.held).toBe(true)
    // Naive: believes in what it reads from the cache.
    expect(cached?.spec?.holderIdentity).not.toBe(spec(key)?.holderIdentity)
    const path = `/apis/coordination.k8s.io/v1/namespaces/default/leases/${key}?resourceVersion=0`
    const stale = (await first.api.ask('GET', path)) as typeof cached
    expect(stale?.spec?.holderIdentity).toBe(cached?.spec?.holderIdentity)
  }),
)

it.concurrent(
  'C45: a leader whose calls all fail stops before another starts, and follows when it is healed',
  on(async ({ server, pod }) => {
    const key = fresh()
    const [first, second] = [pod(), pod()]
    const lease = await first.client().acquire(key)
    const order: string[] = []
    lease.signal.addEventListener('abort', () => order.push('first stopped'))
    server.accounts.delete(first.token)
    const waiting = second.client().acquire(key, { waitMs: 20_000 })
    await waiting.then(() => order.push('second leads'))
    expect(order).toEqual(['first stopped', 'second leads'])
    expect(lease.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'deadline' })
    server.accounts.set(first.token, { user: first.token, verbs: ALL_VERBS })
    await expect(first.client().acquire(key, { waitMs: 0 })).rejects.toMatchObject({ code: 'LEASE_HELD' })
    expect([lease.held, (await waiting).held]).toEqual([false, true])

    const other = fresh()
    const naive = new NaiveElector(first.api, other, 'naive', { ttlMs: 1_000 })
    await naive.turn()
    server.accounts.delete(first.token)
    const taken = await second.client().acquire(other, { waitMs: 20_000 })
    await naive.turn()
    expect([naive.leads, taken.held]).toEqual([true, true]) // for ever
  }),
)

it.concurrent(
  'C49: an outage that is shorter than the deadline is survived, whatever the server says meanwhile',
  on(async ({ server, pod }) => {
    const key = fresh()
    const { client, events, api } = pod()
    const lease = await client({ ttlMs: 8_000, renewEveryMs: 500 }).acquire(key)
    const naive = new NaiveElector(api, fresh(), 'naive', { onError: 'step down' })
    await naive.turn()

    server.fault({ verb: 'update', is: 'refuse', refusal: refusal(503), times: 4 })
    server.fault({
      verb: 'update',
      is: 'refuse',
      refusal: refusal(429, 'TooManyRequests', { 'Retry-After': '1' }),
      times: 1,
    })
    server.fault({ verb: 'update', is: 'applied', times: 1 })
    await waitUntil('all of it has been said', () => events.some(({ type }) => type === 'renewal-failed'))
    await naive.turn()
    expect(naive.leads).toBe(false)
    const failed = events.length
    await waitUntil('it is renewed', () => events.slice(failed).some(({ type }) => type === 'renewed'))
    await server.restart() // connections are refused, and there again
    const restarted = events.length
    await waitUntil('it is renewed', () => events.slice(restarted).some(({ type }) => type === 'renewed'))
    expect([lease.held, events.filter(({ type }) => type === 'lost')]).toEqual([true, []])
    await lease.release()
  }),
)

it.concurrent(
  'C49: an update that was applied and answered with a time-out is read back: the same holder, the same token',
  on(async ({ server, pod }) => {
    const key = fresh()
    const { client, api } = pod()
    const lease = await client({ ttlMs: 20_000 }).acquire(key)
    server.fault({ verb: 'update', is: 'applied' })
    await lease.renew()
    server.fault({ verb: 'update', is: 'late' })
    await lease.renew()
    expect(() => server.late.shift()?.()).toThrow(/has been modified/)
    expect(lease.held).toBe(true)
    await lease.release()

    const naive = new NaiveElector(api, fresh(), 'naive', { onError: 'step down' })
    await naive.turn()
    server.fault({ verb: 'update', is: 'applied' })
    expect(await naive.turn()).toBe(false) // although the Lease names it
  }),
)

it.concurrent(
  'C49: a rule that leaves no time for a second try is refused at the start',
  on(async ({ pod }) => {
    const { client } = pod()
    await expect(client().acquire(fresh(), { ttlMs: 15_000, renewEveryMs: 15_000 })).rejects.toThrow(
      /renewEveryMs \(15000\) \+ callTimeoutMs \(1875\) must be below ttlMs - marginMs/,
    )
  }),
)

const LASTING: readonly [code: number, reason: string, says: RegExp][] = [
  [401, 'Unauthorized', /does not know the credentials/],
  [403, 'Forbidden', /right to (get|create|update) leases is missing[\s\S]*kind: Role/],
  [422, 'Invalid', /finds the Lease invalid/],
]
it.concurrent.each(LASTING)(
  'C50: %i ends a wait at once, with what is missing; the naive one stands by in silence',
  (code, reason, says) =>
    on(async ({ server, pod }) => {
      const key = fresh()
      const { client, api } = pod()
      const lease = await client().acquire(key)
      await lease.release()
      for (const verb of ['get', 'update'] as const) {
        server.fault({ verb, is: 'refuse', refusal: refusal(code, reason), times: 1_000 })
        await expect(pod().client().acquire(key, { waitMs: Number.POSITIVE_INFINITY })).rejects.toMatchObject({
          code: 'STORE_ERROR',
          lasting: true,
          message: expect.stringMatching(says),
        })
        server.heal()
      }
      server.fault({ verb: 'create', is: 'refuse', refusal: refusal(code, reason), times: 1_000 })
      await expect(pod().client().acquire(fresh(), { waitMs: Number.POSITIVE_INFINITY })).rejects.toThrow(says)

      const naive = new NaiveElector(api, fresh(), 'naive')
      for (let turn = 0; turn < 5; turn++) expect(await naive.turn()).toBe(false)
      expect(naive.errors).toBe(5) // that nobody has heard of
    })(),
)

it.concurrent(
  'C50: a namespace that is missing is told at once; AlreadyExists, 409 and 410 are none of these',
  on(async ({ server, pod }) => {
    const { api, client } = pod()
    const nowhere = createLeases({ store: kubernetesStore(api, { namespace: 'nowhere' }) })
    await expect(nowhere.acquire('a', { waitMs: Number.POSITIVE_INFINITY })).rejects.toThrow(/namespace does not exist/)
    await nowhere.close()
    for (const [verb, code, reason] of [
      ['create', 409, 'AlreadyExists'],
      ['update', 409, 'Conflict'],
      ['get', 410, 'Expired'],
    ] as const) {
      server.fault({ verb, is: 'refuse', refusal: refusal(code, reason), times: 2 })
      const lease = await client().acquire(fresh(), { waitMs: 20_000 })
      await lease.release()
    }
  }),
)

it.concurrent(
  'C50: in the middle of leading it is a failed renewal, told at once, and over when the right is back',
  on(async ({ server, pod }) => {
    const key = fresh()
    const { client, events, token } = pod()
    const lease = await client({ ttlMs: 8_000, renewEveryMs: 500 }).acquire(key)
    server.accounts.set(token, { user: token, verbs: ['get'] })
    const failed = await waitUntil('it is told', () => events.find(({ type }) => type === 'renewal-failed'))
    expect(failed).toMatchObject({
      cause: { message: expect.stringContaining('the right to update leases is missing') },
    })
    server.accounts.set(token, { user: token, verbs: ALL_VERBS })
    const from = events.length
    await waitUntil('it is renewed', () => events.slice(from).some(({ type }) => type === 'renewed'))
    expect(lease.held).toBe(true)
    await lease.release()
  }),
)

it.concurrent(
  'a contender with another time of day takes nothing from one that renews; the naive one does',
  on(async ({ pod }) => {
    const key = fresh()
    const { client, api } = pod()
    const lease = await client().acquire(key)
    // The holder's clock is an hour behind: what it writes looks long over.
    const old = await api.readNamespacedLease({ name: key, namespace: 'default' })
    await api.replaceNamespacedLease({
      name: key,
      namespace: 'default',
      body: { ...old, spec: { ...old.spec, renewTime: '2001-01-01T00:00:00.000000Z' } },
    })
    await expect(pod().client().acquire(key, { waitMs: 0 })).rejects.toThrow(
      /one that lives shorter than a ttl cannot take over from a dead holder on this store$/,
    )
    expect(lease.held).toBe(true)
    expect(await new NaiveElector(api, key, 'naive').turn()).toBe(true) // two holders
  }),
)

it.concurrent(
  'at rest each renewal is one PUT, and nothing else is asked; waiters share one watch and make no list',
  on(async ({ server, pod }) => {
    const keys = Array.from({ length: 10 }, fresh)
    const { client, events } = pod()
    const holder = client({ ttlMs: 4_000, renewEveryMs: 300 })
    const leases = await Promise.all(keys.map((key) => holder.acquire(key)))
    const from = server.requests.length
    const renewed = () => events.filter(({ type }) => type === 'renewed').length
    const before = renewed()
    await waitUntil('renewals', () => renewed() >= before + 40)
    const [requests, renewals] = [server.requests.slice(from), renewed() - before]
    expect(requests.filter((one) => !one.startsWith('update '))).toEqual([])
    // A few may be on their way, or have been at the start.
    expect(Math.abs(requests.length - renewals)).toBeLessThanOrEqual(2 * keys.length)

    const watching = server.requests.length
    const others = pod().client({ retry: () => 600_000 })
    const waits = keys.map((key) => others.acquire(key, { waitMs: 600_000 }))
    await waitUntil('the watch', () => server.watches === 1)
    await Promise.all(leases.map((lease) => lease.release()))
    await Promise.all((await Promise.all(waits)).map((lease) => lease.release()))
    const asked = server.requests.slice(watching)
    expect(asked.filter((one) => one === 'watch')).toHaveLength(1)
    expect(asked.filter((one) => one === 'list')).toEqual([])
    // Of each waiter: the first look, one when the watch is in place, one when it is told.
    expect(asked.filter((one) => one.startsWith('get ')).length).toBeLessThanOrEqual(4 * keys.length)
  }),
)
