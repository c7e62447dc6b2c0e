// The command line on the stand-in of an API server: by a kubeconfig and by the mount of a pod.
import { symlinkSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Mounted, mount } from '../../holdfast/test/kubernetes/harness.js'
import { KubernetesServer } from '../../holdfast/test/servers/kubernetes.js'
import { readKubernetesUrl } from '../src/stores/kubernetes.js'
import { type Place, place, waitUntil } from './harness.js'

const CLIENTS = fileURLToPath(new URL('../../holdfast/test/clients/node_modules', import.meta.url))

let server: KubernetesServer
let pod: Mounted
beforeAll(async () => {
  server = await KubernetesServer.start()
  server.objects.addNamespace('jobs')
  pod = mount(server)
})
afterAll(async () => {
  pod?.remove()
  await server?.stop()
})

/** A project in which the client is installed, and a kubeconfig. */
function byKubeconfig(token = 'admin'): Place {
  const at = place()
  symlinkSync(CLIENTS, at.file('node_modules'))
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server: server.url, 'certificate-authority-data': btoa(server.ca) } }],
    users: [{ name: 'u', user: { token } }],
    contexts: [
      { name: 'here', context: { cluster: 'c', user: 'u', namespace: 'jobs' } },
      { name: 'other', context: { cluster: 'c', user: 'u' } },
    ],
    'current-context': 'here',
  }
  writeFileSync(at.file('kubeconfig'), JSON.stringify(config))
  at.env.KUBECONFIG = at.file('kubeconfig')
  at.env.HOLDFAST_STORE = 'kubernetes:'
  return at
}

function inPod(): Place {
  const at = place()
  Object.assign(at.env, {
    KUBERNETES_SERVICE_HOST: '127.0.0.1',
    KUBERNETES_SERVICE_PORT: String(server.port),
    HOLDFAST_KUBERNETES_MOUNT: pod.folder,
    HOLDFAST_STORE: 'kubernetes:jobs',
  })
  return at
}

describe.each([
  ['by a kubeconfig', byKubeconfig],
  ['in a pod', inPod],
])('kubernetes: %s', (way, here) => {
  it('runs a command under a lease, shows, lists, watches and revokes it', async () => {
    const at = here()
    const key = way.replaceAll(' ', '-')
    const held = at.start('run', key, '--ttl', '5s', '--wait', '6s', '--', 'sh', '-c', 'echo $HOLDFAST_TOKEN; read x')
    await waitUntil('it holds', () => held.stdout() !== '')
    expect(server.objects.get('jobs', key)?.spec).toMatchObject({ leaseTransitions: 1, leaseDurationSeconds: 5 })
    const shown = await at.holdfast('show', key, '--json')
    expect(JSON.parse(shown.stdout)).toMatchObject({ key, state: 'held', token: Number(held.stdout()) })
    expect((await at.holdfast('ls')).stdout).toContain(key)
    const watching = at.start('watch', key)
    await waitUntil('it watches', () => watching.stdout().includes('held by'))
    expect((await at.holdfast('revoke', key)).code).toBe(0)
    await waitUntil('it is told', () => watching.stdout().includes('revoked'))
    expect((await held.ended).code).toBe(79)
    watching.kill('SIGINT')
    expect((await watching.ended).code).toBe(0)
  }, 60_000)

  it('plays the demo, without a fence', async () => {
    const { code, stdout } = await here().holdfast('demo', '--json', '--store')
    expect(code).toBe(0)
    expect(stdout).toContain('"did":')
  }, 60_000)

  it('doctor says which rights the account has', async () => {
    const { code, stdout } = await here().holdfast('doctor')
    expect(code).toBe(0)
    for (const what of [
      /Kubernetes v1\.32/,
      /right to create leases +yes/,
      /right to watch leases +yes/,
      /not compared/,
    ])
      expect(stdout).toMatch(what)
  }, 60_000)
})

describe('kubernetes:', () => {
  it('doctor names each right that is missing, and the Role; what may not be asked is unknown', async () => {
    server.accounts.set('some', { user: 'some', verbs: ['get', 'update', 'list'] })
    const { code, stdout } = await byKubeconfig('some').holdfast('doctor')
    expect(code).toBe(78)
    expect(stdout).toMatch(/right to create leases +no/)
    expect(stdout).toMatch(/right to watch leases +no/)
    expect(stdout).toMatch(/problem: right to create leases: .*kubectl create role holdfast -n jobs --verb=get,create,/)
    server.accounts.set('mute', { user: 'mute', verbs: [] })
    server.mayNotReview.add('mute')
    const unknown = await byKubeconfig('mute').holdfast('doctor')
    expect(unknown.stdout).toMatch(/right to get leases +unknown: this account may not ask/)
  }, 60_000)

  it('a missing right is told with the Role that is needed', async () => {
    server.accounts.set('reader', { user: 'reader', verbs: ['get'] })
    const { code, stderr } = await byKubeconfig('reader').holdfast('run', 'a', '--wait', '0s', '--', 'true')
    expect(code).toBe(69)
    expect(stderr).toMatch(/the right to create leases is missing/)
    expect(stderr).toMatch(/verbs: \[get, create, update, list, watch\]/)
  }, 60_000)

  it('names another context and another file, and says what is not there', async () => {
    const at = byKubeconfig()
    const file = encodeURIComponent(at.file('kubeconfig'))
    const other = await at.holdfast('doctor', '--store', `kubernetes:?context=other&kubeconfig=${file}`)
    expect(other.stdout).toContain(`kubernetes:default (${server.url})`)
    const none = await at.holdfast('ls', '--store', 'kubernetes:?context=nothing')
    expect([none.code, none.stderr]).toEqual([
      64,
      expect.stringMatching(/no context "nothing"; it has "here", "other"/),
    ])
    const missing = await at.holdfast('ls', '--store', 'kubernetes:?kubeconfig=%2Fnowhere')
    expect([missing.code, missing.stderr]).toEqual([64, expect.stringMatching(/the kubeconfig cannot be read: ENOENT/)])
  }, 60_000)

  it('without the client it says what to install', async () => {
    const at = place()
    const { code, stderr } = await at.holdfast('ls', '--store', 'kubernetes:jobs')
    expect(code).toBe(69)
    expect(stderr).toMatch(/needs @kubernetes\/client-node, which is not installed: npm install --global @kubernetes/)
  })

  it('a server that is not there is told in one line', async () => {
    const gone = await KubernetesServer.start()
    const at = inPod()
    at.env.KUBERNETES_SERVICE_PORT = String(gone.port)
    await gone.stop()
    const { code, stderr } = await at.holdfast('ls')
    expect(code).toBe(69)
    expect(stderr).toMatch(/^holdfast: cannot reach kubernetes:jobs \(the cluster of this pod\): .*ECONNREFUSED.*\n$/)
  })

  it.each([
    ['kubernetes:', { namespace: undefined }],
    ['kubernetes:jobs', { namespace: 'jobs' }],
    ['kubernetes:jobs?context=a%20b', { namespace: 'jobs', context: 'a b' }],
  ])('%s', (url, read) => {
    expect(readKubernetesUrl(url)).toMatchObject(read)
  })
})
