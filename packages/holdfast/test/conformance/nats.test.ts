// The NATS store under the whole suite: on one server, and on a bucket in a cluster of three.
import { Kvm } from '@nats-io/kv'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import type { NatsKv } from '../../src/stores/nats/client.js'
import { natsStore } from '../../src/stores/nats/index.js'
import { conformance, runConformance } from '../../src/testing/index.js'
import { NatsServer } from '../nats/servers.js'
import { pass } from '../redis/servers.js'

vi.setConfig({ maxConcurrency: 40 })

const topologies = [
  { name: 'one server', start: async () => [await NatsServer.start()] },
  { name: 'three servers', start: () => NatsServer.cluster() },
]

for (const { name, start } of topologies) {
  describe(`nats, ${name}`, () => {
    let servers: NatsServer[] = []
    let connection: NatsConnection
    let kvm: Kvm
    const buckets: NatsKv[] = []
    beforeAll(async () => {
      servers = await start()
      connection = await connect({ servers: servers.map(({ url }) => url) })
      kvm = new Kvm(connection)
      // Cases run side by side, and pruning is for all of a bucket: so each has one of its own.
      for (const { id } of conformance) buckets.push(await kvm.create(id, { replicas: 1 }))
    })
    afterAll(async () => {
      await connection?.close()
      await Promise.all(servers.map((server) => server.stop()))
    })
    runConformance({
      describe,
      it: it.concurrent,
      name: `nats, ${name}`,
      create() {
        const bucket = buckets.pop() as NatsKv
        const store = natsStore(bucket)
        return {
          store,
          open: () => natsStore(bucket),
          passMs: pass,
          ttlMs: 1_500,
          prune: () => store.prune(),
        }
      },
    })
  })
}
