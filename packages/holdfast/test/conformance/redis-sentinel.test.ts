// The Redis store under the whole suite on a primary that is found through Sentinel, with ioredis and node-redis.
import { clientKinds } from '../redis/clients.js'
import { redisConformance } from '../redis/conformance.js'
import { RedisReplication } from '../redis/servers.js'

for (const kind of clientKinds) {
  redisConformance(
    `redis through Sentinel, ${kind.name}`,
    () => RedisReplication.start(),
    (replication) => kind.sentinel(replication),
  )
}
