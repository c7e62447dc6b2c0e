// A server that forgets its scripts, refuses writes, or loses its data; and keys in the slots of a Cluster (C14, C32 to C34).
import { type ClusterCase, check, comes, outcome, type ServerCase } from './case.js'
import { cli, pass } from './servers.js'

export const clusterCases: ClusterCase[] = [
  {
    id: 'C14',
    title: 'a lease that is waited for in order works with any name: all that belongs to it is in one slot',
    naive: /CROSSSLOT/,
    async run(client) {
      const odd = ['{', '}{a', '{}a', '{a}b{c}', 'user:42', 'a b']
      for (const key of [...odd, ...Array.from({ length: 30 }, (_, i) => `name ${i}`)]) {
        const lease = await client.acquire(key, { wait: 'in line' })
        await lease.renew()
        await lease.release()
      }
    },
  },
]

export const serverCases: ServerCase[] = [
  {
    id: 'C32',
    title: 'SCRIPT FLUSH in mid hold: renewal and release go on as if nothing had been',
    naive: /the release failed/,
    async run(stage) {
      const lease = await (await stage.client()).acquire('k', { ttlMs: 60_000 })
      await cli(stage.server.port, 'script', 'flush')
      const { error: trouble } = await outcome(lease.renew())
      check(trouble === undefined && !lease.signal.aborted, `the renewal failed: ${trouble}`)
      await cli(stage.server.port, 'script', 'flush')
      const { error } = await outcome(lease.release())
      check(error === undefined, `the release failed: ${error}`)
      check(!(await stage.look('k')).held, 'the key is still held')
    },
  },
  {
    id: 'C33',
    title: 'a primary that has become a replica: that is told as trouble of the store, not as held by another',
    naive: /was told as "".*" is locked by another"|was told as .*locked by another/,
    async run(stage) {
      const client = await stage.client()
      await cli(stage.server.port, 'replicaof', '127.0.0.1', '1')
      const { error } = await outcome(client.acquire('k', { waitMs: 500 }))
      check(error !== undefined, 'granted by a replica')
      const { code } = error as { code?: string }
      check(code === 'STORE_ERROR' && /READONLY/.test(error.message), `READONLY was told as "${error.message}"`)
    },
  },
  {
    id: 'C33',
    title: 'thirty waiters at a server that refuses writes back off, and the holder keeps its lease',
    naive: /commands in \d+ ms by 30 waiters/,
    async run(stage) {
      const { port } = stage.server
      const client = await stage.client()
      const lease = await (await stage.client()).acquire('held', { ttlMs: 20_000, renewEveryMs: 8_000 })
      await cli(port, 'replicaof', '127.0.0.1', '1')
      await cli(port, 'config', 'resetstat')
      const startedMs = performance.now()
      const waiters = Array.from({ length: 30 }, (_, i) => outcome(client.acquire(`k${i}`, { waitMs: 20_000 }), 30_000))
      await pass(3_000)
      let asked = 0
      for (const [line] of (await cli(port, 'info', 'commandstats')).matchAll(/cmdstat_(?:set|evalsha|eval):.*/g)) {
        if (line.startsWith('cmdstat_set:')) asked += Number(/rejected_calls=(\d+)/.exec(line)?.[1])
        else asked += Number(/calls=(\d+)/.exec(line)?.[1])
      }
      const ms = Math.round(performance.now() - startedMs)
      // 50, 100, 200, ... 2,000 ms, each shortened by up to a half: at most eight or so in three seconds.
      check(asked < 30 * 20, `${asked} commands in ${ms} ms by 30 waiters`)
      check(lease.held, 'the lease was lost, though the record was there all the time')
      await cli(port, 'replicaof', 'no', 'one')
      await lease.renew()
      for (const { error } of await Promise.all(waiters)) check(error === undefined, `a waiter never got in: ${error}`)
    },
  },
  {
    id: 'C34',
    title: 'FLUSHALL in mid hold: the next gets in with a bigger token, and the holder is told at its next renewal',
    naive: /the token of the next is no bigger/,
    async run(stage) {
      const lease = await (await stage.client()).acquire('k', { ttlMs: 30_000, renewEveryMs: 1_000 })
      await cli(stage.server.port, 'flushall')
      const next = await (await stage.client()).acquire('k', { ttlMs: 30_000 })
      check(next.token > lease.token, `the token of the next is no bigger: ${next.token} after ${lease.token}`)
      await comes('the holder was never told', () => lease.signal.aborted && !lease.held)
      await next.renew()
      await next.release()
      for (let i = 0; i < 3; i++) await (await (await stage.client()).acquire('k')).release()
    },
  },
]
