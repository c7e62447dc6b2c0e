// Hints for one who waits: when a write has left the key free, and when a holder has given no sign of life for its ttl, which
// nobody writes and so nobody is told.
import type { Clock, Timer } from '../../lease/clock.js'

/** What a look comes to. */
export interface Judged {
  readonly mayBeFree: boolean
  /** What is left of the holder's term, as far as this process has seen, in ms. */
  readonly leftMs: number
}

export interface WatchParts<Read> {
  readonly clock: Clock
  /** Ends it. */
  readonly signal: AbortSignal
  /** What stands there when the watch is in place, and after each write; undefined when that has to be read. */
  seen(signal: AbortSignal): AsyncIterable<Read | null | undefined> | Iterable<never>
  read(): Promise<Read | null>
  judge(read: Read | null): Judged
}

export class Watch<Read> {
  readonly #parts: WatchParts<Read>
  readonly #ending = new AbortController()
  #pending = false
  #failed: { error: unknown } | undefined
  #wake: (() => void) | undefined
  #timer: Timer | undefined

  constructor(parts: WatchParts<Read>) {
    this.#parts = parts
  }

  /** Ends with the signal; throws what the engine's watch failed with. Hints that come while nobody listens count as one. */
  async *hints(): AsyncGenerator<void> {
    const { signal } = this.#parts
    if (signal.aborted) return
    const end = () => {
      this.#ending.abort()
      this.#wake?.()
    }
    signal.addEventListener('abort', end)
    void this.#listen()
    try {
      while (!signal.aborted) {
        if (this.#failed !== undefined) throw this.#failed.error
        if (this.#pending) {
          this.#pending = false
          yield
          continue
        }
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    } finally {
      signal.removeEventListener('abort', end)
      this.#ending.abort()
      this.#timer?.cancel()
    }
  }

  async #listen(): Promise<void> {
    const { seen, read } = this.#parts
    try {
      for await (const one of seen(this.#ending.signal)) this.#look(one === undefined ? await read() : one)
      if (!this.#ending.signal.aborted) throw new Error('the watch has ended by itself')
    } catch (error) {
      if (this.#ending.signal.aborted) return
      this.#failed = { error }
      this.#wake?.()
    }
  }

  #look(read: Read | null): void {
    if (this.#ending.signal.aborted) return
    const { clock, judge } = this.#parts
    this.#timer?.cancel()
    this.#timer = undefined
    const { mayBeFree, leftMs } = judge(read)
    if (!mayBeFree) {
      this.#timer = clock.setTimer(leftMs, () => this.#look(read))
      this.#timer.keepAlive(false)
      return
    }
    this.#pending = true
    this.#wake?.()
  }
}
