// The rights that the store needs, as text to apply.

/** Where the rights are needed. */
export interface KubernetesRoleOptions {
  /** The namespace of the Leases. */
  readonly namespace: string
  /** What Role is called. Default `holdfast`. */
  readonly name?: string
}

/**
 * The Role that the store's account needs, as YAML for `kubectl apply`. `list` and `watch` are for tools and for waking waiters at once.
 *
 * @example
 * ```ts no-run
 * import { kubernetesRole } from 'holdfast/kubernetes'
 *
 * console.log(kubernetesRole({ namespace: 'jobs' }))
 * ```
 */
export function kubernetesRole({ namespace, name = 'holdfast' }: KubernetesRoleOptions): string {
  return `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: ${name}
  namespace: ${namespace}
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [get, create, update, list, watch]
`
}
