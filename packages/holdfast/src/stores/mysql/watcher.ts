// One who waits for hints about a key. Hints that come while it is busy count as one.

export class Watcher implements AsyncIterableIterator<void> {
  readonly key: string
  readonly claim: string
  readonly #signal: AbortSignal
  readonly #left: () => void
  #hinted = false
  #ended: boolean
  #wake: ((result: IteratorResult<void>) => void) | undefined

  constructor(key: string, claim: string, signal: AbortSignal, left: () => void) {
    this.key = key
    this.claim = claim
    this.#signal = signal
    this.#left = left
    this.#ended = signal.aborted
    signal.addEventListener('abort', this.end, { once: true })
  }

  hint(): void {
    if (this.#wake === undefined) this.#hinted = true
    else this.#answer({ done: false, value: undefined })
  }

  readonly end = (): void => {
    if (this.#ended) return
    this.#ended = true
    this.#signal.removeEventListener('abort', this.end)
    this.#left()
    this.#answer({ done: true, value: undefined })
  }

  #answer(result: IteratorResult<void>): void {
    const wake = this.#wake
    this.#wake = undefined
    wake?.(result)
  }

  async next(): Promise<IteratorResult<void>> {
    if (this.#ended) return { done: true, value: undefined }
    if (this.#hinted) {
      this.#hinted = false
      return { done: false, value: undefined }
    }
    return new Promise((resolve) => {
      this.#wake = resolve
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
