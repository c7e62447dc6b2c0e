// `kubernetes:`: leases as Lease objects of a cluster: in a pod by the mount of its service account, elsewhere by a kubeconfig, which
// @kubernetes/client-node reads.
import { kubernetesStore } from 'holdfast/kubernetes'
import { doctorOfKubernetes } from '../doctor/kubernetes.js'
import { CliError, EXIT, usageError } from '../exit.js'
import { type Cluster, clusterByKubeconfig, clusterOfPod, isInPod } from './kubernetes-cluster.js'
import { type Open, owning } from './scheme.js'
import { decoded, readQuery } from './url.js'

/** How long the first answer may take: a server that hangs is not waited for without end. */
const ANSWER_MS = 5_000

const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/

export const open: Open = async (url) => {
  const { namespace: named, kubeconfig, context } = readKubernetesUrl(url)
  const cluster: Cluster =
    isInPod() && kubeconfig === undefined && context === undefined
      ? clusterOfPod()
      : await clusterByKubeconfig(kubeconfig, context)
  const namespace = named ?? cluster.namespace
  const { api, watch, server } = cluster
  const store = owning(kubernetesStore(api, { namespace, ...(watch === undefined ? {} : { watch }) }), () =>
    cluster.close(),
  )
  const shown = `kubernetes:${namespace} (${server})`
  let ready: Promise<void> | undefined
  return {
    store,
    shown,
    ready() {
      ready ??= reached(cluster, shown)
      return ready
    },
    doctor: () => doctorOfKubernetes(cluster, namespace),
  }
}

/** An answer of whatever kind is enough; rights are the store's affair. */
async function reached(cluster: Cluster, shown: string): Promise<void> {
  const timeout = AbortSignal.timeout(ANSWER_MS)
  const late = new Promise<never>((_, reject) =>
    timeout.addEventListener('abort', () => reject(new Error(`no answer within ${ANSWER_MS} ms`))),
  )
  try {
    await Promise.race([cluster.version(), late])
  } catch (cause) {
    const { code, message } = cause as { code?: unknown; message?: string }
    if (typeof code === 'number') return
    throw new CliError(EXIT.unavailable, `cannot reach ${shown}: ${message ?? String(cause)}`, { cause })
  }
}

/** What a URL of this scheme means. Throws `CliError` 64. */
export function readKubernetesUrl(url: string): {
  namespace: string | undefined
  kubeconfig: string | undefined
  context: string | undefined
} {
  const [, text = '', question] = /^[^:]*:([^?]*)(?:\?(.*))?$/su.exec(url) ?? []
  const namespace = decoded(text, 'the namespace in the kubernetes: URL')
  if (namespace !== '' && !LABEL.test(namespace))
    throw usageError(
      'a kubernetes: URL names a namespace, of at most 63 small letters, digits and hyphens: kubernetes:jobs, or kubernetes:jobs?context=NAME',
    )
  const { kubeconfig, context } = readQuery(question, 'kubernetes', ['kubeconfig', 'context'])
  return { namespace: namespace === '' ? undefined : namespace, kubeconfig, context }
}
