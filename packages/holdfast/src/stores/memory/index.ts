// `holdfast/memory`: leases in this process's memory.
export { type MemoryStore, type MemoryStoreOptions, memoryCapabilities, memoryStore } from './store.js'
