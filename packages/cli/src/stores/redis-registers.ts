// The registers of the demo in Redis: plain keys, and a fence that is asked in the same script as the write. All of it is named
// after this run, and removed at its end.

import { redisFence } from 'holdfast/redis'
import { Cluster } from 'ioredis'
import { type Registers, written } from '../demo/registers.js'
import type { Client } from './redis-client.js'

/** Should the end never come: the data goes by itself. */
const KEPT_MS = 3_600_000

export async function redisRegisters(client: Client, name: string): Promise<Registers> {
  const prefix = `${name}-fence:`
  const cluster = client instanceof Cluster
  // In a Cluster a mark would have to be put in each of its 16,384 slots, for a data set that lives a few seconds.
  const fence = redisFence(client, { prefix, birthMark: !cluster })
  if (!cluster) await fence.install()
  const keyOf = (register: string) => `{${name}}:${register}`
  return {
    write: (register, text, grant) =>
      written(() =>
        register === 'fenced'
          ? fence.set(grant, keyOf(register), text, { ttlMs: KEPT_MS })
          : client.set(keyOf(register), text, 'PX', KEPT_MS),
      ),
    read: async (register) => (await client.get(keyOf(register))) ?? '',
    async close() {
      await client.del(keyOf('plain'), keyOf('fenced'))
      for (const key of await fenceKeys(client, prefix)) await client.del(key)
    },
  }
}

/** The fence's own keys. It is the one that names them. */
async function fenceKeys(client: Client, prefix: string): Promise<string[]> {
  const found: string[] = []
  for (const server of client instanceof Cluster ? client.nodes('master') : [client]) {
    for await (const keys of server.scanStream({ match: `${prefix}*`, count: 1_000 })) found.push(...(keys as string[]))
  }
  return found
}
