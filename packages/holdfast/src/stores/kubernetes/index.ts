// What `holdfast/kubernetes` exports.
export type {
  KubernetesCall,
  KubernetesLease,
  KubernetesLeaseList,
  KubernetesLeaseSpec,
  KubernetesLeases,
  KubernetesMetadata,
  KubernetesWatch,
} from './client.js'
export { type KubernetesRoleOptions, kubernetesRole } from './role.js'
export { type KubernetesStoreOptions, kubernetesCapabilities, kubernetesStore } from './store.js'
