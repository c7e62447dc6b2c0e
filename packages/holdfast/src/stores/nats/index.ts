// What `holdfast/nats` exports.
export type { NatsEntry, NatsIterator, NatsKv, NatsStatus } from './client.js'
export { type NatsStore, type NatsStoreOptions, natsCapabilities, natsStore } from './store.js'
