// A user's signal gets one listener from each client, however many waiters use it (G9): a program with one shutdown signal
// and a thousand waiters must not see a warning about a leak of listeners.

export class AbortHub {
  readonly #listening = new Map<AbortSignal, Set<() => void>>()

  /** Calls `fn` when the signal aborts. Gives the way to call it off. */
  on(signal: AbortSignal, fn: () => void): () => void {
    let fns = this.#listening.get(signal)
    if (fns === undefined) {
      fns = new Set()
      this.#listening.set(signal, fns)
      signal.addEventListener('abort', this.#onAbort, { once: true })
    }
    fns.add(fn)
    return () => this.#off(signal, fns, fn)
  }

  /** Takes `fn` from the very set that it is in: while an abort is told, that is no longer the one of its signal. */
  #off(signal: AbortSignal, fns: Set<() => void>, fn: () => void): void {
    if (!fns.delete(fn) || fns.size > 0 || this.#listening.get(signal) !== fns) return
    this.#listening.delete(signal)
    signal.removeEventListener('abort', this.#onAbort)
  }

  readonly #onAbort = (event: Event): void => {
    const signal = event.target as AbortSignal
    const fns = this.#listening.get(signal)
    this.#listening.delete(signal)
    for (const fn of fns ?? []) fn()
  }
}
