// `holdfast/memory`: leases in this process's memory.

export { type MemoryRecordsOptions, memoryRecords, memoryRecordsCapabilities } from './records.js'
export { type MemoryStore, type MemoryStoreOptions, memoryCapabilities, memoryStore } from './store.js'
