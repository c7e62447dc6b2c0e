// One call to the store, bounded in time: a store that hangs must not hang its callers, and whatever it throws becomes one
// of the answers that Holdfast knows (G13).
import type { CallOptions } from '../store/contract.js'
import type { Alarm, Alarms } from './alarms.js'
import { HoldfastError, StoreError } from './errors.js'
import type { Timeline } from './timeline.js'

/**
 * One call: what the store is given as options, the alarm of its time-out, and who is told, in one object, since every verb makes
 * one. The signal is made only for a store that looks at it. Of `onAnswer` and `onError` one is called, once.
 */
export abstract class Call<T> implements CallOptions, Alarm {
  readonly timeoutMs: number
  readonly keepAlive: boolean
  atMs = 0
  place = -1
  readonly #alarms: Alarms
  #controller: AbortController | undefined
  #over: StoreError | undefined

  /** `keepAlive` false: the process may end before the answer. */
  constructor(alarms: Alarms, timeoutMs: number, keepAlive = true) {
    this.#alarms = alarms
    this.timeoutMs = timeoutMs
    this.keepAlive = keepAlive
  }

  /** What is asked for, as messages call it. */
  protected abstract readonly what: string
  /** Asks the store. */
  protected abstract send(): Promise<T>
  /** The answer, in time. */
  protected abstract onAnswer(answer: T): void
  /** A StoreError (`unknown` when the time was over), or the store's own HoldfastError, such as a refused name. */
  protected abstract onError(error: HoldfastError): void
  /** It is certain, in time or late, that the request is no longer on its way. */
  protected onSettled(): void {}
  /** An answer that came after the time-out: it is as true as any. */
  protected onLate(_answer: T): void {}

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#over !== undefined) this.#controller.abort(this.#over)
    }
    return this.#controller.signal
  }

  /** Asks. Its time counts from `nowMs`. */
  start(nowMs: number): void {
    this.#alarms.reset(this, nowMs + this.timeoutMs)
    try {
      this.send().then(
        (answer) => this.#answered(answer),
        (thrown) => this.#failed(thrown),
      )
    } catch (thrown) {
      this.#failed(thrown)
    }
  }

  /** The time is over. */
  fire(): void {
    const what = `the store did not answer ${this.what} within ${Math.round(this.timeoutMs)} ms`
    this.#over = new StoreError(what, { outcome: 'unknown' })
    this.onError(this.#over)
    this.#controller?.abort(this.#over)
  }

  #answered(answer: T): void {
    this.onSettled()
    if (this.#over === undefined) {
      this.#alarms.cancel(this)
      this.onAnswer(answer)
    } else this.onLate(answer)
  }

  #failed(thrown: unknown): void {
    this.#alarms.cancel(this)
    const error = asStoreError(this.what, thrown)
    if (!(error instanceof StoreError) || error.outcome === 'none') this.onSettled()
    if (this.#over === undefined) this.onError(error)
  }
}

/** Who else is told of a call that gives a promise. */
export interface RunOptions<T> {
  /** `false`: the process may end before the answer. */
  readonly keepAlive?: boolean
  /** It is certain, in time or late, that the request is no longer on its way. */
  answered?(): void
  /** An answer that came after the time-out: it is as true as any. */
  late?(answer: T): void
}

class PromisedCall<T> extends Call<T> {
  protected readonly what: string
  readonly #send: (call: CallOptions) => Promise<T>
  readonly #options: RunOptions<T>
  #resolve: (answer: T) => void = () => {}
  #reject: (error: unknown) => void = () => {}

  constructor(
    alarms: Alarms,
    what: string,
    timeoutMs: number,
    send: (call: CallOptions) => Promise<T>,
    options: RunOptions<T>,
  ) {
    super(alarms, timeoutMs, options.keepAlive)
    this.what = what
    this.#send = send
    this.#options = options
  }

  run(nowMs: number): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      this.start(nowMs)
    })
  }

  protected send(): Promise<T> {
    return this.#send(this)
  }

  protected onAnswer(answer: T): void {
    this.#resolve(answer)
  }

  protected onError(error: HoldfastError): void {
    this.#reject(error)
  }

  protected override onSettled(): void {
    this.#options.answered?.()
  }

  protected override onLate(answer: T): void {
    this.#options.late?.(answer)
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
   * own HoldfastError, such as a refused name.
   */
  run<T>(
    what: string,
    timeoutMs: number,
    send: (call: CallOptions) => Promise<T>,
    options: RunOptions<T> = NOTHING,
  ): Promise<T> {
    return new PromisedCall(this.#alarms, what, timeoutMs, send, options).run(this.#timeline.now())
  }
}

const NOTHING = {}

/** What a store throws that is not of the family tells nothing about what became of the command. */
function asStoreError(what: string, thrown: unknown): HoldfastError {
  if (thrown instanceof HoldfastError) return thrown
  const text = thrown instanceof Error ? thrown.message : String(thrown)
  return new StoreError(`the store failed to answer ${what}: ${text}`, { outcome: 'unknown', cause: thrown })
}
