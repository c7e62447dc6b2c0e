// The whole conformance suite on a Postgres server, on its real clock. Cases have keys of their own, so they wait side by side;
// pruning is for all keys of a store, so each case has a table of its own.
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { runConformance } from '../../src/testing/index.js'
import type { Connected } from './clients.js'
import { pass } from './servers.js'

export function postgresConformance<Servers>(
  name: string,
  servers: { start(): Promise<Servers>; stop(servers: Servers): Promise<void> },
  connect: (servers: Servers) => Connected,
  ttlMs = 1_500,
): void {
  vi.setConfig({ maxConcurrency: 40 })
  describe(name, () => {
    let running: Servers
    let connected: Connected
    let cases = 0
    beforeAll(async () => {
      running = await servers.start()
      connected = connect(running)
    })
    afterAll(async () => {
      await connected?.close()
      if (running !== undefined) await servers.stop(running)
    })
    runConformance({
      describe,
      it: it.concurrent,
      name,
      create() {
        const own = { ...connected.options, table: `case_${cases++}` }
        const store = postgresStore(connected.client, own)
        return {
          store,
          open: () => postgresStore(connected.client, own),
          passMs: pass,
          ttlMs,
          prune: () => store.prune({ olderThanMs: 0 }),
        }
      },
      complete: true,
    })
  })
}
