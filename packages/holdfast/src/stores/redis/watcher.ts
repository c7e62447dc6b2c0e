// One who waits for hints: those that come while it is busy count as one.

export class Watcher implements AsyncIterableIterator<void> {
  readonly claim: string
  readonly #signal: AbortSignal
  readonly #left: () => void
  #hinted = false
  #ended: boolean
  #error: unknown
  #next: { resolve(result: IteratorResult<void>): void; reject(error: unknown): void } | undefined

  constructor(claim: string, signal: AbortSignal, left: () => void) {
    this.claim = claim
    this.#signal = signal
    this.#left = left
    this.#ended = signal.aborted
    if (!this.#ended) signal.addEventListener('abort', this.end, { once: true })
  }

  hint(): void {
    if (this.#ended) return
    const next = this.#take()
    if (next === undefined) this.#hinted = true
    else next.resolve({ done: false, value: undefined })
  }

  readonly end = (): void => {
    if (this.#ended) return
    this.#ended = true
    this.#signal.removeEventListener('abort', this.end)
    this.#left()
    this.#take()?.resolve({ done: true, value: undefined })
  }

  /** Ends the watch with an error, once. */
  fail(error: unknown): void {
    if (this.#ended) return
    const next = this.#take()
    this.end()
    if (next === undefined) this.#error = error
    else next.reject(error)
  }

  #take() {
    const next = this.#next
    this.#next = undefined
    return next
  }

  async next(): Promise<IteratorResult<void>> {
    if (this.#error !== undefined) {
      const error = this.#error
      this.#error = undefined
      throw error
    }
    if (this.#ended) return { done: true, value: undefined }
    if (this.#hinted) {
      this.#hinted = false
      return { done: false, value: undefined }
    }
    return new Promise((resolve, reject) => {
      this.#next = { resolve, reject }
    })
  }

  async return(): Promise<IteratorResult<void>> {
    this.end()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
