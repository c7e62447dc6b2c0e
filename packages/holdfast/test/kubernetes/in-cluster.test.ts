// The API by the mount of a pod: what it reads, when it reads it again, and what it says when something is missing.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createLeases } from '../../src/index.js'
import { inClusterLeases } from '../../src/stores/kubernetes/in-cluster.js'
import { kubernetesStore } from '../../src/stores/kubernetes/index.js'
import { VirtualClock } from '../../src/testing/index.js'
import { waitUntil } from '../redis/servers.js'
import { KubernetesServer, Refusal } from '../servers/kubernetes.js'
import { type Mounted, mount } from './harness.js'

let server: KubernetesServer
let pod: Mounted
beforeAll(async () => {
  server = await KubernetesServer.start()
  pod = mount(server)
})
afterAll(async () => {
  pod?.remove()
  await server?.stop()
})
afterEach(() => {
  vi.unstubAllEnvs()
  server.heal()
})

let names = 0
const fresh = () => `pod-${++names}`
const openOn = ({ api }: Mounted) => kubernetesStore(api, { namespace: api.namespace })
const acquire = (one: Mounted, key = fresh()) =>
  openOn(one).acquire({ key, claim: 'claim', holder: 'pod', ttlMs: 60_000 })

describe('where it is found', () => {
  it('host and port come from the environment of the pod, the namespace from the mount', async () => {
    vi.stubEnv('KUBERNETES_SERVICE_HOST', '127.0.0.1')
    vi.stubEnv('KUBERNETES_SERVICE_PORT', String(server.port))
    const api = inClusterLeases({ folder: pod.folder })
    expect(api.namespace).toBe('default')
    await expect(api.readNamespacedLease({ name: fresh(), namespace: 'default' })).rejects.toMatchObject({ code: 404 })
    api.close()
  })

  it.each(['::1', '[::1]'])('an IPv6 address (%s)', async (host) => {
    const six = await KubernetesServer.start('::1')
    const other = mount(six, { host })
    expect(await acquire(other)).toMatchObject({ is: 'granted' })
    other.remove()
    await six.stop()
  })

  it('outside of a cluster it says so', () => {
    vi.stubEnv('KUBERNETES_SERVICE_HOST', undefined)
    vi.stubEnv('KUBERNETES_SERVICE_PORT', undefined)
    expect(() => inClusterLeases({ folder: pod.folder })).toThrow(
      /^KUBERNETES_SERVICE_HOST must be set, as it is in every pod: outside of a cluster use @kubernetes\/client-node/,
    )
    vi.stubEnv('KUBERNETES_SERVICE_HOST', '127.0.0.1')
    expect(() => inClusterLeases({ folder: pod.folder })).toThrow(/^KUBERNETES_SERVICE_PORT must be a port/)
    vi.stubEnv('KUBERNETES_SERVICE_PORT', '443')
    expect(() => inClusterLeases({ folder: '/nowhere' })).toThrow(/^folder must hold the file "token".*automount/)
    // What was given is named as it was given.
    expect(() => inClusterLeases({ folder: pod.folder, host: '' })).toThrow(/^host must be set/)
    expect(() => inClusterLeases({ folder: pod.folder, host: 'h', port: 0 })).toThrow(/^port must be a port/)
  })

  it.each(['token', 'ca.crt', 'namespace'] as const)('a mount without %s is refused', (file) => {
    const bare = mount(server)
    rmSync(join(bare.folder, file))
    expect(() => inClusterLeases({ folder: bare.folder, host: '127.0.0.1', port: server.port })).toThrow(
      `must hold the file "${file}"`,
    )
    bare.remove()
  })
})

describe('the token', () => {
  it('is read again when a minute is over, and at once when the server does not know it any more', async () => {
    const clock = new VirtualClock()
    const rotating = mount(server, { clock }, 'first')
    server.accounts.set('first', { user: 'first', verbs: ['get', 'create', 'update'] })
    server.accounts.set('second', { user: 'second', verbs: ['get', 'create', 'update'] })
    const seen = () => server.users.at(-1)
    const look = () => rotating.api.readNamespacedLease({ name: 'x', namespace: 'default' }).catch((error) => error)
    await look()
    rotating.write('token', 'second')
    await look()
    expect(seen()).toBe('first') // within the minute the file is left alone
    await clock.advance(60_000)
    await look()
    expect(seen()).toBe('second')

    rotating.write('token', 'first')
    server.accounts.delete('second') // 401 from now on
    expect(await look()).toMatchObject({ code: 404 })
    expect(seen()).toBe('first')

    server.accounts.delete('first') // and nothing new in the mount
    expect(await look()).toMatchObject({ code: 401 })
    rotating.write('token', '') // a file that is just being written
    expect(await look()).toMatchObject({ code: 401 })
    rotating.remove()
  })

  it('a write that is refused for its token is made once, with the new one', async () => {
    const rotating = mount(server, {}, 'old')
    server.accounts.set('new', { user: 'new', verbs: ['get', 'create', 'update'] })
    rotating.write('token', 'new')
    const key = fresh()
    expect(await acquire(rotating, key)).toMatchObject({ is: 'granted' })
    expect(server.objects.get('default', key)?.spec).toMatchObject({ leaseTransitions: 1 })
    rotating.remove()
  })
})

