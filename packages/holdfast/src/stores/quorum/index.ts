// `holdfast/quorum`: leases over several independent stores.
export { type QuorumStoreOptions, quorumStore } from './store.js'
