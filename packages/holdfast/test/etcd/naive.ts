// Locks on etcd as people write them over its gateway. The cases that Holdfast passes must fail on them.
import { pass } from '../redis/servers.js'
import { post } from './servers.js'

type Answer = {
  succeeded?: boolean
  kvs?: { key: string; value: string; lease?: string; mod_revision: string }[]
}

const ask = (url: string, path: string, body: unknown) => post(url, path, body) as Promise<Answer>

/** An etcd lease as many make it: the ttl as a whole number, whichever way it is cut. */
export async function naiveLease(url: string, ttlMs: number): Promise<string> {
  return String((await post(url, '/v3/lease/grant', { TTL: String(Math.floor(ttlMs / 1_000)) })).ID)
}

/** All keys of a process on one etcd lease that is kept alive as long as anybody needs it. */
export async function naiveSharing(url: string, keys: readonly string[], ttlMs: number) {
  const lease = await naiveLease(url, ttlMs)
  for (const key of keys) await post(url, '/v3/kv/put', { key: btoa(key), value: btoa('me'), lease })
  return {
    renew: () => post(url, '/v3/lease/keepalive', { ID: lease }),
    /** How many keys are still there. */
    async standing(): Promise<number> {
      let count = 0
      for (const key of keys) count += (await ask(url, '/v3/kv/range', { key: btoa(key) })).kvs?.length ?? 0
      return count
    },
  }
}

/**
 * A lock of one key, as found in many services: the host's name says who holds, whatever fails is "somebody else has it", a renewal
 * writes the value over the revision that was read, and a release clears everything that begins with the name.
 */
export function naiveLock(url: string, name: string, who: string, ttlMs: number) {
  const key = btoa(`lock/${name}`)
  let believes = false
  let lease = ''
  const look = async () => (await ask(url, '/v3/kv/range', { key })).kvs?.[0]
  return {
    get believes() {
      return believes
    },

    async acquire(): Promise<boolean> {
      try {
        const seen = await look()
        if (seen !== undefined && !who.startsWith(atob(seen.value))) return false
        lease = await naiveLease(url, ttlMs)
        await post(url, '/v3/kv/put', { key, value: btoa(who), lease })
        believes = true
      } catch {
        return false
      }
      return believes
    },

    async renew(): Promise<boolean> {
      try {
        const seen = await look()
        const over = { key, target: 'MOD', mod_revision: seen?.mod_revision ?? '0' }
        const write = { compare: [over], success: [{ request_put: { key, value: btoa(who), lease } }] }
        believes = (await ask(url, '/v3/kv/txn', write)).succeeded === true
      } catch {
        believes = false
      }
      return believes
    },

    async release(): Promise<void> {
      believes = false
      await post(url, '/v3/kv/deleterange', { key, range_end: btoa(`lock/${name}\xff`) })
    },
  }
}

/**
 * A place in line on an etcd lease that is made before the wait and that nobody keeps alive during it, as the lock of etcd 3.4.3 and
 * many after it: in when nobody is before it, without a look at its own key. Resolves when it is in line.
 */
export async function naivePlace(url: string, name: string, ttlMs: number) {
  const lease = await naiveLease(url, ttlMs)
  const key = `line/${name}/${lease}`
  const { header } = await post(url, '/v3/kv/put', { key: btoa(key), value: btoa('me'), lease })
  const revision = Number((header as { revision: string }).revision)
  const line = { key: btoa(`line/${name}/`), range_end: btoa(`line/${name}0`), keys_only: true }
  return {
    /** Waits until nobody is before it. */
    async enter(): Promise<'in'> {
      for (;;) {
        const { kvs = [] } = await ask(url, '/v3/kv/range', line)
        if (!kvs.some(({ mod_revision }) => Number(mod_revision) < revision)) return 'in'
        await pass(20)
      }
    },
    /** Whether its key is there. */
    stands: async () => ((await ask(url, '/v3/kv/range', { key: btoa(key) })).kvs ?? []).length > 0,
    leave: () => post(url, '/v3/kv/deleterange', { key: btoa(key) }),
  }
}
