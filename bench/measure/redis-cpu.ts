// How much CPU time a Redis server used in a while, by its own count.
import type { Redis } from 'ioredis5'

/** Starts measuring. Gives the way to read the CPU time used since, in ms. */
export async function redisCpu(client: Redis): Promise<() => Promise<number>> {
  const usedMs = async () => {
    const text = await client.info('cpu')
    const seconds = (field: string) => Number(new RegExp(`${field}:([\\d.]+)`).exec(text)?.[1] ?? 0)
    return 1000 * (seconds('used_cpu_user') + seconds('used_cpu_sys'))
  }
  const beforeMs = await usedMs()
  return async () => (await usedMs()) - beforeMs
}
