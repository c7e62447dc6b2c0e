// The Redis store under the whole suite on one server, with ioredis and node-redis.
import { clientKinds } from '../redis/clients.js'
import { redisConformance } from '../redis/conformance.js'
import { RedisServer } from '../redis/servers.js'

for (const kind of clientKinds) {
  redisConformance(
    `redis, ${kind.name}`,
    () => RedisServer.start(),
    ({ port }) => kind.standalone(port),
  )
}
