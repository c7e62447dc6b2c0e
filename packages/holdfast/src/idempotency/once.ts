// `once`: the work of a key runs once, and every repeat is told how it ended. One step at the store claims the key, one records the
// end; between them the claim is a lease. A run that ended without a record is told as what it is: unknown.
import { HoldfastError, LeaseLostError, type Outcome, StoreError } from '../lease/errors.js'
import { checkFunction } from '../lease/options.js'
import type { BeginRequest, Begun, End, Records, RunId, StoredEnd } from './contract.js'
import { InProgressError, KeyReusedError, NotRecordedError, UnknownOutcomeError } from './errors.js'
import { checkRecords, type OnceOptions, type OnceSettings, settleOnce, type UnknownDecision } from './options.js'
import { type RunInfo, Term, type Time, timeOf } from './run.js'
import { decodeEnd, encodeResult } from './stored.js'
import { notify, pause } from './waiting.js'

/** What `onceResult` gives. */
export interface OnceResult<T> {
  readonly value: T
  /** Whether an earlier run gave it. */
  readonly replayed: boolean
  /** How many runs it took. */
  readonly attempt: number
  readonly token: number
}

/** So often the end of a run is told to the store, at least. */
const FINISH_TRIES_MIN = 3
const FINISH_RETRY_MS = 50

/**
 * Runs `work` once for the key, and gives every repeat within `retentionMs` the same result: also when two ask at the same time,
 * in one process or in several, and when the first has crashed meanwhile, which is told and not guessed.
 *
 * What holds is as good as the records: at most one run of a key at a time by their clock; a run that was taken over cannot record
 * over its successor. An effect elsewhere (a payment, a mail) can still happen twice when a run crashes between the effect and its
 * record and the caller chooses to run again: give it the same outward key.
 *
 * Rejects with KeyReusedError (another payload), InProgressError (`waitMs` is over), UnknownOutcomeError (a run ended without a
 * record), RecordedFailureError (a failure that was recorded), NotRecordedError (the work was done, and that could not be
 * recorded), LeaseLostError with the outcome (another took over meanwhile), StoreError, InvalidArgumentError, the work's own
 * error, or the signal's reason.
 *
 * @example
 * ```ts
 * const key = keyOf('tenant-7', 'POST /payments', 'b8c1')
 * const payment = { amount: 100, to: 'shop' }
 * const receipt = await once(records, { key, fingerprint: fingerprintOf(payment) }, ({ key, signal }) =>
 *   charge(payment.amount, { idempotencyKey: key, signal }),
 * )
 * ```
 */
export async function once<T>(
  records: Records,
  options: OnceOptions<T>,
  work: (run: RunInfo) => T | Promise<T>,
): Promise<T> {
  return (await onceResult(records, options, work)).value
}

/**
 * As `once`, and says whether the result is that of an earlier run.
 *
 * @example
 * ```ts
 * const options = { key: 'order-1', fingerprint: fingerprintOf({ amount: 100 }) }
 * const { value, replayed } = await onceResult(records, options, () => charge(100))
 * ```
 */
export async function onceResult<T>(
  records: Records,
  options: OnceOptions<T>,
  work: (run: RunInfo) => T | Promise<T>,
): Promise<OnceResult<T>> {
  checkRecords(records)
  const settings = settleOnce(options)
  checkFunction('work', work)
  const { key, fingerprint, holder, ttlMs, retentionMs, signal, waitMs, onUnknown, random } = settings
  const time = timeOf(settings.clock)
  const startMs = time.timeline.now()
  const request: BeginRequest = {
    key,
    fingerprint,
    claim: random.claim(),
    holder,
    ttlMs,
    retentionMs,
    takeOver: onUnknown !== 'stop',
  }
  for (let asked = 1; ; asked++) {
    signal?.throwIfAborted()
    const sentAtMs = time.timeline.now()
    const begun = await begin(records, settings, request, time)
    if (begun.is === 'run') return await new OneRun(records, settings, request, begun, sentAtMs).through(work)
    if (begun.is === 'done') {
      const { end, token, attempt } = begun
      return { value: decodeEnd(end, settings), replayed: true, attempt, token }
    }
    if (begun.is === 'reused') throw new KeyReusedError(key, begun.state)
    if (begun.is === 'unknown') throw new UnknownOutcomeError(key, begun)
    if (begun.is === 'ended') throw new StoreError(`the claim on "${key}" was withdrawn`, { outcome: 'none' })
    const waitedMs = time.timeline.now() - startMs
    if (waitedMs >= waitMs) throw new InProgressError(key, begun, waitMs === 0 ? 0 : waitedMs)
    await pause(records, settings, Math.min(begun.remainingMs, waitMs - waitedMs), asked)
  }
}

/** A lost reply is asked for once more, by the same claim; then the claim is withdrawn, since it may hold the key for nobody. */
async function begin<T>(
  records: Records,
  { callTimeoutMs }: OnceSettings<T>,
  request: BeginRequest,
  { caller }: Time,
): Promise<Begun> {
  const ask = () => caller.run('a claim', callTimeoutMs, (call) => records.begin(request, call))
  try {
    return await ask()
  } catch (error) {
    if (!isUnknown(error)) throw error
  }
  try {
    return await ask()
  } catch (error) {
    caller
      .run('a withdrawal', callTimeoutMs, (call) => records.withdraw(request, call), { keepAlive: false })
      .catch(() => {})
    if (!(error instanceof StoreError) || error.outcome === 'unknown') throw error
    // That the second certainly did nothing says nothing of the first (G13).
    throw new StoreError(`${error.message}; the same claim, sent before, may have been recorded`, {
      outcome: 'unknown',
      lasting: error.lasting,
      cause: error,
    })
  }
}