describe('the server', () => {
  it('is believed only with a certificate of the mounted authority, which may be replaced', async () => {
    const clock = new VirtualClock()
    const stranger = await KubernetesServer.start()
    const other = mount(server, { clock })
    other.write('ca.crt', stranger.ca)
    await clock.advance(60_000)
    const error = await acquire(other).catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'STORE_ERROR', outcome: 'none' })
    expect(error.message).toMatch(/self-signed certificate/)
    other.write('ca.crt', `${stranger.ca}\n${server.ca}`)
    await clock.advance(60_000)
    expect(await acquire(other)).toMatchObject({ is: 'granted' })
    other.remove()
    await stranger.stop()
  })

  it('that is not there was not asked: outcome none', async () => {
    const gone = await KubernetesServer.start()
    const other = mount(gone)
    await gone.stop()
    await expect(acquire(other)).rejects.toMatchObject({ outcome: 'none', message: expect.stringMatching(/answered/) })
    const created = { ...openOn(other) }
    await expect(created.withdraw(fresh(), 'claim')).rejects.toMatchObject({ outcome: 'none' })
    other.remove()
  })

  it('its refusals arrive with status and Retry-After', async () => {
    const key = fresh()
    server.fault({
      verb: 'create',
      is: 'refuse',
      refusal: new Refusal(429, 'TooManyRequests', 'too many requests', {}, { 'Retry-After': '1' }),
    })
    expect(await acquire(pod, key)).toMatchObject({ is: 'granted' })
    server.accounts.set('none', { user: 'none', verbs: [] })
    const bare = mount(server, {}, 'none')
    await expect(acquire(bare)).rejects.toThrow(/right to get leases is missing[\s\S]*kind: Role/)
    bare.remove()
  })

  it('that never answers is given up with the call, and the connection with it', async () => {
    const key = fresh()
    await acquire(pod, key)
    server.fault({ verb: 'get', is: 'hang' })
    const before = server.connections
    await expect(openOn(pod).inspect(key, { timeoutMs: 300 })).rejects.toThrow(/no answer within 300 ms/)
    await waitUntil('it is closed', () => server.connections < before || server.connections === 0)
  })

  it('a connection that was closed while it was idle is no failure of a read, nor of a write that is read back', async () => {
    const key = fresh()
    const store = openOn(pod)
    const mine = { key, claim: 'claim', holder: 'pod', ttlMs: 60_000 }
    await store.acquire(mine)
    server.fault({ verb: 'get', is: 'lost' })
    expect(await store.inspect(key)).toMatchObject({ state: 'held' })
    server.fault({ verb: 'update', is: 'lost' })
    expect(await store.renew([mine])).toMatchObject([{ is: 'renewed' }])
    server.fault({ verb: 'get', is: 'lost', times: 2 }) // that is more than a connection
    await expect(store.inspect(key)).rejects.toMatchObject({ code: 'STORE_ERROR', outcome: 'none' })
  })

  it('lists page by page', async () => {
    const keys = Array.from({ length: 7 }, fresh)
    for (const name of keys)
      await pod.api.createNamespacedLease({ namespace: 'default', body: { metadata: { name }, spec: {} } })
    const found: string[] = []
    let next: string | undefined
    do {
      const page = await pod.api.listNamespacedLease({
        namespace: 'default',
        limit: 3,
        ...(next === undefined ? {} : { _continue: next }),
      })
      expect(page.items.length).toBeLessThanOrEqual(3)
      found.push(...page.items.map(({ metadata }) => metadata?.name ?? ''))
      next = page.metadata?._continue
    } while (next !== undefined)
    expect(found).toEqual(expect.arrayContaining(keys))
  })

  it('wakes a waiter by its watch', async () => {
    const store = openOn(pod)
    const key = fresh()
    const first = { key, claim: 'first', holder: 'pod', ttlMs: 60_000 }
    await store.acquire(first)
    const leases = createLeases({ store: openOn(pod) })
    const got = leases.acquire(key, { waitMs: 30_000, retry: () => 25_000 })
    await waitUntil('the watch', () => server.watches === 1)
    await store.release({ ...first, token: 0 })
    await (await got).release()
    await leases.close()
    await waitUntil('no watch', () => server.watches === 0)
  })
})

it('without its watch the right to get, create and update is enough', async () => {
  server.accounts.set('few', { user: 'few', verbs: ['get', 'create', 'update'] })
  const few = mount(server, {}, 'few')
  const from = server.requests.length
  const store = kubernetesStore(few.api, { namespace: 'default', watch: false })
  expect(store.capabilities.wakeUp).toBe('poll')
  const leases = createLeases({ store })
  const key = fresh()
  await leases.hold(key, async () => {
    const waiting = createLeases({
      store: kubernetesStore(few.api, { namespace: 'default', watch: false }),
      waitMs: 500,
    })
    await expect(waiting.acquire(key)).rejects.toMatchObject({ code: 'LEASE_HELD' })
    await waiting.close()
  })
  await leases.close()
  expect(server.requests.slice(from).filter((one) => /^(watch|list)/.test(one))).toEqual([])
  few.remove()
})

it('nothing of it keeps a process alive once its lease is given back (G9)', async () => {
  const program = `
    import { createLeases } from 'holdfast'
    import { kubernetesStore } from 'holdfast/kubernetes'
    import { inClusterLeases } from 'holdfast/kubernetes/in-cluster'
    const api = inClusterLeases({ folder: ${JSON.stringify(pod.folder)}, host: '127.0.0.1', port: ${server.port} })
    const leases = createLeases({ store: kubernetesStore(api, { namespace: api.namespace }) })
    await leases.hold(${JSON.stringify(fresh())}, async ({ token }) => console.log(token))`
  const child = execFile(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
  })
  let said = ''
  child.stdout?.on('data', (text) => {
    said += text
  })
  const [code] = await once(child, 'exit')
  expect([code, Number(said) > 0]).toEqual([0, true])
})
