// Forgetting keys that nobody uses any more, a few rows at a time. The biggest token that was forgotten is kept, and a key without a
// row starts above it: so tokens go on rising (G2), also when the server's clock was set back meanwhile.
import type { CallOptions } from '../../store/contract.js'
import { CALL_MS } from './lane.js'
import type { Server } from './server.js'

/** After this many acquires of this process as many keys are looked at, so that pruning keeps up with new keys. */
const KEYS_PER_PASS = 500

const START: Uint8Array = new Uint8Array()

/** Pruning as it goes on by itself. */
export class Pruning {
  readonly #server: Server
  readonly #retentionMs: number
  #after = START
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
        this.#after = last ?? START
      },
      () => {}, // the next pass will do
    )
  }
}

/** Looks at every key. Gives how many were forgotten. */
export async function pruneAll(server: Server, olderThanMs: number, call?: CallOptions): Promise<number> {
  let after: Uint8Array | undefined = START
  let count = 0
  while (after !== undefined) {
    const pass: Pass = await prunePass(server, after, olderThanMs, call)
    count += pass.forgotten
    after = pass.last
  }
  return count
}

interface Pass {
  readonly forgotten: number
  readonly last: Uint8Array | undefined
}

/** Looks at the next few keys after `after`; `last` is where to go on. */
async function prunePass(server: Server, after: Uint8Array, olderThanMs: number, call?: CallOptions): Promise<Pass> {
  const options = { what: 'a pruning', timeoutMs: call?.timeoutMs ?? CALL_MS }
  const [rows = []] = await server.call('prune', [after, KEYS_PER_PASS, olderThanMs], options)
  const { forgotten = 0, last_key: last } = rows[0] ?? {}
  return { forgotten: Number(forgotten), last: last instanceof Uint8Array ? last : undefined }
}