const isUnknown = (error: unknown) => error instanceof StoreError && error.outcome === 'unknown'

/** A run, from its claim to its record. */
class OneRun<T> {
  readonly #records: Records
  readonly #settings: OnceSettings<T>
  readonly #id: RunId
  readonly #begun: Begun & { is: 'run' }
  readonly #term: Term

  constructor(records: Records, settings: OnceSettings<T>, id: RunId, begun: Begun & { is: 'run' }, sentAtMs: number) {
    this.#records = records
    this.#settings = settings
    this.#id = id
    this.#begun = begun
    const run = { key: id.key, claim: id.claim, token: begun.token }
    this.#term = new Term(records, settings as OnceSettings<never>, run, sentAtMs)
  }

  async through(work: (run: RunInfo) => T | Promise<T>): Promise<OnceResult<T>> {
    try {
      const value = await this.#value(work)
      return { value, replayed: false, attempt: this.#begun.attempt, token: this.#begun.token }
    } finally {
      this.#term.end()
      notify(this.#records, this.#settings.key)
    }
  }

  async #value(work: (run: RunInfo) => T | Promise<T>): Promise<T> {
    const { key, onUnknown } = this.#settings
    const { token, attempt, afterUnknown } = this.#begun
    if (this.#settings.signal?.aborted) {
      await this.#finish({ is: 'forgotten' }).catch(() => {}) // nothing has been run
      this.#settings.signal.throwIfAborted()
    }
    const term = this.#term
    const run: RunInfo = {
      key,
      token,
      attempt,
      afterUnknown,
      get signal() {
        return term.signal
      },
    }
    if (afterUnknown && typeof onUnknown === 'function') {
      const decision = await this.#decide(() => onUnknown(run))
      if (decision === 'stop') {
        await this.#leaveUnknown()
        throw new UnknownOutcomeError(key, { holder: '', attempt: attempt - 1, token, forMs: 0 })
      }
      if (decision !== 'run') return await this.#returned(decision.value)
    }
    let value: T
    try {
      value = await work(run)
    } catch (error) {
      return await this.#threw(error)
    }
    return await this.#returned(value)
  }

  async #decide(ask: () => UnknownDecision<T> | Promise<UnknownDecision<T>>): Promise<UnknownDecision<T>> {
    try {
      return await ask()
    } catch (error) {
      await this.#leaveUnknown()
      throw error
    }
  }

  async #returned(value: T): Promise<T> {
    const outcome: Outcome = { is: 'returned', value }
    let end: StoredEnd
    try {
      end = { is: 'returned', text: encodeResult(value, this.#settings) }
    } catch (cause) {
      await this.#leaveUnknown()
      throw new NotRecordedError(this.#settings.key, outcome, cause)
    }
    await this.#record(end, outcome)
    return value
  }

  /** The error of the work is what its caller hears, whatever becomes of the record. */
  async #threw(error: unknown): Promise<never> {
    const { onFailure, failureCodec } = this.#settings
    let end: End
    try {
      const decision = onFailure(error, { interrupted: this.#term.interrupted })
      if (decision === 'record') end = { is: 'threw', text: failureCodec.encode(error) }
      else end = { is: decision === 'forget' ? 'forgotten' : 'unknown' }
    } catch (cause) {
      await this.#leaveUnknown()
      throw new NotRecordedError(this.#settings.key, { is: 'threw', error }, cause)
    }
    await this.#record(end, { is: 'threw', error })
    throw error
  }

  async #leaveUnknown(): Promise<void> {
    await this.#finish({ is: 'unknown' }).catch(() => {}) // then it is unknown when the term is over
  }

  async #record(end: End, outcome: Outcome): Promise<void> {
    const { key } = this.#settings
    let answer: 'recorded' | 'lost'
    try {
      answer = await this.#finish(end)
    } catch (cause) {
      if (end.is === 'forgotten' || end.is === 'unknown') return
      throw new NotRecordedError(key, outcome, cause)
    }
    if (answer === 'recorded') return
    const lost = new LeaseLostError(key, this.#begun.token, 'taken')
    lost.outcome = outcome
    throw lost
  }

  /**
   * Tried for as long as a ttl: the effect has happened, and should not be forgotten for one lost packet; meanwhile the run is
   * renewed. What is no result is not worth that wait to whoever is to hear of a failure.
   */
  async #finish(end: End): Promise<'recorded' | 'lost'> {
    const { callTimeoutMs, retentionMs, clock, ttlMs } = this.#settings
    const { caller, timeline } = timeOf(clock)
    const giveUpMs = 'text' in end ? timeline.now() + ttlMs : 0
    for (let tries = 1, retryMs = FINISH_RETRY_MS; ; tries++, retryMs *= 2) {
      try {
        return await caller.run('a record', callTimeoutMs, (call) =>
          this.#records.finish(this.#id, end, retentionMs, call),
        )
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error
        if (tries >= FINISH_TRIES_MIN && timeline.now() + retryMs >= giveUpMs) throw error
        await new Promise<void>((resolve) => clock.setTimer(retryMs, resolve))
      }
    }
  }
}
