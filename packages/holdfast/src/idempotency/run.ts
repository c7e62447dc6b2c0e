// One run: its term is renewed while the work goes on, and its signal aborts when it can no longer be sure to run alone. The
// deadline is counted from the instant at which the answered request was sent, as a lease's is (G5).
import { type Alarm, Alarms } from '../lease/alarms.js'
import { Caller } from '../lease/call.js'
import type { Clock } from '../lease/clock.js'
import { LeaseLostError } from '../lease/errors.js'
import { Timeline } from '../lease/timeline.js'
import type { Records } from './contract.js'
import type { OnceSettings } from './options.js'

/** What the work is told. */
export interface RunInfo {
  readonly key: string
  /** Bigger than that of every run of this key before it. */
  readonly token: number
  /** 1 for the first run. */
  readonly attempt: number
  /** Whether a run before this one may have had its effect. */
  readonly afterUnknown: boolean
  /** Aborts when the run was taken over or cannot be renewed any more, and when the caller's own signal does. */
  readonly signal: AbortSignal
}

/** The timers of one clock: all runs of a process share one timer. */
export interface Time {
  readonly timeline: Timeline
  readonly alarms: Alarms
  readonly caller: Caller
}

const times = new WeakMap<Clock, Time>()

export function timeOf(clock: Clock): Time {
  const known = times.get(clock)
  if (known !== undefined) return known
  const timeline = new Timeline(clock)
  const alarms = new Alarms(clock, timeline, () => {}) // what is set here does not throw
  const time: Time = { timeline, alarms, caller: new Caller(alarms, timeline) }
  times.set(clock, time)
  return time
}

/** A renewal that failed is tried again after so long, and twice that, and so on. */
const RETRY_MS = 50

/** The term of a run. */
export class Term {
  readonly #records: Records
  readonly #settings: OnceSettings<never>
  readonly #run: { readonly key: string; readonly claim: string; readonly token: number }
  readonly #time: Time
  #controller: AbortController | undefined
  #aborted: { readonly reason: unknown } | undefined
  readonly #renewal: Alarm
  readonly #deadline: Alarm
  #retryMs = RETRY_MS
  #over = false

  constructor(
    records: Records,
    settings: OnceSettings<never>,
    run: { readonly key: string; readonly claim: string; readonly token: number },
    sentAtMs: number,
  ) {
    this.#records = records
    this.#settings = settings
    this.#run = run
    this.#time = timeOf(settings.clock)
    const { alarms } = this.#time
    const { ttlMs, marginMs, signal } = settings
    this.#renewal = alarms.set(sentAtMs + ttlMs / 2, () => void this.#renew(), false)
    this.#deadline = alarms.set(sentAtMs + ttlMs - marginMs, () => this.#lost('deadline'), false)
    alarms.startLooking(marginMs / 2)
    signal?.addEventListener('abort', this.#forward)
    if (signal?.aborted) this.#forward()
  }

  /** The signal of the work. Made when it is asked for: a signal costs more than all else that a short run does in this process. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#aborted !== undefined) this.#controller.abort(this.#aborted.reason)
    }
    return this.#controller.signal
  }

  /** Whether the signal has aborted. */
  get interrupted(): boolean {
    return this.#aborted !== undefined
  }

  /** The work has ended: nothing is renewed any more. */
  end(): void {
    this.#stop()
    this.#settings.signal?.removeEventListener('abort', this.#forward)
  }

  /** The work may go on for all that, so its term is renewed as before. */
  readonly #forward = (): void => this.#abort(this.#settings.signal?.reason)

  #abort(reason: unknown): void {
    this.#aborted ??= { reason }
    this.#controller?.abort(reason)
  }

  #lost(reason: 'deadline' | 'taken'): void {
    const { key, token } = this.#run
    this.#stop()
    this.#abort(new LeaseLostError(key, token, reason))
  }

  #stop(): void {
    if (this.#over) return
    this.#over = true
    const { alarms } = this.#time
    alarms.cancel(this.#renewal)
    alarms.cancel(this.#deadline)
    alarms.stopLooking()
  }

  async #renew(): Promise<void> {
    const { timeline, alarms, caller } = this.#time
    const { ttlMs, marginMs, retentionMs, callTimeoutMs } = this.#settings
    const sentAtMs = timeline.now()
    try {
      const answer = await caller.run(
        'a renewal',
        callTimeoutMs,
        (call) => this.#records.extend(this.#run, ttlMs, retentionMs, call),
        { keepAlive: false },
      )
      if (this.#over) return
      if (answer === 'lost') return this.#lost('taken')
      this.#retryMs = RETRY_MS
      alarms.reset(this.#deadline, sentAtMs + ttlMs - marginMs)
      alarms.reset(this.#renewal, sentAtMs + ttlMs / 2)
    } catch {
      if (this.#over) return
      alarms.reset(this.#renewal, timeline.now() + this.#retryMs)
      this.#retryMs = Math.min(2 * this.#retryMs, ttlMs / 8)
    }
  }
}
