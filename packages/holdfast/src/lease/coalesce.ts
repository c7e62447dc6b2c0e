// What callers can safely share is a result, never a lock: one run under the lease serves everybody who asked before it
// started. Who asks later gets the next run, since this one may have read what has changed since.
import type { AbortHub } from './abort-hub.js'

/** A run that has not started yet, and who will share it. */
interface Gathering {
  readonly result: Promise<unknown>
  readonly controller: AbortController
  callers: number
}

/** Starts the run: `begin` is called when it may no longer be joined, `signal` aborts when nobody wants it any more. */
export type Run<T> = (signal: AbortSignal, begin: () => void) => Promise<T>

export class Coalescer {
  readonly #aborts: AbortHub
  readonly #gathering = new Map<string, Gathering>()

  constructor(aborts: AbortHub) {
    this.#aborts = aborts
  }

  /** The result of a run that starts after this call. A caller's own signal ends only its own wait; the last one's ends the run. */
  join<T>(key: string, signal: AbortSignal | undefined, run: Run<T>): Promise<T> {
    if (signal?.aborted === true) return Promise.reject(signal.reason)
    const shared = this.#gathering.get(key) ?? this.#gather(key, run)
    shared.callers++
    return new Promise<T>((resolve, reject) => {
      const leave = () => {
        reject(signal?.reason)
        shared.callers--
        if (shared.callers > 0) return
        // Nobody wants it: who asks from now on starts afresh.
        if (this.#gathering.get(key) === shared) this.#gathering.delete(key)
        shared.controller.abort(signal?.reason)
      }
      const stop = signal === undefined ? undefined : this.#aborts.on(signal, leave)
      shared.result.then(
        (value) => {
          stop?.()
          resolve(value as T)
        },
        (error) => {
          stop?.()
          reject(error)
        },
      )
    })
  }

  #gather(key: string, run: Run<unknown>): Gathering {
    const controller = new AbortController()
    const close = () => {
      if (this.#gathering.get(key) === shared) this.#gathering.delete(key)
    }
    const shared: Gathering = {
      // Not in this turn: the run must not begin before its first caller has joined it.
      result: Promise.resolve()
        .then(() => run(controller.signal, close))
        .finally(close),
      controller,
      callers: 0,
    }
    shared.result.catch(() => {}) // each caller hears of it; with no caller left nobody must
    this.#gathering.set(key, shared)
    return shared
  }
}
