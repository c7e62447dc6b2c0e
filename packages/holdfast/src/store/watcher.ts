// One who waits for hints: those that come while it is busy count as one, and what the last of them told stays told.

type Told<What> = IteratorResult<What | undefined, undefined>

/** `What`: what comes with a hint, if anything does. */
export class Watcher<What = undefined> implements AsyncIterableIterator<What | undefined> {
  readonly claim: string
  readonly #signal: AbortSignal
  readonly #left: () => void
  #hinted = false
  #turn: What | undefined
  #ended: boolean
  #error: unknown
  #next: { resolve(result: Told<What>): void; reject(error: unknown): void } | undefined

  constructor(claim: string, signal: AbortSignal, left: () => void) {
    this.claim = claim
    this.#signal = signal
    this.#left = left
    this.#ended = signal.aborted
    if (!this.#ended) signal.addEventListener('abort', this.end, { once: true })
  }

  hint(turn?: What): void {
    if (this.#ended) return
    const next = this.#take()
    if (next !== undefined) {
      next.resolve({ done: false, value: turn })
      return
    }
    this.#hinted = true
    this.#turn = turn ?? this.#turn
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

  next(): Promise<Told<What>> {
    if (this.#error !== undefined) {
      const error = this.#error
      this.#error = undefined
      return Promise.reject(error)
    }
    if (this.#ended) return Promise.resolve({ done: true, value: undefined })
    if (this.#hinted) {
      const turn = this.#turn
      this.#hinted = false
      this.#turn = undefined
      return Promise.resolve({ done: false, value: turn })
    }
    return new Promise((resolve, reject) => {
      this.#next = { resolve, reject }
    })
  }

  async return(): Promise<Told<What>> {
    this.end()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}
