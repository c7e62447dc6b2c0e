// The ways to an API server, and what the command line asks of one beside Leases.
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { KubernetesLeases, KubernetesWatch } from 'holdfast/kubernetes'
import { inClusterLeases } from 'holdfast/kubernetes/in-cluster'
import { CliError, EXIT, messageOf, usageError } from '../exit.js'
import { quote } from '../text.js'

export interface Cluster {
  readonly api: KubernetesLeases
  readonly watch?: KubernetesWatch
  /** The namespace that is meant when none is named. */
  readonly namespace: string
  /** The address of the API server, for people. */
  readonly server: string
  /** By which way it is reached, for people. */
  readonly way: string
  version(): Promise<string>
  /** What the server says of itself to the question whether this account may. */
  may(verb: string, namespace: string): Promise<boolean>
  close(): void
}

const MOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'
const CLIENT = '@kubernetes/client-node'

/** Whether this process runs in a pod with a service account. HOLDFAST_KUBERNETES_MOUNT names another folder than Kubernetes does. */
export const isInPod = (): boolean =>
  (process.env.KUBERNETES_SERVICE_HOST ?? '') !== '' && existsSync(join(mountFolder(), 'token'))

const mountFolder = (): string => process.env.HOLDFAST_KUBERNETES_MOUNT || MOUNT

export function clusterOfPod(): Cluster {
  const api = inClusterLeases({ folder: mountFolder() })
  return {
    api,
    namespace: api.namespace,
    server: `the cluster of this pod`,
    way: 'the service account of this pod',
    version: async () => ((await api.ask('GET', '/version')) as { gitVersion: string }).gitVersion,
    async may(verb, namespace) {
      const body = reviewOf(verb, namespace)
      const answer = await api.ask('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', body)
      return (answer as Review).status?.allowed === true
    },
    close: () => api.close(),
  }
}

export async function clusterByKubeconfig(file: string | undefined, context: string | undefined): Promise<Cluster> {
  const client = await loadClient()
  const config = new client.KubeConfig()
  try {
    if (file === undefined) config.loadFromDefault()
    else config.loadFromFile(file)
  } catch (error) {
    throw usageError(`the kubeconfig cannot be read: ${messageOf(error)}`)
  }
  if (context !== undefined) {
    const names = config.getContexts().map(({ name }) => name)
    if (!names.includes(context))
      throw usageError(
        `the kubeconfig has no context ${quote(context)}; it has ${names.map(quote).join(', ') || 'none'}`,
      )
    config.setCurrentContext(context)
  }
  const current = config.getCurrentContext()
  const server = config.getCurrentCluster()?.server
  if (server === undefined)
    throw usageError('the kubeconfig names no cluster: give ?kubeconfig=FILE, ?context=NAME, or set KUBECONFIG')
  const reviews = config.makeApiClient(client.AuthorizationV1Api)
  const versions = config.makeApiClient(client.VersionApi)
  return {
    api: config.makeApiClient(client.CoordinationV1Api),
    watch: new client.Watch(config),
    namespace: config.getContextObject(current)?.namespace ?? 'default',
    server,
    way: `context ${quote(current)} of the kubeconfig`,
    version: async () => (await versions.getCode()).gitVersion,
    async may(verb, namespace) {
      const answer = await reviews.createSelfSubjectAccessReview({ body: reviewOf(verb, namespace) })
      return answer.status?.allowed === true
    },
    close() {},
  }
}

interface Review {
  readonly status?: { readonly allowed?: boolean }
}

const reviewOf = (verb: string, namespace: string) => ({
  apiVersion: 'authorization.k8s.io/v1',
  kind: 'SelfSubjectAccessReview',
  spec: { resourceAttributes: { verb, namespace, group: 'coordination.k8s.io', resource: 'leases' } },
})

/** What is used of the client, which is the user's: 70 MB that the command line does not carry. */
interface Client {
  readonly KubeConfig: new () => Config
  readonly CoordinationV1Api: Api<KubernetesLeases>
  readonly AuthorizationV1Api: Api<{ createSelfSubjectAccessReview(what: { body: object }): Promise<Review> }>
  readonly VersionApi: Api<{ getCode(): Promise<{ gitVersion: string }> }>
  readonly Watch: new (config: Config) => KubernetesWatch
}

/** A class of the client, as a name for what `makeApiClient` gives. */
interface Api<Calls> {
  readonly prototype: Calls
}

interface Config {
  loadFromDefault(): void
  loadFromFile(file: string): void
  getContexts(): readonly { readonly name: string }[]
  getCurrentContext(): string
  setCurrentContext(name: string): void
  getContextObject(name: string): { readonly namespace?: string } | null
  getCurrentCluster(): { readonly server: string } | null
  makeApiClient<Calls>(api: Api<Calls>): Calls
}

/** The client as it is installed beside the command line, or in the project that it is called from. */
async function loadClient(): Promise<Client> {
  const failures: unknown[] = []
  for (const from of [import.meta.url, pathToFileURL(join(process.cwd(), 'package.json')).href]) {
    try {
      const path = createRequire(from).resolve(CLIENT)
      return (await import(pathToFileURL(path).href)) as Client
    } catch (error) {
      failures.push(error)
    }
  }
  const missing = failures.every((error) => (error as { code?: unknown }).code === 'MODULE_NOT_FOUND')
  const why = missing ? 'is not installed' : `cannot be loaded (${messageOf(failures[0])})`
  throw new CliError(
    EXIT.unavailable,
    `outside of a pod a kubernetes: URL needs ${CLIENT}, which ${why}: npm install --global ${CLIENT}@1.4.0, or install it in this project`,
    { cause: failures[0] },
  )
}
