// The rights that the store needs, as text to apply.
import { InvalidArgumentError } from '../../lease/errors.js'
import { checkNamespace } from './names.js'

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
 * Throws InvalidArgumentError for what cannot be a namespace, or the name of a Role.
 *
 * @example
 * ```ts no-run
 * import { kubernetesRole } from 'holdfast/kubernetes'
 *
 * console.log(kubernetesRole({ namespace: 'jobs' }))
 * ```
 */
export function kubernetesRole(options: KubernetesRoleOptions): string {
  const { namespace, name = 'holdfast' } = options ?? {}
  checkNamespace(namespace)
  if (typeof name !== 'string' || !/^[-.:\w]+$/.test(name))
    throw new InvalidArgumentError('name', name, 'must name a Role')
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
