// `doctor` on Kubernetes: the version, and which rights the account has, as the API server says; it writes nothing.
import type { Cluster } from '../stores/kubernetes-cluster.js'
import type { Finding } from './finding.js'

/** What each verb is for. Without the first three nothing works. */
const VERBS = {
  get: 'nothing works without it',
  create: 'no key can be held that was never held before',
  update: 'nothing works without it',
  list: 'ls works no more, and nothing else',
  watch: 'waiters learn of a release by asking, a second late',
} as const

const NEEDED: readonly string[] = ['get', 'create', 'update']

export async function doctorOfKubernetes(cluster: Cluster, namespace: string): Promise<Finding[]> {
  return [
    { what: 'way', read: cluster.way, level: 'ok', touches: [], advice: '' },
    await versionFinding(cluster),
    ...(await Promise.all(
      Object.keys(VERBS).map((verb) => verbFinding(cluster, namespace, verb as keyof typeof VERBS)),
    )),
    await leasesFinding(cluster, namespace),
    {
      what: 'clocks',
      read: 'not compared',
      level: 'ok',
      touches: ['A1', 'A2'],
      advice: '',
    },
  ]
}

async function versionFinding(cluster: Cluster): Promise<Finding> {
  const base = { what: 'version', touches: [] }
  const version = await cluster.version().catch(() => undefined)
  if (version === undefined) return { ...base, read: 'unknown', level: 'note', advice: 'it may not be asked' }
  const [, major = 0, minor = 0] = (/^v?(\d+)\.(\d+)/.exec(version) ?? []).map(Number)
  const read = `Kubernetes ${version}`
  if (major * 100 + minor < 114)
    return { ...base, read, level: 'problem', advice: 'Leases of coordination.k8s.io/v1 are there from 1.14 on' }
  return { ...base, read, level: 'ok', advice: '' }
}

async function verbFinding(cluster: Cluster, namespace: string, verb: keyof typeof VERBS): Promise<Finding> {
  const base = { what: `right to ${verb} leases`, touches: NEEDED.includes(verb) ? [] : ['G8'] }
  let allowed: boolean
  try {
    allowed = await cluster.may(verb, namespace)
  } catch {
    return { ...base, read: 'unknown: this account may not ask', level: 'note', advice: '' }
  }
  if (allowed) return { ...base, read: 'yes', level: 'ok', advice: '' }
  const role = `kubectl create role holdfast -n ${namespace} --verb=${Object.keys(VERBS)} --resource=leases.coordination.k8s.io`
  const advice = `${VERBS[verb]}; make a Role (${role}) and bind it to the account`
  return { ...base, read: 'no', level: NEEDED.includes(verb) ? 'problem' : 'warning', advice }
}

/** A namespace that is missing looks empty to all that only reads: the first command that writes tells of it. */
async function leasesFinding({ api }: Cluster, namespace: string): Promise<Finding> {
  const base = { what: 'leases', touches: [] }
  try {
    const { items, metadata } = await api.listNamespacedLease({ namespace, limit: 500 })
    const ours = items.filter(({ metadata: one }) => one?.annotations?.['holdfast/record'] !== undefined).length
    const more = metadata?._continue === undefined ? '' : ' or more'
    const read = `${items.length}${more}, of which ${ours} are or were held by Holdfast`
    return { ...base, read, level: 'ok', advice: '' }
  } catch {
    return { ...base, read: 'unknown: they may not be listed', level: 'note', advice: '' }
  }
}
