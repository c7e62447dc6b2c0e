// An engine in memory that has versions and no clock, for the tests and the simulation of observed expiry: records are written
// only over the version that was read, and a grant's token is the number of its write.
import type { ObservedRecord, Versioned, VersionedRecords, WriteKind } from '../store/observed/records.js'

/** The engine's data, which several handles share. */
export class VersionedRegister {
  readonly #records = new Map<string, Versioned>()
  readonly #watchers = new Map<string, Set<() => void>>()
  #writes = 0

  read(key: string): Versioned | null {
    return this.#records.get(key) ?? null
  }

  write(key: string, record: ObservedRecord, over: Versioned | null, kind: WriteKind): Versioned | undefined {
    if (this.#records.get(key)?.version !== over?.version) return undefined
    const number = ++this.#writes
    const token = kind === 'grant' ? number : record.token
    const written = {
      record: { ...record, token },
      version: String(number),
      beat: `${record.claim} ${record.beats}`,
    }
    this.#records.set(key, written)
    for (const wake of this.#watchers.get(key) ?? []) wake()
    return written
  }

  keys(): string[] {
    return [...this.#records.keys()]
  }

  /** Calls `wake` after each write of the key, until what it gives is called. */
  onWrite(key: string, wake: () => void): () => void {
    const watchers = this.#watchers.get(key) ?? new Set()
    this.#watchers.set(key, watchers.add(wake))
    return () => watchers.delete(wake)
  }

  /** A handle on the data. */
  connect(): VersionedRecords {
    return {
      read: async (key) => this.read(key),
      write: async (key, record, over, kind) => this.write(key, record, over, kind),
      list: async function* (this: VersionedRegister, prefix: string) {
        for (const key of this.keys()) {
          const read = this.read(key)
          if (key.startsWith(prefix) && read !== null) yield { key, read }
        }
      }.bind(this),
      watch: (key, signal) => this.#watch(key, signal),
      close: async () => {},
    }
  }

  async *#watch(key: string, signal: AbortSignal): AsyncGenerator<Versioned | null> {
    let pending = true
    let stir: (() => void) | undefined
    const wake = () => {
      pending = true
      stir?.()
    }
    const off = this.onWrite(key, wake)
    const end = () => stir?.()
    signal.addEventListener('abort', end)
    try {
      while (!signal.aborted) {
        if (pending) {
          pending = false
          yield this.read(key)
          continue
        }
        await new Promise<void>((resolve) => {
          stir = resolve
        })
      }
    } finally {
      signal.removeEventListener('abort', end)
      off()
    }
  }
}
