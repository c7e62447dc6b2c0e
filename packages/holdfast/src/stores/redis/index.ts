// `holdfast/redis`: leases in Redis, and fences for what the application keeps there.
export type { AdmitOptions } from '../../fence/fence.js'
export type { RedisClient } from './client.js'
export { type FencedScript, type RedisFence, type RedisFenceOptions, redisFence } from './fence.js'
export { type RedisRecordsOptions, redisRecords, redisRecordsCapabilities } from './records.js'
export { type RedisStore, type RedisStoreOptions, redisCapabilities, redisStore } from './store.js'
