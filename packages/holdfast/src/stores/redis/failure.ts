// What a failed command means for a caller: a StoreError that says whether anything was done, and what to do (G13). A server
// that refuses has done nothing; a connection that broke leaves it open.
import { HoldfastError, StoreError } from '../../lease/errors.js'

/** What the server's error codes call for. All of them mean that the command was not carried out. */
const ADVICE: Record<string, string> = {
  READONLY:
    'this server is a replica, as after a fail-over: connect through Sentinel or as a Cluster, so that the client finds the new primary',
  LOADING: 'the server is still loading its data: try again',
  MASTERDOWN: 'this replica has lost its primary: try again, or connect to the primary',
  CLUSTERDOWN: 'the Cluster has no master for some slots: see CLUSTER INFO',
  MISCONF: 'the server refuses writes, since it cannot save its data: see its log, and its disk',
  OOM: 'the server has reached maxmemory: raise it, or free memory; leases must not be evicted (maxmemory-policy noeviction)',
  NOAUTH: 'the client has not authenticated: give it a user name and a password',
  WRONGPASS: 'user name or password are wrong',
  NOPERM:
    'the user lacks rights: the ACL needs +evalsha +eval +get +set +setrange +del +type +pttl +time +publish +spublish +subscribe +ssubscribe +unsubscribe +sunsubscribe +scan +info +wait, and ~prefix* &prefix*',
  NOSCRIPT: 'the server lost a script and refused its text: allow EVAL',
  BUSY: 'a script of somebody runs for too long: see SCRIPT KILL',
  NOREPLICAS: 'fewer replicas are connected than min-replicas-to-write asks for',
  TRYAGAIN: 'the slot of this key is being moved: try again',
  MOVED:
    'the key is on another node: this client talks to one node of a Cluster; use new Cluster(...) or createCluster(...)',
  ASK: 'the key is being moved to another node: this client talks to one node of a Cluster; use new Cluster(...) or createCluster(...)',
  CROSSSLOT:
    'the keys of a command are in several slots: this client talks to a proxy or to one node of a Cluster; use a Cluster client',
  DENIED: 'the server runs in protected mode: set a password, or bind it to the right addresses',
}

/** What asking again does not help with, until somebody changes a right, a password or a setting. */
const LASTING: ReadonlySet<string> = new Set(['NOAUTH', 'WRONGPASS', 'NOPERM', 'DENIED'])

/** Errors of the clients that come before anything is sent. */
const NOT_SENT: readonly (readonly [RegExp, string])[] = [
  [
    /(subscriber|monitoring) mode|in this context/i,
    'this client is in subscriber or monitoring mode: give the store another one, client.duplicate()',
  ],
  [
    /The client is (closed|offline)|ClientClosedError|ClientOfflineError/,
    'the client is not connected: await client.connect() first',
  ],
  [/enableOfflineQueue/, 'the client is not connected, and keeps no queue: wait until it is ready'],
  [/The queue is full/, 'the client has too many commands waiting: raise commandsQueueMaxLength, or do less at once'],
]

/** The error code with which a server's answer begins, if it is one. */
export function codeOf(error: unknown): string | undefined {
  const said = messageOf(error)
  if (isForbiddenInScript(said)) return 'NOPERM'
  const wrapped = /^ERR (?:Error running script|user_script:).*?: -?([A-Z][A-Z0-9]{2,}) /.exec(said) // thrown on by a script
  return (wrapped ?? /^-?([A-Z][A-Z0-9]{2,}) /.exec(said))?.[1]
}

/** Where ioredis followed one redirection after the other and gave up: what it was answered last. */
const lastRedirection = (said: string) => /^Too many Cluster redirections.*: -?([A-Z]{2,}) /.exec(said)?.[1]

/**
 * Where a node of a Cluster sends a command: the slot is there for good (MOVED), or this key is, while its slot is on the move
 * (ASK).
 */
export function redirectionOf(error: unknown): { readonly asks: boolean; readonly address: string } | undefined {
  const [, kind, address] = /^(MOVED|ASK) \d+ (\S+)/.exec(messageOf(error)) ?? []
  return address === undefined ? undefined : { asks: kind === 'ASK', address }
}

/** The keys of one slot are on two nodes, while it is moved: a command on several of them is refused, one on each is not. */
export function isMoving(error: unknown): boolean {
  const said = messageOf(error instanceof StoreError ? error.cause : error)
  return said.startsWith('TRYAGAIN') || lastRedirection(said) !== undefined
}

/** A right that is missed only in the middle of a script. */
const isForbiddenInScript = (said: string) => /^ERR (.*: ERR )?The user executing the script/.test(said)

export const isNoScript = (error: unknown): boolean => messageOf(error).startsWith('NOSCRIPT')

/** A refusal for want of rights does not pass by itself. */
export const isForbidden = (error: unknown): boolean => ['NOPERM', 'NOAUTH', 'WRONGPASS'].includes(codeOf(error) ?? '')

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** The error as a caller gets it. Of several operations that shared a command some may have been done before it failed. */
export function failure(error: unknown, what: string, operations = 1): HoldfastError {
  if (error instanceof HoldfastError) return error
  const said = messageOf(error)
  for (const [pattern, advice] of NOT_SENT) {
    const { name = '' } = error as { name?: string }
    if (pattern.test(said) || pattern.test(name) || pattern.test((error as object)?.constructor?.name ?? '')) {
      return new StoreError(`${what} was not sent: ${advice} (${said})`, { outcome: 'none', cause: error })
    }
  }
  const code = codeOf(error)
  const advice = code === undefined ? undefined : ADVICE[code]
  if (advice !== undefined) {
    const outcome = operations > 1 && isForbiddenInScript(said) ? 'unknown' : 'none'
    // A right may be missing for one key of those that shared the command: the others are asked for again.
    const lasting = LASTING.has(code as string) && (operations === 1 || code !== 'NOPERM')
    return new StoreError(`Redis refused ${what}: ${advice} (${said})`, { outcome, lasting, cause: error })
  }
  const redirected = ADVICE[lastRedirection(said) ?? '']
  if (redirected !== undefined) {
    return new StoreError(`Redis sent ${what} back and forth: ${redirected} (${said})`, {
      outcome: 'unknown',
      cause: error,
    })
  }
  const answered = code !== undefined
  const refused = answered && operations === 1
  const how = answered
    ? `Redis broke off ${what}; whether a part of it was applied is unknown (${said})`
    : `Redis did not answer ${what}; whether it was applied is unknown (${said})`
  return new StoreError(refused ? `Redis refused ${what}: ${said}` : how, {
    outcome: refused ? 'none' : 'unknown',
    cause: error,
  })
}
