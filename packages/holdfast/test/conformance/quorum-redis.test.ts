// Quorums of real Redis masters under the whole suite, on their real clocks. What needs a queue is left out: a quorum does not
// order its waiters.
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import type { LeaseStore } from '../../src/store/contract.js'
import { quorumStore } from '../../src/stores/quorum/index.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { conformance, runConformance } from '../../src/testing/index.js'
import { connectAll, Masters } from '../quorum/masters.js'
import { type Connected, clientKind, clientKinds } from '../redis/clients.js'
import { pass } from '../redis/servers.js'

vi.setConfig({ maxConcurrency: 40 })

const quorums = [[3, clientKind('node-redis 6')] as const, ...clientKinds.map((kind) => [5, kind] as const)]

/**
 * The first use of a script is sent twice, and may be overtaken there by what was asked for later: then a node lags behind the others, and
 * a case that asks for "held" would be told that its claim has ended. What nodes that lag behind make of it is tested elsewhere.
 */
async function warmed(store: LeaseStore): Promise<void> {
  const grant = { key: 'k', claim: 'a', holder: 'a', token: 1 }
  await store.acquire({ ...grant, ttlMs: 1_000 })
  await store.renew([{ ...grant, ttlMs: 1_000 }])
  await store.release(grant)
  await store.withdraw('k', 'b')
}

for (const [count, kind] of quorums) {
  describe(`${count} masters, ${kind.name}`, () => {
    let masters: Masters
    let connected: Connected[] = []
    let cases = 0
    beforeAll(async () => {
      masters = await Masters.start(count)
      connected = await connectAll(kind, masters.ports)
      await Promise.all(connected.map(({ client }) => warmed(redisStore(client, { prefix: 'warm:' }))))
    })
    afterAll(async () => {
      await Promise.all(connected.map(({ close }) => close()))
      await masters?.stop()
    })
    runConformance({
      describe,
      it: it.concurrent,
      name: `quorum of ${count} Redis masters`,
      create() {
        const prefix = `case ${cases++}:` // cases run side by side, and pruning is for all keys of a store
        const open = () => connected.map(({ client }) => redisStore(client, { prefix }))
        const nodes = open()
        const prune = () => Promise.all(nodes.map((node) => node.prune({ olderThanMs: 0 })))
        // No case is about a node that is slow, and forty at a time on a busy machine make any node slow.
        const quorum = (of: typeof nodes) => quorumStore(of, { nodeTimeoutMs: 20_000 })
        return { store: quorum(nodes), open: () => quorum(open()), passMs: pass, ttlMs: 1_500, prune }
      },
      cases: conformance.filter(({ needs = [] }) => !needs.includes('fair')),
      complete: true,
    })
  })
}
