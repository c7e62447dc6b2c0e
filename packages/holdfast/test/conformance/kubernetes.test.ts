// The Kubernetes store under the whole suite, by @kubernetes/client-node, on the stand-in of an API server.
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import { kubernetesStore } from '../../src/stores/kubernetes/index.js'
import { runConformance } from '../../src/testing/index.js'
import { clientOf } from '../kubernetes/harness.js'
import { pass } from '../redis/servers.js'
import { KubernetesServer } from '../servers/kubernetes.js'

// The first grant of a key takes a second, and nearly every case waits for terms: many wait at once.
vi.setConfig({ maxConcurrency: 60, testTimeout: 120_000 })

describe('kubernetes', () => {
  let server: KubernetesServer
  let client: ReturnType<typeof clientOf>
  let cases = 0
  beforeAll(async () => {
    server = await KubernetesServer.start()
    client = clientOf(server)
  })
  afterAll(() => server?.stop())
  runConformance({
    describe,
    it: it.concurrent,
    name: 'kubernetes by client-node',
    create() {
      // One each: watches and lists of all of them would be most of the work.
      const namespace = `case-${++cases}`
      server.objects.addNamespace(namespace)
      const open = () => kubernetesStore(client.api, { namespace, watch: client.watch })
      return { store: open(), open, passMs: pass, ttlMs: 4_000 }
    },
  })
})
