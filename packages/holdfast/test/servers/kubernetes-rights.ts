// Who may do what at the stand-in: bearer tokens, verbs, names. RBAC as far as Leases need it.
import { Refusal } from './kubernetes-lease.js'

export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete'
export const ALL_VERBS: readonly Verb[] = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete']

export interface Account {
  readonly user: string
  readonly verbs: readonly Verb[]
  /** Only Leases of these names. Default: all. */
  readonly resourceNames?: readonly string[]
}

/** What is to be done. `name` is that of the URL, or of a field selector. */
export interface Attributes {
  readonly verb: Verb
  readonly namespace: string
  readonly name: string | undefined
}

/** Accounts by their tokens. A server remembers a token that is gone for a while. */
export class Accounts extends Map<string, Account> {
  /** A service account is deleted: its token is good for so long yet. */
  forget(token: string, cachedMs = 10_000): void {
    setTimeout(() => this.delete(token), cachedMs).unref()
  }

  /** Throws 401 for a token that nobody has; no token at all is anonymous. */
  of(header: string | undefined): Account {
    const token = /^Bearer (.+)$/.exec(header ?? '')?.[1]
    if (token === undefined) return { user: 'system:anonymous', verbs: [] }
    const account = this.get(token)
    if (account === undefined) throw new Refusal(401, 'Unauthorized', 'Unauthorized')
    return account
  }
}

export function may({ verbs, resourceNames }: Account, { verb, name }: Attributes): boolean {
  return verbs.includes(verb) && (resourceNames === undefined || (name !== undefined && resourceNames.includes(name)))
}

/** Throws 403, also for what is missing. */
export function authorize(account: Account, what: Attributes): void {
  if (may(account, what)) return
  const { verb, namespace, name } = what
  throw new Refusal(
    403,
    'Forbidden',
    `leases.coordination.k8s.io${name === undefined ? '' : ` "${name}"`} is forbidden: User "${account.user}" cannot ${verb} resource "leases" in API group "coordination.k8s.io" in the namespace "${namespace}"`,
    { group: 'coordination.k8s.io', kind: 'leases', ...(name === undefined ? {} : { name }) },
  )
}
