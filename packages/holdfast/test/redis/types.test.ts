// The clients that people have fit what the store asks for, by their own types: no cast, no import of theirs in the library.
import type * as ioredis6 from 'ioredis'
import type * as ioredis5 from 'ioredis5'
import type * as nodeRedis6 from 'redis'
import type * as nodeRedis5 from 'redis5'
import { describe, expectTypeOf, it } from 'vitest'
import type { RedisClient } from '../../src/stores/redis/index.js'

describe('the types of the real clients are assignable', () => {
  it('ioredis 6 and 5', () => {
    expectTypeOf<ioredis6.Redis>().toExtend<RedisClient>()
    expectTypeOf<ioredis6.Cluster>().toExtend<RedisClient>()
    expectTypeOf<ioredis5.Redis>().toExtend<RedisClient>()
    expectTypeOf<ioredis5.Cluster>().toExtend<RedisClient>()
  })

  it('node-redis 6 and 5', () => {
    expectTypeOf<ReturnType<typeof nodeRedis6.createClient>>().toExtend<RedisClient>()
    expectTypeOf<ReturnType<typeof nodeRedis6.createCluster>>().toExtend<RedisClient>()
    expectTypeOf<ReturnType<typeof nodeRedis6.createSentinel>>().toExtend<RedisClient>()
    expectTypeOf<ReturnType<typeof nodeRedis5.createClient>>().toExtend<RedisClient>()
    expectTypeOf<ReturnType<typeof nodeRedis5.createCluster>>().toExtend<RedisClient>()
    expectTypeOf<ReturnType<typeof nodeRedis5.createSentinel>>().toExtend<RedisClient>()
  })

  it('clients with modules and another protocol, as their factories make them', () => {
    const resp2 = (driver: typeof nodeRedis6) => driver.createClient({ RESP: 2 })
    const resp3 = (driver: typeof nodeRedis5) => driver.createClient({ RESP: 3 })
    expectTypeOf<ReturnType<typeof resp2>>().toExtend<RedisClient>()
    expectTypeOf<ReturnType<typeof resp3>>().toExtend<RedisClient>()
    expectTypeOf<ioredis6.Redis<'resp3'>>().toExtend<RedisClient>()
  })

  it('and what is none does not fit', () => {
    expectTypeOf<Map<string, string>>().not.toExtend<RedisClient>()
    expectTypeOf<ReturnType<ioredis6.Redis['pipeline']>>().not.toExtend<RedisClient>()
  })
})
