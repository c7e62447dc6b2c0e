// The whole conformance suite on a Redis server, on its real clock. Cases have keys of their own, so they wait side by side.
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import { redisStore } from '../../src/stores/redis/index.js'
import { runConformance } from '../../src/testing/index.js'
import type { Connected } from './clients.js'
import { pass } from './servers.js'

export function redisConformance<Servers extends { stop(): Promise<void> }>(
  name: string,
  start: () => Promise<Servers>,
  connect: (servers: Servers) => Promise<Connected>,
): void {
  vi.setConfig({ maxConcurrency: 40 })
  describe(name, () => {
    let servers: Servers
    let connected: Connected
    let cases = 0
    beforeAll(async () => {
      servers = await start()
      connected = await connect(servers)
    })
    afterAll(async () => {
      await connected?.close()
      await servers?.stop()
    })
    runConformance({
      describe,
      it: it.concurrent,
      name,
      create() {
        const prefix = `case ${cases++}:` // pruning is for all keys of a store: also those of the cases beside this one
        const store = redisStore(connected.client, { prefix })
        return {
          store,
          open: () => redisStore(connected.client, { prefix }),
          passMs: pass,
          ttlMs: 1_500,
          prune: () => store.prune({ olderThanMs: 0 }),
        }
      },
      complete: true,
    })
  })
}
