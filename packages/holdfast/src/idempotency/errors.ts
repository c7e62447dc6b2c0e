// How `once` says no. They belong to the one family of lease/errors.ts, which knows their codes.
import { HoldfastError, type Outcome, registerError } from '../lease/errors.js'

/**
 * The key was used before for a request with another fingerprint: it is running, its outcome is unknown, or it is done. Nothing
 * was run, and nothing of the other request is told.
 */
export class KeyReusedError extends HoldfastError {
  readonly key: string
  readonly state: 'running' | 'unknown' | 'done'

  constructor(key: string, state: 'running' | 'unknown' | 'done') {
    super('KEY_REUSED', `"${key}" was used for a request with another payload: give each request a key of its own`)
    this.key = key
    this.state = state
  }
}

/** The same request is running elsewhere, and `waitMs` is over. `remainingMs` is an upper bound of the runner's term. */
export class InProgressError extends HoldfastError {
  readonly key: string
  readonly holder: string
  readonly remainingMs: number
  readonly waitedMs: number

  constructor(key: string, running: { holder: string; remainingMs: number }, waitedMs: number) {
    const waited = waitedMs > 0 ? ` after ${Math.round(waitedMs)} ms of waiting` : ''
    super(
      'IN_PROGRESS',
      `"${key}" is being worked on by ${running.holder}${waited}; ask again, at the latest in ${Math.round(running.remainingMs)} ms`,
    )
    this.key = key
    this.holder = running.holder
    this.remainingMs = running.remainingMs
    this.waitedMs = waitedMs
  }
}

/**
 * A run of this key ended without a record, `forMs` ago: its process crashed, froze, or could not reach the store. Whether the
 * effect happened is for a person to find out, or for `onUnknown`.
 */
export class UnknownOutcomeError extends HoldfastError {
  readonly key: string
  readonly holder: string
  readonly attempt: number
  readonly token: number
  readonly forMs: number

  constructor(key: string, run: { holder: string; attempt: number; token: number; forMs: number }) {
    super(
      'UNKNOWN_OUTCOME',
      `run ${run.attempt} of "${key}"${run.holder === '' ? '' : `, by ${run.holder},`} ended without a record: find out whether its effect happened, then call again with onUnknown: 'run', or with onUnknown: () => ({ value })`,
    )
    this.key = key
    this.holder = run.holder
    this.attempt = run.attempt
    this.token = run.token
    this.forMs = run.forMs
  }
}

/** What the default codec keeps of an error. */
export interface Failure {
  readonly name: string
  readonly message: string
  readonly code?: string | number
}

/** An earlier run of this key failed, and its failure was recorded. `failure` is what was kept of it. */
export class RecordedFailureError extends HoldfastError {
  readonly failure: Failure

  constructor(failure: Failure) {
    super('RECORDED_FAILURE', `an earlier run of this request failed: ${failure.name}: ${failure.message}`)
    this.failure = failure
  }
}

/**
 * The work ended, but its end could not be recorded: the codec cannot carry the result, it is too large, or the store did not
 * answer. `outcome` has what the work returned or threw; repeats are told that it is unknown.
 */
export class NotRecordedError extends HoldfastError {
  readonly key: string
  readonly outcome: Outcome

  constructor(key: string, outcome: Outcome, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause)
    super('NOT_RECORDED', `the work of "${key}" was done, but its outcome could not be recorded: ${why}`, { cause })
    this.key = key
    this.outcome = outcome
  }
}

registerError(KeyReusedError, 'KEY_REUSED')
registerError(InProgressError, 'IN_PROGRESS')
registerError(UnknownOutcomeError, 'UNKNOWN_OUTCOME')
registerError(RecordedFailureError, 'RECORDED_FAILURE')
registerError(NotRecordedError, 'NOT_RECORDED')
