// The API of Leases, as far as it is called: CoordinationV1Api of @kubernetes/client-node fits it.

/** Metadata of a Lease; whatever else is in it goes back as it was read. */
export interface KubernetesMetadata {
  name?: string
  namespace?: string
  uid?: string
  resourceVersion?: string
  /** Text, or the Date that a client makes of it. */
  creationTimestamp?: unknown
  annotations?: { [name: string]: string }
  managedFields?: unknown
}

/** What a Lease says. Times are text with six digits of a second, or whatever a client makes of that. */
export interface KubernetesLeaseSpec {
  holderIdentity?: string
  leaseDurationSeconds?: number
  leaseTransitions?: number
  acquireTime?: unknown
  renewTime?: unknown
}

/** A Lease of coordination.k8s.io/v1. */
export interface KubernetesLease {
  apiVersion?: string
  kind?: string
  metadata?: KubernetesMetadata
  spec?: KubernetesLeaseSpec
}

/** A page of Leases. */
export interface KubernetesLeaseList {
  metadata?: { _continue?: string }
  items: KubernetesLease[]
}

/** In whose namespace, and when nobody wants the answer any more: `signal` is for those who can end a request, others pass it over. */
export interface KubernetesCall {
  namespace: string
  signal?: AbortSignal
}

/** The calls on Leases that the store makes. */
export interface KubernetesLeases {
  readNamespacedLease(at: KubernetesCall & { name: string }): Promise<KubernetesLease>
  createNamespacedLease(what: KubernetesCall & { body: KubernetesLease }): Promise<KubernetesLease>
  replaceNamespacedLease(what: KubernetesCall & { name: string; body: KubernetesLease }): Promise<KubernetesLease>
  listNamespacedLease(what: KubernetesCall & { limit?: number; _continue?: string }): Promise<KubernetesLeaseList>
}

/** What sees changes as they happen: `new Watch(kubeConfig)` of @kubernetes/client-node. */
export interface KubernetesWatch {
  watch(
    path: string,
    query: Record<string, string | number | boolean | undefined>,
    callback: (type: string, object: KubernetesLease) => void,
    done: (error: unknown) => void,
  ): Promise<{ abort(): void }>
}
