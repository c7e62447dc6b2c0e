// The Redis store under the whole suite on a Cluster of three masters, with ioredis and node-redis.
import { clientKinds } from '../redis/clients.js'
import { redisConformance } from '../redis/conformance.js'
import { RedisCluster } from '../redis/servers.js'

for (const kind of clientKinds) {
  redisConformance(
    `redis cluster, ${kind.name}`,
    () => RedisCluster.start(),
    (cluster) => kind.cluster(cluster),
  )
}
