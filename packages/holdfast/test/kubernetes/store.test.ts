// What is particular to leases in Kubernetes: sharing with client-go, answers of the API server, names, requests.
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import { createLeases } from '../../src/index.js'
import { systemRandom } from '../../src/lease/random.js'
import type { LeaseStore } from '../../src/store/contract.js'
import {
  type KubernetesLeases,
  type KubernetesWatch,
  kubernetesRole,
  kubernetesStore,
} from '../../src/stores/kubernetes/index.js'
import { fromMicroTime, toMicroTime } from '../../src/stores/kubernetes/micro-time.js'
import { fromLeaseName, toLeaseName } from '../../src/stores/kubernetes/names.js'
import { VirtualClock } from '../../src/testing/index.js'
import type { CoordinationV1Api, Watch } from '../clients/node_modules/@kubernetes/client-node/dist/index.js'
import { waitUntil } from '../redis/servers.js'
import { KubernetesServer, Refusal } from '../servers/kubernetes.js'
import { Elector } from './elector.js'
import { clientOf } from './harness.js'

let server: KubernetesServer
let client: ReturnType<typeof clientOf>
beforeAll(async () => {
  server = await KubernetesServer.start()
  client = clientOf(server)
})
afterAll(() => server?.stop())

let keys = 0
const name = () => `k${++keys}`
const open = (): LeaseStore => kubernetesStore(client.api, { namespace: 'default', watch: client.watch })
const ask = (key: string, ttlMs = 60_000) => {
  const claim = systemRandom.claim()
  return { key, claim, holder: 'pod', ttlMs }
}
const leaseAt = (key: string) => server.objects.get('default', toLeaseName(key))

/** C50: what somebody has to change by hand ends a wait. */
async function toldAtOnce(store: LeaseStore, key: string, message: RegExp) {
  const leases = createLeases({ store, closeStore: false })
  await expect(leases.acquire(key, { waitMs: Number.POSITIVE_INFINITY })).rejects.toMatchObject({
    code: 'STORE_ERROR',
    outcome: 'none',
    lasting: true,
    message: expect.stringMatching(message),
  })
  await leases.close()
}

describe('types', () => {
  it('the classes of client-node fit', () => {
    expectTypeOf<CoordinationV1Api>().toExtend<KubernetesLeases>()
    expectTypeOf<Watch>().toExtend<KubernetesWatch>()
    expectTypeOf<Watch>().not.toExtend<KubernetesLeases>()
  })

  it('what is no API and no namespace is refused', () => {
    expect(() => kubernetesStore({} as never, { namespace: 'a' })).toThrow(/^api must be a CoordinationV1Api/)
    expect(() => kubernetesStore(client.api, { namespace: 'A_b' })).toThrow(/^namespace must name/)
    for (const namespace of [undefined, '', 'A_b', 'a\nb'])
      expect(() => kubernetesRole({ namespace } as never)).toThrow(/^namespace must name/)
    expect(() => kubernetesRole({ namespace: 'a', name: 'b\nc' })).toThrow(/^name must name a Role/)
  })
})

