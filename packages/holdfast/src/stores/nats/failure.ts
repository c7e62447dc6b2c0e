// What the client throws, told apart: was the command certainly not carried out, or can nobody say?
import { StoreError } from '../../lease/errors.js'

/** Errors of the client, by name, that are thrown before anything was sent, or by a server that did nothing. */
const NOT_DONE = new Set([
  'NoResponders',
  'InvalidArgumentError',
  'InvalidOperationError',
  'InvalidSubjectError',
  'PermissionViolationError',
  'AuthorizationError',
  'UserAuthenticationExpiredError',
  'ClosedConnectionError',
  'DrainingConnectionError',
  // JetStream has looked at the command and refused it.
  'JetStreamApiError',
  'JetStreamNotEnabled',
])

/** Of those, what does not pass until somebody changes something: a wait ends with it. */
const LASTING = new Set(['PermissionViolationError', 'AuthorizationError', 'ClosedConnectionError'])

/** The sequence of the subject is another by now: codes of the server. */
const CONFLICTS = new Set([10_071, 10_164])

const NOBODY_ANSWERS = 'nobody answers for JetStream: is it enabled, and has the stream of the bucket a leader?'

const HINTS: Record<string, string> = {
  NoResponders: NOBODY_ANSWERS,
  JetStreamNotEnabled: NOBODY_ANSWERS,
  PermissionViolationError: 'the user needs to publish to $JS.API.> and $KV.BUCKET.>, and to subscribe to _INBOX.>',
  ClosedConnectionError: 'close the store before the connection',
  DrainingConnectionError: 'close the store before the connection',
}

/** Whether somebody else has written the key since it was read. */
export function isConflict(error: unknown): boolean {
  return CONFLICTS.has(Number((error as { code?: unknown } | null)?.code))
}

/** Whether the key is not there. */
export const isNotFound = (error: unknown): boolean => Number((error as { code?: unknown } | null)?.code) === 10_037

export function failure(error: unknown, what: string): StoreError {
  if (error instanceof StoreError) return error
  const { name, message, cause } =
    error instanceof Error ? error : { name: '', message: String(error), cause: undefined }
  const inner = cause instanceof Error ? cause.name : ''
  const outcome = NOT_DONE.has(name) || (name === 'RequestError' && NOT_DONE.has(inner)) ? 'none' : 'unknown'
  const hint = HINTS[name] ?? HINTS[inner]
  const text = hint === undefined ? message : `${message} (${hint})`
  const lasting = outcome === 'none' && (LASTING.has(name) || LASTING.has(inner))
  return new StoreError(`${what} in NATS failed: ${text}`, { outcome, lasting, cause: error })
}
