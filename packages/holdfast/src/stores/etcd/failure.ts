// What a failed request means for a caller: a StoreError that says whether anything may have been done, and what to do (G13).
import { HoldfastError, StoreError } from '../../lease/errors.js'

/** What etcd answers, and what it calls for. `none`: it says so before it proposes anything to the cluster. */
const SAID: readonly (readonly [RegExp, 'none' | 'unknown', string])[] = [
  [/requested lease not found/, 'none', 'the etcd lease has run out'],
  [
    /database space exceeded/,
    'none',
    'etcd is out of space (alarm NOSPACE) and refuses writes: compact, defragment, then disarm the alarm, or raise --quota-backend-bytes',
  ],
  [/too many requests/, 'none', 'etcd has more proposals than it can apply: ask less at once'],
  [
    /no leader/,
    'none',
    'the cluster has no leader: fewer than half of its members are up, or an election is under way',
  ],
  [/leader changed/, 'unknown', 'the cluster has elected another leader: ask again'],
  [/request timed out/, 'unknown', 'the cluster did not agree in time: see its leader, its disks and its network'],
  [
    /request is too large|larger than max|too many operations/,
    'none',
    'the request is beyond --max-request-bytes or --max-txn-ops',
  ],
  [
    /corrupt/,
    'none',
    'etcd reports corrupt data (alarm CORRUPT) and refuses: see its documentation on disaster recovery',
  ],
  [/permission denied/, 'none', 'the user lacks rights: its role needs readwrite on the prefix of the store'],
  [
    /authentication failed|user name is empty|user name not found/,
    'none',
    'user name or password are missing or wrong: give `user` and `password`',
  ],
  [/authentication is not enabled/, 'none', 'this etcd has no authentication: leave out `user` and `password`'],
  [/invalid auth token/, 'none', 'the token of the session is no longer valid'],
  [/learner/, 'none', 'this member is a learner, which answers no such request: name the voting members as endpoints'],
  [/required revision has been compacted/, 'none', 'etcd no longer has that revision'],
]

/** What does not pass by itself: a login that is refused or missing, rights that are, a request beyond the server's settings. */
const LASTING =
  /permission denied|authentication failed|user name is empty|user name not found|authentication is not enabled|request is too large|larger than max|too many operations/

/** Failures of the network that come before a request is sent. */
const NOT_SENT =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|UND_ERR_CONNECT_TIMEOUT|ERR_TLS.*|ERR_SSL.*|CERT_.*|DEPTH_ZERO.*|SELF_SIGNED.*|UNABLE_TO_.*)$/

/** An error that etcd itself answered. */
export function refused(said: string, status: number, what: string): StoreError {
  for (const [pattern, outcome, advice] of SAID) {
    if (pattern.test(said)) return new EtcdError(`etcd refused ${what}: ${advice} (${said})`, said, outcome)
  }
  const outcome = status === 401 || status === 403 || status === 404 ? 'none' : 'unknown'
  return new EtcdError(`etcd failed to answer ${what}: ${said} (HTTP ${status})`, said, outcome)
}

/** An error of the network. */
export function broken(error: unknown, what: string, endpoint: string): HoldfastError {
  if (error instanceof HoldfastError) return error
  const code = codeOf(error)
  const text = code === '' ? messageOf(error) : `${code}: ${messageOf(error)}`
  if (NOT_SENT.test(code) || /bad port|Invalid URL/.test(text)) {
    return new StoreError(`${what} was not sent: no connection to etcd at ${endpoint} (${text})`, {
      outcome: 'none',
      cause: error,
    })
  }
  return new StoreError(`the connection to etcd at ${endpoint} broke during ${what} (${text})`, {
    outcome: 'unknown',
    cause: error,
  })
}

/** What etcd said, word by word. */
export class EtcdError extends StoreError {
  readonly said: string

  constructor(message: string, said: string, outcome: 'none' | 'unknown') {
    super(message, { outcome, lasting: LASTING.test(said) })
    this.said = said
  }
}

export const isLeaseGone = (error: unknown): boolean =>
  error instanceof EtcdError && error.said.includes('requested lease not found')

/** What failed was a step on the way (an etcd lease with nothing on it, a login): of what was asked for nothing was done. */
export function nothingDone(error: unknown): unknown {
  if (!(error instanceof StoreError) || error.outcome === 'none') return error
  return new StoreError(error.message, { outcome: 'none', lasting: error.lasting, cause: error })
}

/** Something was done before this failed: so nobody can say that nothing was. */
export function inDoubt(error: unknown): unknown {
  if (!(error instanceof StoreError) || error.outcome === 'unknown') return error
  return new StoreError(error.message, { outcome: 'unknown', lasting: error.lasting, cause: error })
}

function codeOf(error: unknown): string {
  for (let cause: unknown = error, depth = 0; typeof cause === 'object' && cause !== null && depth < 4; depth++) {
    const { code, errors } = cause as { code?: unknown; errors?: unknown }
    if (typeof code === 'string') return code
    cause = Array.isArray(errors) ? errors[0] : (cause as { cause?: unknown }).cause
  }
  return ''
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error && error.cause.message !== '' ? error.cause.message : error.message
}
