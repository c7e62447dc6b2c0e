// Taking a lease, and waiting for it, on a network that loses replies and a server that forgets messages (C08, C10 to C13).
import { check, comes, outcome, type ServerCase } from './case.js'
import { cli, pass } from './servers.js'

const unclear = (error: unknown) => (error as { code?: string } | undefined)?.code === 'STORE_ERROR'

export const acquireCases: ServerCase[] = [
  {
    id: 'C08',
    title: 'the reply to an acquire is lost: that is told as unknown, not as held by another',
    naive: /an unclear answer was told as/,
    async run(stage) {
      const proxy = await stage.proxy()
      const near = await stage.client({ port: proxy.port, callTimeoutMs: 1_000 })
      await (await near.acquire('warm')).release()
      proxy.swallowReplies()
      const { error } = await outcome(near.acquire('k', { ttlMs: 20_000, waitMs: 0 }))
      proxy.heal()
      check(error !== undefined, 'granted without an answer')
      check(unclear(error), `an unclear answer was told as "${error.message}"`)
    },
  },
  {
    id: 'C08',
    title: 'the reply to an acquire that was given up is lost: the next gets in long before the ttl is over',
    naive: /the key is held by nobody until its ttl is over/,
    async run(stage) {
      const proxy = await stage.proxy()
      const near = await stage.client({ port: proxy.port, callTimeoutMs: 1_000 })
      await (await near.acquire('warm')).release()
      proxy.swallowReplies()
      await outcome(near.acquire('k', { ttlMs: 60_000, waitMs: 0 }))
      check((await stage.look('k')).held, 'the acquire never arrived')
      proxy.heal()
      const next = await outcome((await stage.client()).acquire('k', { waitMs: 8_000 }), 20_000)
      check(next.error === undefined, `the key is held by nobody until its ttl is over: ${next.error}`)
    },
  },
  {
    id: 'C08',
    title: 'the reply to an acquire is lost, and it is made again: it finds its own lease',
    naive: /took its own lease for that of another/,
    async run(stage) {
      const proxy = await stage.proxy()
      const near = await stage.client({ port: proxy.port, callTimeoutMs: 1_000 })
      await (await near.acquire('warm')).release()
      proxy.swallowReplies()
      const asked = outcome(near.acquire('k', { ttlMs: 60_000, waitMs: 8_000 }), 20_000)
      await comes('the acquire never arrived', async () => (await stage.look('k')).held)
      await pass(1_200) // the time-out is over
      proxy.heal()
      const { error } = await asked
      check(error === undefined, `took its own lease for that of another: ${error}`)
    },
  },
  {
    id: 'C08',
    title: 'an acquire that was given up while the driver kept it in its queue takes nothing when it is sent at last',
    naive: /what nobody wanted was taken/,
    async run(stage) {
      const proxy = await stage.proxy()
      const near = await stage.client({ port: proxy.port, callTimeoutMs: 1_000 })
      await (await near.acquire('warm')).release()
      proxy.refuse()
      proxy.cut()
      const { error } = await outcome(near.acquire('k', { ttlMs: 60_000, waitMs: 300 }))
      check(error !== undefined, 'granted by a server that cannot be reached')
      proxy.heal()
      await comes('the connection never came back', async () => {
        const { error: trouble } = await outcome(near.acquire('other', { waitMs: 0 }))
        return trouble === undefined
      })
      await comes('what nobody wanted was taken', async () => !(await stage.look('k')).held, 5_000)
    },
  },
  {
    id: 'C10',
    title: 'a slow reply: the holder believes no longer than the server keeps the lease for it',
    naive: /believes for \d+ ms more than the server/,
    async run(stage) {
      const proxy = await stage.proxy()
      const near = await stage.client({ port: proxy.port, callTimeoutMs: 6_000 })
      await (await near.acquire('warm', { renew: false })).release()
      proxy.slow(1_500, 'toClient')
      const lease = await near.acquire('k', { ttlMs: 20_000, renew: false })
      const { remainingMs } = await stage.look('k')
      const more = Math.round(lease.remainingMs - remainingMs)
      check(more <= 0, `believes for ${more} ms more than the server`)
    },
  },
  {
    id: 'C10',
    title: 'a reply that comes after the ttl is over is no lease',
    naive: /a lease that is over was handed out/,
    async run(stage) {
      const proxy = await stage.proxy()
      const near = await stage.client({ port: proxy.port, callTimeoutMs: 9_000 })
      await (await near.acquire('warm', { renew: false })).release()
      proxy.slow(1_400, 'toClient')
      const { error } = await outcome(near.acquire('k', { ttlMs: 1_000, waitMs: 0, renew: false }), 20_000)
      check(error !== undefined, 'a lease that is over was handed out')
      check(unclear(error), `what came too late was told as "${error.message}"`)
    },
  },
  {
    id: 'C11',
    title: 'waiters that gave up, were aborted or died do not keep a free key closed',
    naive: /nobody holds the key, and nobody gets in/,
    async run(stage) {
      const wait = 'in line'
      const lease = await (await stage.client()).acquire('k', { ttlMs: 60_000, wait })
      const others = await stage.client()
      const proxy = await stage.proxy()
      const dying = await stage.client({ port: proxy.port })
      const controller = new AbortController()
      const waiters = [1, 2, 3].map(() => outcome(others.acquire('k', { waitMs: 300, wait })))
      const aborted = outcome(others.acquire('k', { waitMs: 1_000, wait, signal: controller.signal }))
      const before = proxy.counts.bytesToServer
      const dead = outcome(dying.acquire('k', { waitMs: 500, wait }), 30_000)
      await comes('the dead one never asked', () => proxy.counts.bytesToServer > before + 100)
      await Promise.all(waiters)
      controller.abort()
      await aborted
      proxy.hang() // its machine is gone
      const living = outcome((await stage.client()).acquire('k', { waitMs: 9_000, wait }), 30_000)
      await lease.release()
      const { error } = await living
      check(error === undefined, `nobody holds the key, and nobody gets in: ${error}`)
      await dead
    },
  },
  {
    id: 'C12',
    title: 'a release between the failed attempt and the subscription is not missed',
    naive: /slept on after the release/,
    async run(stage) {
      const messages = await stage.proxy()
      messages.slow(500)
      const lease = await (await stage.client()).acquire('k', { ttlMs: 60_000 })
      const client = await stage.client({ listenPort: messages.port })
      const waiting = client.acquire('k', { waitMs: 30_000, wait: 'for a message' })
      await comes('nobody listens', () => messages.counts.accepted > 0)
      await lease.release()
      await outcome(waiting, 8_000, 'slept on after the release')
    },
  },
  {
    id: 'C12',
    title: 'the record was deleted under the waiters, so that the release has nothing to announce: they get in',
    naive: /slept on beside a free key/,
    async run(stage) {
      const messages = await stage.proxy()
      const lease = await (await stage.client()).acquire('k', { ttlMs: 60_000 })
      const client = await stage.client({ listenPort: messages.port })
      const waiting = client.acquire('k', { waitMs: 30_000, wait: 'for a message' })
      await comes('nobody listens', () => messages.counts.bytesToClient > 0)
      await cli(stage.server.port, 'del', stage.keyOf('k'))
      await outcome(lease.release())
      await outcome(waiting, 8_000, 'slept on beside a free key')
    },
  },
  {
    id: 'C12',
    title: 'the connection for messages was cut during the release: the waiter gets in',
    naive: /the message was lost, and the waiter sleeps/,
    async run(stage) {
      const messages = await stage.proxy()
      const lease = await (await stage.client()).acquire('k', { ttlMs: 60_000 })
      const client = await stage.client({ listenPort: messages.port })
      const waiting = client.acquire('k', { waitMs: 30_000, wait: 'for a message' })
      await comes('nobody listens', () => messages.counts.bytesToClient > 0)
      messages.refuse()
      messages.cut()
      await lease.release()
      messages.heal()
      await outcome(waiting, 8_000, 'the message was lost, and the waiter sleeps')
    },
  },
  {
    id: 'C13',
    title: 'two leases, one in the other, aborted while the second is waited for: both are free, and stay free',
    naive: /the first of two stays taken/,
    async run(stage) {
      const other = await (await stage.client()).acquire('b', { ttlMs: 60_000 })
      const client = await stage.client()
      const controller = new AbortController()
      const { signal } = controller
      const both = outcome(
        client.hold('a', { ttlMs: 60_000, signal }, () =>
          client.hold('b', { ttlMs: 60_000, waitMs: 30_000, signal }, () => {}),
        ),
        40_000,
      )
      await comes('the first was never taken', async () => (await stage.look('a')).held)
      controller.abort(new Error('enough'))
      await comes('the first of two stays taken', async () => !(await stage.look('a')).held, 5_000)
      check((await both).error?.message === 'enough', 'the reason of the abort was lost')
      await other.release()
      check(!(await stage.look('b')).held, 'the second was taken by a caller that has left')
    },
  },
]