describe('the object', () => {
  it('says who holds it, counts every grant, and is not touched by what others write (C47)', async () => {
    const [key, store] = [name(), open()]
    const first = ask(key)
    const granted = await store.acquire(first)
    const { spec, metadata } = leaseAt(key) ?? { metadata: {} }
    expect(spec).toMatchObject({
      holderIdentity: `pod_${first.claim}`,
      leaseDurationSeconds: 60,
      leaseTransitions: 1,
    })
    expect(granted).toMatchObject({ token: (Date.parse(metadata.creationTimestamp ?? '') / 1_000) * 2 ** 21 + 1 })
    const other = open()
    await other.withdraw(key, systemRandom.claim())
    await other.revoke(key)
    expect(leaseAt(key)?.spec).toEqual(spec)
    await store.release({ ...first, token: 0 })
    await store.acquire(ask(key))
    expect(leaseAt(key)?.spec).toMatchObject({ leaseTransitions: 2 })
  })

  it('each renewal changes renewTime and nothing else of spec, and is one PUT (at rest no GET, no list)', async () => {
    const [key, store] = [name(), open()]
    const mine = ask(key)
    await store.acquire(mine)
    const before = leaseAt(key)?.spec
    const from = server.requests.length
    for (let i = 0; i < 5; i++) await store.renew([mine])
    expect(server.requests.slice(from).filter((one) => one.endsWith(` ${key}`))).toEqual(Array(5).fill(`update ${key}`))
    const { renewTime, ...rest } = leaseAt(key)?.spec ?? {}
    expect({ ...rest, renewTime: before?.renewTime }).toEqual(before)
    expect(String(renewTime) > String(before?.renewTime)).toBe(true)
  })

  it('that is deleted is not made again by a renewal, and its tokens go on rising', async () => {
    const [key, store] = [name(), open()]
    const mine = ask(key)
    const first = await store.acquire(mine)
    server.objects.delete('default', key)
    expect(await store.renew([mine])).toMatchObject([{ is: 'lost' }])
    expect(leaseAt(key)).toBeUndefined()
    const second = await store.acquire(ask(key))
    expect((second as { token: number }).token).toBeGreaterThan((first as { token: number }).token)
    // Naive: a PUT without the uid makes it anew, held by the one that had lost it.
    const lease = await client.api.readNamespacedLease({ name: key, namespace: 'default' })
    server.objects.delete('default', key)
    const { uid: _, ...metadata } = lease.metadata ?? {}
    await client.api.replaceNamespacedLease({ name: key, namespace: 'default', body: { ...lease, metadata } as never })
    expect(leaseAt(key)).toBeDefined()
  })

  it('that has been granted 2^21 times says so', async () => {
    const [key, store] = [name(), open()]
    const mine = ask(key)
    await store.acquire(mine)
    await store.release({ ...mine, token: 0 })
    const lease = await client.api.readNamespacedLease({ name: key, namespace: 'default' })
    await client.api.replaceNamespacedLease({
      name: key,
      namespace: 'default',
      body: { ...lease, spec: { ...lease.spec, leaseTransitions: 2 ** 21 - 1 } },
    })
    await expect(store.acquire(ask(key))).rejects.toThrow(/changed hands 2097152 times/)
    await toldAtOnce(store, key, /delete it while nobody holds it/)
  })

  it.each(['no JSON', 'null', '"text"', '{"ended":5}', '{"ended":[null]}'])(
    'whose annotation somebody has changed to %s is told as such',
    async (record) => {
      const [key, store] = [name(), open()]
      server.objects.create('default', { metadata: { name: key, annotations: { 'holdfast/record': record } } })
      await toldAtOnce(store, key, /remove it by hand/)
    },
  )

  it('of a new name is granted at the first try, for its whole term', async () => {
    const ttlMs = 10_000 // shorter ones, whose calls have less time: first-grant.test.ts
    const leases = createLeases({ store: open(), ttlMs })
    const lease = await leases.tryAcquire(name())
    // Counted from when the first request was sent, a second of it would be gone.
    expect(lease?.remainingMs).toBeGreaterThan(0.9 * ttlMs - 900)
    await lease?.release()
    await leases.close()
  })

  it('of a new name that two want at once goes to one of them', async () => {
    const key = name()
    const clients = [1, 2, 3].map(() => createLeases({ store: open(), ttlMs: 10_000, waitMs: 0 }))
    const leases = await Promise.all(clients.map((client) => client.tryAcquire(key)))
    expect(leases.filter((lease) => lease !== null)).toHaveLength(1)
    await Promise.all(leases.map((lease) => lease?.release()))
    await Promise.all(clients.map((client) => client.close()))
  })

  it('a ttl is rounded up to whole seconds, never down (C03)', async () => {
    const [key, store] = [name(), open()]
    expect(await store.acquire(ask(key, 1_001))).toMatchObject({ is: 'granted', ttlMs: 2_000 })
    expect(leaseAt(key)?.spec?.leaseDurationSeconds).toBe(2)
  })
})

