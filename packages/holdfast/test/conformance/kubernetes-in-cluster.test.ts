// The Kubernetes store under the whole suite, by the mount of a pod, on the stand-in of an API server.
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import { kubernetesStore } from '../../src/stores/kubernetes/index.js'
import { runConformance } from '../../src/testing/index.js'
import { type Mounted, mount } from '../kubernetes/harness.js'
import { pass } from '../redis/servers.js'
import { KubernetesServer } from '../servers/kubernetes.js'

// The first grant of a key takes a second, and nearly every case waits for terms: many wait at once.
vi.setConfig({ maxConcurrency: 60, testTimeout: 120_000 })

describe('kubernetes, in a pod', () => {
  let server: KubernetesServer
  let pod: Mounted
  let cases = 0
  beforeAll(async () => {
    server = await KubernetesServer.start()
    pod = mount(server)
  })
  afterAll(async () => {
    pod?.remove()
    await server?.stop()
  })
  runConformance({
    describe,
    it: it.concurrent,
    name: 'kubernetes by the mount of a pod',
    create() {
      // One each: watches and lists of all of them would be most of the work.
      const namespace = `case-${++cases}`
      server.objects.addNamespace(namespace)
      const open = () => kubernetesStore(pod.api, { namespace })
      return { store: open(), open, passMs: pass, ttlMs: 4_000 }
    },
  })
})
