// What the tests of the Kubernetes store share: the stand-in, and on it the real client and a pod with a service account.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type InClusterLeases, type InClusterOptions, inClusterLeases } from '../../src/stores/kubernetes/in-cluster.js'
import { CoordinationV1Api, KubeConfig, Watch } from '../clients/node_modules/@kubernetes/client-node/dist/index.js'
import type { KubernetesServer } from '../servers/kubernetes.js'

export function clientOf(server: KubernetesServer, token = 'admin') {
  const config = new KubeConfig()
  config.loadFromOptions({
    clusters: [{ name: 'c', server: server.url, caData: Buffer.from(server.ca).toString('base64') }],
    users: [{ name: 'u', token }],
    contexts: [{ name: 'x', cluster: 'c', user: 'u' }],
    currentContext: 'x',
  })
  return { api: config.makeApiClient(CoordinationV1Api), watch: new Watch(config) }
}

/** A service account as it is mounted into a pod, and the API by it. */
export interface Mounted {
  readonly api: InClusterLeases
  readonly folder: string
  /** Writes a file of the mount, as the kubelet does when it rotates a token. */
  write(file: 'token' | 'ca.crt' | 'namespace', text: string): void
  remove(): void
}

export function mount(server: KubernetesServer, options: InClusterOptions = {}, token = 'admin'): Mounted {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-mount-'))
  const write: Mounted['write'] = (file, text) => writeFileSync(join(folder, file), text)
  write('token', `${token}\n`)
  write('ca.crt', server.ca)
  write('namespace', 'default')
  const api = inClusterLeases({ folder, host: '127.0.0.1', port: server.port, ...options })
  return {
    api,
    folder,
    write,
    remove() {
      api.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