describe('names (C06)', () => {
  const long = 'Ä'.repeat(200)
  it.each(['my-controller', 'a.b', 'A', 'a b', 'user:42', '-', 'holdfast-k-x', 'é', '🙂', 'x'.repeat(253)])(
    '%s comes back',
    (key) => {
      expect(toLeaseName(key)).toMatch(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/)
      expect(toLeaseName(key).length).toBeLessThanOrEqual(253)
      expect(fromLeaseName(toLeaseName(key))).toBe(key)
    },
  )

  it('a long one goes by its digest, comes back from the annotation, and another there is an error', async () => {
    const store = open()
    await store.acquire(ask(long))
    expect((await store.inspect(long))?.key).toBe(long)
    const found: string[] = []
    for await (const record of store.list({ prefix: 'Ä' })) found.push(record.key)
    expect(found).toEqual([long])
    const lease = await client.api.readNamespacedLease({ name: toLeaseName(long), namespace: 'default' })
    const metadata = { ...lease.metadata, annotations: { ...lease.metadata?.annotations, 'holdfast/key': 'other' } }
    await client.api.replaceNamespacedLease({
      name: toLeaseName(long),
      namespace: 'default',
      body: { ...lease, metadata },
    })
    await expect(store.inspect(long)).rejects.toThrow(/belongs to another key/)
    await toldAtOnce(store, long, /rename the key/)
  })

  it('times have six digits', () => {
    for (const us of [0, 951_782_400_000_000, 1_709_164_800_000_001, 1_735_689_599_999_999, 4_107_542_400_123_456]) {
      expect(fromMicroTime(toMicroTime(us))).toBe(us)
      expect(toMicroTime(us).slice(0, 19)).toBe(new Date(us / 1e3).toISOString().slice(0, 19))
    }
  })
})

describe('a Lease shared with client-go', () => {
  it('is not taken from an elector that renews, and is when it stops; the elector is kept out likewise', async () => {
    const [key, store] = [name(), open()]
    const elector = new Elector(client.api, key, 'host_1234', 2)
    expect(await elector.turn()).toBe(true)
    const mine = ask(key, 2_000)
    const untilMs = performance.now() + 5_000
    await waitUntil('two terms and more', async () => {
      expect(await store.acquire(mine)).toMatchObject({ is: 'held', holder: 'host' })
      expect(await elector.turn()).toBe(true)
      return performance.now() > untilMs
    })
    const granted = await waitUntil('the elector is dead', async () => {
      const answer = await store.acquire(mine)
      return answer.is === 'granted' ? answer : undefined
    })
    const untilRenewedMs = performance.now() + 5_000
    await waitUntil('two terms and more', async () => {
      expect(await store.renew([mine])).toMatchObject([{ is: 'renewed' }])
      expect(await elector.turn()).toBe(false)
      return performance.now() > untilRenewedMs
    })
    await store.revoke(key) // the mark stays behind in the annotation, and says nothing of the next
    await waitUntil('the elector leads', () => elector.turn())
    expect(await store.renew([mine])).toMatchObject([{ is: 'lost' }])
    expect(await store.inspect(key)).toMatchObject({ state: 'held', revoked: false, holder: 'host' })
    await elector.release()
    const next = await store.acquire(ask(key))
    expect((next as { token: number }).token).toBeGreaterThan(granted.token)
  })

  it('that client-go has made itself is shown, and freed by force, as any other', async () => {
    const [key, store] = [name(), open()]
    const elector = new Elector(client.api, key, 'host_1234', 60)
    expect(await elector.turn()).toBe(true)
    const held = { key, state: 'held', holder: 'host', changes: 1 }
    expect(await store.inspect(key)).toMatchObject(held)
    expect(await store.revoke(key, { force: true })).toMatchObject(held)
    expect(await store.revoke(key, { force: true })).toBeNull()
    expect(leaseAt(key)?.spec?.holderIdentity).toBe('')
    expect(await store.acquire(ask(key))).toMatchObject({ is: 'granted' })
    expect(await elector.turn()).toBe(false)
    expect(await store.inspect(key)).toMatchObject({ state: 'held', holder: 'pod', changes: 1 })
  })
})

