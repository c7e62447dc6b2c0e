// Holding a lease and giving it back, while the network fails (C15, C18, C26, C29).
import { type CaseLease, check, comes, outcome, type ServerCase } from './case.js'
import { cli, pass } from './servers.js'

/** How the lease ended, if it was told as a loss. */
function lossOf({ signal }: CaseLease): string | undefined {
  if (!signal.aborted) return undefined
  const { reason, message } = signal.reason as { reason?: string; message?: string }
  return reason === 'released' ? undefined : `${reason ?? message}`
}

export const holdCases: ServerCase[] = [
  {
    id: 'C15',
    title: 'a renewal is on its way at the release: no loss is told, and no renewal follows',
    naive: /a lease that was given back was reported lost/,
    async run(stage) {
      const proxy = await stage.proxy()
      const client = await stage.client({ port: proxy.port })
      await (await client.acquire('warm')).release()
      proxy.slow(200, 'toClient')
      const leases: CaseLease[] = []
      for (let round = 0; round < 5; round++) {
        const lease = await client.acquire('k', { ttlMs: 10_000, renewEveryMs: 500 })
        leases.push(lease)
        let before = await stage.look('k')
        await comes('no renewal was sent', async () => {
          const now = await stage.look('k')
          const renewed = now.remainingMs > before.remainingMs
          before = now
          return renewed
        })
        await lease.release()
      }
      await cli(stage.server.port, 'config', 'resetstat')
      await pass(1_500) // three times as long as to the next renewal
      for (const lease of leases) {
        const loss = lossOf(lease)
        check(loss === undefined, `a lease that was given back was reported lost: ${loss}`)
      }
      const stats = await cli(stage.server.port, 'info', 'commandstats')
      check(!/cmdstat_(evalsha|pexpire)/.test(stats), 'a renewal followed the release')
      check(!(await stage.look('k')).held, 'the key is still held')
    },
  },
  {
    id: 'C15',
    title: 'an acquire that is aborted after the server has applied it, and before the reply, leaves nothing held',
    naive: /the key is held, and renewed, for nobody/,
    async run(stage) {
      const proxy = await stage.proxy()
      const client = await stage.client({ port: proxy.port, callTimeoutMs: 5_000 })
      await (await client.acquire('warm', { ttlMs: 60_000 })).release()
      proxy.hang('toClient')
      const controller = new AbortController()
      const asked = outcome(client.acquire('k', { ttlMs: 60_000, signal: controller.signal }), 30_000)
      await comes('the acquire never arrived', async () => (await stage.look('k')).held)
      controller.abort()
      await pass(50)
      proxy.heal()
      await asked
      await comes('the key is held, and renewed, for nobody', async () => !(await stage.look('k')).held, 5_000)
    },
  },
  {
    id: 'C15',
    title: 'the reply to the release is lost: it does not fail, and no renewal follows',
    naive: /the release failed/,
    async run(stage) {
      const proxy = await stage.proxy()
      const client = await stage.client({ port: proxy.port, callTimeoutMs: 1_000 })
      const lease = await client.acquire('k', { ttlMs: 10_000, renewEveryMs: 500 })
      proxy.swallowReplies()
      const { error } = await outcome(lease.release(), 5_000)
      proxy.heal()
      check(error === undefined, `the release failed: ${error}`)
      check(lossOf(lease) === undefined, `it was told as a loss: ${lossOf(lease)}`)
      await comes('the key is still held', async () => !(await stage.look('k')).held)
    },
  },
  ...(['hangs', 'resets', 'loses replies'] as const).map(
    (what): ServerCase => ({
      id: 'C18',
      title: `a network that ${what} for 2 s in a lease of 10 s: it is kept, without a signal`,
      naive: /the lease was lost by one blip/,
      async run(stage) {
        const proxy = await stage.proxy()
        const client = await stage.client({ port: proxy.port, callTimeoutMs: 500 })
        const lease = await client.acquire('k', { ttlMs: 10_000, renewEveryMs: 400 })
        if (what === 'hangs') proxy.hang()
        else if (what === 'loses replies') proxy.swallowReplies()
        else {
          proxy.refuse()
          proxy.cut()
        }
        await pass(2_000)
        proxy.heal()
        let before = (await stage.look('k')).remainingMs
        await comes('the lease was lost by one blip', async () => {
          const { remainingMs } = await stage.look('k')
          const renewed = remainingMs > before
          before = remainingMs
          return renewed
        })
        check(lease.held && !lease.signal.aborted, 'the lease was lost by one blip')
      },
    }),
  ),
  {
    id: 'C18',
    title: 'an outage longer than the ttl ends the lease at its deadline; the next one of that key is renewed as ever',
    naive: /before its ttl was over/,
    async run(stage) {
      const proxy = await stage.proxy()
      const client = await stage.client({ port: proxy.port, callTimeoutMs: 500 })
      const startedMs = performance.now()
      const lease = await client.acquire('k', { ttlMs: 6_000, renewEveryMs: 500 })
      proxy.hang()
      let aborts = 0
      lease.signal.addEventListener('abort', () => aborts++)
      await comes('it was never told', () => lease.signal.aborted)
      const afterMs = Math.round(performance.now() - startedMs)
      check(afterMs > 5_000, `lost by an outage that lasted ${afterMs} ms, before its ttl was over`)
      proxy.heal()
      const again = await client.acquire('k', { ttlMs: 4_000, renewEveryMs: 500 })
      await pass(4_500)
      check(aborts === 1 && !lease.held, `the loss was told ${aborts} times`)
      check(again.held && (await stage.look('k')).held, 'the next lease of that key was not renewed')
      check(again.token > lease.token, 'its token did not rise')
    },
  },
  {
    id: 'C26',
    title: 'a holder that overran its ttl neither prolongs nor frees the lease of the next',
    naive: /prolonged the lease of the next/,
    async run(stage) {
      const late = await (await stage.client()).acquire('k', { ttlMs: 500, renew: false })
      await comes('it never expired', async () => !(await stage.look('k')).held)
      const next = await (await stage.client()).acquire('k', { ttlMs: 30_000, renew: false })
      await pass(50)
      const before = await stage.look('k')
      const { error } = await outcome(late.renew())
      const after = await stage.look('k')
      check(after.remainingMs <= before.remainingMs && after.remainingMs > 20_000, 'prolonged the lease of the next')
      check((error as { code?: string } | undefined)?.code === 'LEASE_LOST', `was told nothing of its loss: ${error}`)
      await outcome(late.release())
      check((await stage.look('k')).held, 'freed the lease of the next')
      await next.renew()
    },
  },
  {
    id: 'C29',
    title: 'the record is gone before the work returns: its value is not lost, and the loss is told',
    naive: /the value of the work is gone/,
    async run(stage) {
      const client = await stage.client()
      const held = client.hold('k', { ttlMs: 30_000 }, async () => {
        await cli(stage.server.port, 'del', stage.keyOf('k'))
        return 42
      })
      const { error } = await outcome(held)
      const { outcome: carried, reason } = (error ?? {}) as { outcome?: { value?: unknown }; reason?: string }
      check(carried?.value === 42, `the value of the work is gone: ${error}`)
      check(reason !== undefined, 'it was not told how the lease was lost')
    },
  },
  {
    id: 'C29',
    title: "the work throws while the server is down: the work's very error comes through, and soon",
    naive: /another error took its place/,
    async run(stage) {
      const client = await stage.client({ callTimeoutMs: 1_000 })
      const mine = new Error('mine')
      const held = client.hold('k', { ttlMs: 30_000, waitMs: 30_000 }, async () => {
        await stage.server.kill()
        throw mine
      })
      const { error } = await outcome(held, 5_000)
      check(error === mine, `another error took its place: ${error}`)
    },
  },
  {
    id: 'C29',
    title: 'a second release is harmless',
    naive: /the second release threw/,
    async run(stage) {
      const lease = await (await stage.client()).acquire('k')
      await lease.release()
      const { error } = await outcome(lease.release())
      check(error === undefined, `the second release threw: ${error}`)
    },
  },
]
