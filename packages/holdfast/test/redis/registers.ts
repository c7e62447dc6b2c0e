// Two registers on a server that no fault reaches: one behind a fence, one that anybody may write. Read afterwards, they show
// what came of a fault: the fenced one must be in the order of its tokens, whatever happened; the plain one only where the
// promise of exclusion holds.
import type { Redis } from 'ioredis'
import { StaleTokenError } from '../../src/lease/errors.js'
import type { Lease } from '../../src/lease/lease.js'
import { type RedisFence, redisFence } from '../../src/stores/redis/index.js'
import { overwritten, type Written } from '../faults/checkers.js'

const APPEND = "return redis.call('RPUSH', KEYS[1], ARGV[1])"

export class Registers {
  readonly #client: Redis
  readonly #fence: RedisFence
  readonly #name: string

  /** Registers by this name, on the server of `client`. */
  constructor(client: Redis, name: string) {
    this.#client = client
    this.#name = name
    this.#fence = redisFence(client, { birthMark: false }) // the tokens are older than this server in some tests
  }

  /** What a holder writes while it believes. Gives whether the fence admitted it. */
  async write(lease: Lease): Promise<boolean> {
    await this.#client.rpush(`${this.#name}:plain`, this.#line(lease))
    return await this.writeLate(lease)
  }

  /** What a holder writes that was stopped between its last look and the write: it reaches the fence. */
  async writeLate(lease: Lease): Promise<boolean> {
    const work = { script: APPEND, keys: [`${this.#name}:fenced`], args: [this.#line(lease)] }
    try {
      await this.#fence.run(lease.grant, work, { resource: this.#name })
      return true
    } catch (error) {
      if (error instanceof StaleTokenError) return false
      throw error
    }
  }

  /** Writes that replaced one of a bigger token, in each of the registers. */
  async overwritten(): Promise<{ fenced: string[]; plain: string[] }> {
    const read = async (register: 'fenced' | 'plain') => {
      const lines = await this.#client.lrange(`${this.#name}:${register}`, 0, -1)
      return overwritten(
        lines.map((line): Written => ({ register, ...(JSON.parse(line) as Omit<Written, 'register'>) })),
        register,
      )
    }
    return { fenced: await read('fenced'), plain: await read('plain') }
  }

  #line({ token, grant }: Lease): string {
    return JSON.stringify({ token, holder: grant.claim })
  }
}