describe('answers of the API server', () => {
  it('a write that timed out is read back: applied, it is granted; and a late one harms nobody (C49)', async () => {
    const [key, store] = [name(), open()]
    const mine = ask(key)
    server.fault({ verb: 'create', is: 'applied' })
    expect(await store.acquire(mine)).toMatchObject({ is: 'granted' })
    server.fault({ verb: 'update', is: 'applied' })
    expect(await store.renew([mine])).toMatchObject([{ is: 'renewed' }])
    server.fault({ verb: 'update', is: 'late' })
    expect(await store.renew([mine])).toMatchObject([{ is: 'renewed' }])
    expect(() => server.late.shift()?.()).toThrow(/has been modified/)
    server.fault({ verb: 'update', is: 'lost' })
    expect(await store.renew([mine])).toMatchObject([{ is: 'renewed' }])
    expect(leaseAt(key)?.spec).toMatchObject({ leaseTransitions: 1 })
  })

  it('that never come are given up in time, with outcome unknown (C46)', async () => {
    const [key, store] = [name(), open()]
    const mine = ask(key)
    await store.acquire(mine)
    server.fault({ verb: 'update', is: 'hang' })
    await expect(store.renew([mine], { timeoutMs: 300 })).rejects.toMatchObject({ outcome: 'unknown' })
  })

  it('429 is asked again after the time that the server names (C33, C49)', async () => {
    const [key, store] = [name(), open()]
    const mine = ask(key)
    await store.acquire(mine)
    const refusal = new Refusal(429, 'TooManyRequests', 'too many requests', {}, { 'Retry-After': '1' })
    server.fault({ verb: 'update', is: 'refuse', refusal })
    expect(await store.renew([mine])).toMatchObject([{ is: 'renewed' }])
    server.fault({ verb: 'update', is: 'refuse', refusal })
    await expect(store.renew([mine], { timeoutMs: 500 })).rejects.toThrow(/asks for patience/)
  })

  it('a missing right is named, with the Role that is needed (C50)', async () => {
    server.accounts.set('reader', { user: 'reader', verbs: ['get'] })
    const store = kubernetesStore(clientOf(server, 'reader').api, { namespace: 'default' })
    const error = await store.acquire(ask(name())).catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'STORE_ERROR', outcome: 'none' })
    expect(error.message).toContain('the right to create leases is missing')
    expect(error.message).toContain(kubernetesRole({ namespace: 'default' }))
    await expect(kubernetesStore(clientOf(server, 'bad').api, { namespace: 'default' }).inspect('a')).rejects.toThrow(
      /does not know the credentials/,
    )
    await expect(kubernetesStore(client.api, { namespace: 'nowhere' }).acquire(ask('a'))).rejects.toThrow(
      /the namespace does not exist/,
    )
  })

  it.each([
    'leases.coordination.k8s.io "a" is forbidden: exceeded quota: q, requested: count/leases.coordination.k8s.io=1',
    'admission webhook "w" denied the request: no leases here',
  ])('what a quota or an admission rule forbids is no missing right: %s (C50)', async (message) => {
    server.fault({ verb: 'create', is: 'refuse', refusal: new Refusal(403, 'Forbidden', message) })
    const error = await open()
      .acquire(ask(name()))
      .catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'STORE_ERROR', outcome: 'none', lasting: true })
    expect(error.message).toContain(message)
    expect(error.message).toMatch(/quota or an admission rule/)
    expect(error.message).not.toMatch(/kind: Role/)
  })

  it.each([
    [500, 'unknown'],
    [503, 'unknown'],
    [422, 'none'],
    [413, 'none'],
  ])('%i of a write is a StoreError with outcome %s, never "held"', async (code, outcome) => {
    const [key, store] = [name(), open()]
    const mine = ask(key)
    await store.acquire(mine)
    server.fault({ verb: 'update', is: 'refuse', times: 50, refusal: new Refusal(code, '', 'no') })
    await expect(store.renew([mine])).rejects.toMatchObject({ code: 'STORE_ERROR', outcome })
    server.heal()
  })

  it('renewals that overlap are no loss (C20)', async () => {
    const [key, store] = [name(), open()]
    const mine = ask(key)
    await store.acquire(mine)
    const all = await Promise.all(Array.from({ length: 4 }, () => store.renew([mine])))
    for (const one of all) expect(one).toMatchObject([{ is: 'renewed' }])
  })
})

