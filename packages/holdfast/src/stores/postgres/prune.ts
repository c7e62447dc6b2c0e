// Forgetting keys that nobody uses any more, a few rows at a time. The biggest token that was forgotten is kept, and a key without a
// row starts above it: so tokens go on rising (G2), also when the server's clock was set back meanwhile.
import type { Server } from './server.js'

/** After this many acquires of this process as many keys are looked at, so that pruning keeps up with new keys. */
const KEYS_PER_PASS = 1_000

/** Pruning as it goes on by itself. */
export class Pruning {
  readonly #server: Server
  readonly #retentionMs: number
  #after = ''
  #acquires = 0

  constructor(server: Server, retentionMs: number) {
    this.#server = server
    this.#retentionMs = retentionMs
  }

  /** Counts an acquire. */
  wrote(): void {
    if (++this.#acquires < KEYS_PER_PASS) return
    this.#acquires = 0
    prunePass(this.#server, this.#after, this.#retentionMs).then(
      ({ last }) => {
        this.#after = last ?? ''
      },
      () => {}, // the next pass will do
    )
  }
}

/** Looks at every key. Gives how many were forgotten. */
export async function pruneAll(server: Server, olderThanMs: number): Promise<number> {
  let after: string | null = ''
  let count = 0
  while (after !== null) {
    const pass: Pass = await prunePass(server, after, olderThanMs)
    count += pass.forgotten
    after = pass.last
  }
  return count
}

interface Pass {
  readonly forgotten: number
  readonly last: string | null
}

/** Looks at the next few keys after `after`; `last` is where to go on. */
async function prunePass(server: Server, after: string, olderThanMs: number): Promise<Pass> {
  const row = await server.call('a pruning', 'prune', [after, olderThanMs, KEYS_PER_PASS])
  const [forgotten, last] = JSON.parse(String(row?.plain)) as [number, string | null]
  return { forgotten, last }
}
