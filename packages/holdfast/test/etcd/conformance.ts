// The whole conformance suite on etcd, on its real clock. Cases have keys of their own, so they wait side by side.
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import { type EtcdStore, type EtcdStoreOptions, etcdStore } from '../../src/stores/etcd/index.js'
import { conformance, runConformance } from '../../src/testing/index.js'
import { pass } from './servers.js'

export function etcdConformance<Servers extends { stop(): Promise<void> }>(
  name: string,
  start: () => Promise<Servers>,
  endpointsOf: (servers: Servers) => string[],
  open: (options: EtcdStoreOptions) => EtcdStore = etcdStore,
): void {
  vi.setConfig({ maxConcurrency: 60, testTimeout: 120_000, hookTimeout: 90_000 })
  describe(name, () => {
    let servers: Servers
    let cases = 0
    beforeAll(async () => {
      servers = await start()
    })
    afterAll(async () => {
      await servers?.stop()
    })
    runConformance({
      describe,
      it: it.concurrent,
      name,
      create() {
        const own = { endpoints: endpointsOf(servers), prefix: `case ${cases++}/` } // pruning is for all keys of a store
        const store = open(own)
        return {
          store,
          open: () => open(own),
          passMs: (ms: number) => pass(ms + 500), // etcd looks for what has run out every 500 ms
          ttlMs: 4_000, // a busy machine must not overrun it between two commands
          prune: () => store.prune({ olderThanMs: 0 }),
        }
      },
      cases: conformance.filter(({ needs = [] }) => !needs.includes('tokenFloor')), // revisions are etcd's: no floor
      complete: true,
    })
  })
}