describe('the watch', () => {
  /** A watch of one key by a store whose clock is moved by hand. */
  async function watched() {
    const [clock, key] = [new VirtualClock(), name()]
    const store = kubernetesStore(client.api, { namespace: 'default', watch: client.watch, clock })
    const stop = new AbortController()
    const watching = { clock, key, store, hints: 0, stop: async () => {} }
    const looking = (async () => {
      for await (const _ of store.watch?.(key, { claim: 'claim', signal: stop.signal }) ?? []) watching.hints++
    })()
    watching.stop = async () => {
      stop.abort()
      await looking
      await waitUntil('no watch', () => server.watches === 0)
    }
    await waitUntil('the watch, and the look at its beginning', () => server.watches === 1 && watching.hints > 0)
    return watching
  }
  const begun = (from: number) => server.requests.slice(from).filter((one) => one === 'watch').length
  /** Moves the clock until another watch is asked for, and no further: what it then asks for is answered in real time. */
  const again = (clock: VirtualClock, from: number) =>
    waitUntil('another watch', async () => {
      if (begun(from) === 0) await clock.advance(500)
      return begun(from) === 1 && server.watches === 1
    })

  it('that says nothing any more is given up by a deadline of its own: an open one proves nothing', async () => {
    const watching = await watched()
    const from = server.requests.length
    server.silent = true
    server.objects.create('default', { metadata: { name: watching.key } })
    await watching.clock.advance(254_000)
    expect([begun(from), server.watches]).toEqual([0, 1]) // a naive one waits for ever
    server.silent = false
    await again(watching.clock, from)
    const before = watching.hints
    server.objects.delete('default', watching.key)
    await waitUntil('a hint', () => watching.hints > before)
    await watching.stop()
  })

  it('whose version is too old (410) begins anew at what is there', async () => {
    const watching = await watched()
    const from = server.requests.length
    server.expireWatches()
    await waitUntil('its end', () => server.watches === 0)
    await again(watching.clock, from)
    const before = watching.hints
    server.objects.create('default', { metadata: { name: watching.key } })
    await waitUntil('a hint', () => watching.hints > before)
    await watching.stop()
  })

  it('without the right to is told with the Role, and the waiter asks from time to time', async () => {
    server.accounts.set('blind', { user: 'blind', verbs: ['get', 'create', 'update'] })
    const { api, watch } = clientOf(server, 'blind')
    const told: string[] = []
    const leases = createLeases({
      store: kubernetesStore(api, { namespace: 'default', watch }),
      onEvent: (event) => {
        if (event.type === 'watch-failed') told.push(String((event.cause as Error).message))
      },
    })
    const [store, holder] = [open(), ask(name())]
    await store.acquire(holder)
    const waiting = leases.acquire(holder.key, { waitMs: 30_000 })
    await waitUntil('it is told', () => told.length > 0)
    expect(told[0]).toContain('the right to watch leases is missing')
    expect(told[0]).toContain('kind: Role')
    await store.release({ ...holder, token: 0 })
    await (await waiting).release()
    await leases.close()
  })

  it('that throws at once is told like one that fails, and crashes nothing', async () => {
    const watch: KubernetesWatch = {
      watch() {
        throw new Error('no such cluster')
      },
    }
    const store = kubernetesStore(client.api, { namespace: 'default', watch })
    for (let i = 0; i < 2; i++) {
      const looking = (async () => {
        const { signal } = new AbortController()
        for await (const _ of store.watch?.(name(), { claim: 'claim', signal }) ?? []);
      })()
      await expect(looking).rejects.toMatchObject({ code: 'STORE_ERROR', message: expect.stringMatching(/no such/) })
    }
    await store.close()
  })

  it('is one for all who wait, begins anew when it ends, and wakes them', async () => {
    const store = open()
    const [a, b] = [ask(name()), ask(name())]
    await store.acquire(a)
    await store.acquire(b)
    const waiting = createLeases({ store: open(), ttlMs: 20_000 })
    const from = server.requests.length
    const got = [a.key, b.key].map((key) => waiting.acquire(key, { waitMs: 30_000 }))
    await waitUntil('the watch', () => server.watches === 1)
    server.endWatches()
    await waitUntil('another watch', () => server.requests.slice(from).filter((one) => one === 'watch').length === 2)
    await store.release({ ...a, token: 0 })
    await store.release({ ...b, token: 0 })
    const leases = await Promise.all(got)
    expect(leases.every(({ held }) => held)).toBe(true)
    expect(server.requests.slice(from).filter((one) => one === 'list')).toEqual([])
    for (const lease of leases) await lease.release()
    await waiting.close()
    await waitUntil('no watch', () => server.watches === 0)
  })
})
