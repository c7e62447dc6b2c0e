// One call to the store, bounded in time: a store that hangs must not hang its callers, and whatever it throws becomes one
// of the answers that Holdfast knows (G13).
import type { CallOptions } from '../store/contract.js'
import type { Alarms } from './alarms.js'
import { HoldfastError, StoreError } from './errors.js'
import type { Timeline } from './timeline.js'

/** The options that the store is given. The signal is made only for a store that looks at it. */
class Call implements CallOptions {
  readonly timeoutMs: number
  #controller: AbortController | undefined
  #ended: { reason: unknown } | undefined

  constructor(timeoutMs: number) {
    this.timeoutMs = timeoutMs
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#ended !== undefined) this.#controller.abort(this.#ended.reason)
    }
    return this.#controller.signal
  }

  end(reason: unknown): void {
    this.#ended = { reason }
    this.#controller?.abort(reason)
  }
}

export class Caller {
  readonly #alarms: Alarms
  readonly #timeline: Timeline

  constructor(alarms: Alarms, timeline: Timeline) {
    this.#alarms = alarms
    this.#timeline = timeline
  }

  /**
   * Runs one call, for at most `timeoutMs`. Rejects with a StoreError (`unknown` when the time was over), or with the store's
   * own HoldfastError, such as a refused name. `answered` is called when it is certain, in time or late, that the request is no
   * longer on its way; `late` with an answer that came after the time-out, since it is as true as any.
   */
  run<T>(
    what: string,
    timeoutMs: number,
    send: (call: CallOptions) => Promise<T>,
    options: { keepAlive?: boolean; answered?: () => void; late?: (answer: T) => void } = {},
  ): Promise<T> {
    const call = new Call(timeoutMs)
    let over = false
    return new Promise<T>((resolve, reject) => {
      const alarm = this.#alarms.set(
        this.#timeline.now() + timeoutMs,
        () => {
          over = true
          const error = new StoreError(`the store did not answer ${what} within ${Math.round(timeoutMs)} ms`, {
            outcome: 'unknown',
          })
          reject(error)
          call.end(error)
        },
        options.keepAlive ?? true,
      )
      let sent: Promise<T>
      try {
        sent = send(call)
      } catch (error) {
        sent = Promise.reject(error)
      }
      sent.then(
        (answer) => {
          options.answered?.()
          if (over) options.late?.(answer)
          else {
            this.#alarms.cancel(alarm)
            resolve(answer)
          }
        },
        (thrown) => {
          this.#alarms.cancel(alarm)
          const error = asStoreError(what, thrown)
          if (!(error instanceof StoreError) || error.outcome === 'none') options.answered?.()
          reject(error)
        },
      )
    })
  }
}

/** What a store throws that is not of the family tells nothing about what became of the command. */
function asStoreError(what: string, thrown: unknown): HoldfastError {
  if (thrown instanceof HoldfastError) return thrown
  const text = thrown instanceof Error ? thrown.message : String(thrown)
  return new StoreError(`the store failed to answer ${what}: ${text}`, { outcome: 'unknown', cause: thrown })
}
