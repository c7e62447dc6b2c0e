// `holdfast/etcd`: leases in etcd, and fences for what the application keeps there.
export type { AdmitOptions } from '../../fence/fence.js'
export {
  type EtcdFence,
  type EtcdFenceOptions,
  type EtcdTransaction,
  type EtcdTransactionAnswer,
  etcdFence,
} from './fence.js'
export type { EtcdConnection, EtcdFetch } from './gateway.js'
export { type EtcdStore, type EtcdStoreOptions, etcdCapabilities, etcdStore } from './store.js'
