// A Redis server of its own for the samples of a benchmark, and clients for it.
import { Redis } from 'ioredis5'
import { RedisServer } from '../../packages/holdfast/test/redis/servers.js'

let server: Promise<RedisServer> | undefined

/** The port of the server, which is started once and ends with this process. */
export async function redisPort(): Promise<number> {
  if (server === undefined) {
    server = RedisServer.start()
    const running = await server
    running.unref() // ends with this process
  }
  return (await server).port
}

/** An ioredis client on an empty database. */
export async function emptyRedis(): Promise<Redis> {
  const client = new Redis({ host: '127.0.0.1', port: await redisPort() })
  await client.flushall()
  return client
}
