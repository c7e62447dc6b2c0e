// What the API server or the client answers, told apart: was the command certainly not carried out, or can nobody say; and what to do.
import { StoreError } from '../../lease/errors.js'
import { kubernetesRole } from './role.js'

/** What was asked of the server. */
export interface Asked {
  readonly verb: 'get' | 'create' | 'update' | 'list' | 'watch'
  readonly namespace: string
  readonly name?: string
}

/** Credentials, rights, a namespace or a Lease that the server will not take next time either. */
const LASTING = new Set([400, 401, 403, 404, 413, 422])

interface Refusal {
  readonly code: number
  readonly reason: string
  readonly message: string
  readonly causes: readonly string[]
  readonly kind: string
  readonly retryAfterMs: number | undefined
}

/** What forbids what the account has the right to. */
const OTHER_RULES = /exceeded quota|admission (webhook|policy)|ValidatingAdmissionPolicy/i

/** These say that no connection was made, or that what is there was not believed. */
const NOT_SENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_HAS_EXPIRED',
  'ERR_TLS_CERT_ALTNAME_INVALID',
])

/** What the server said, where `error` is an answer of the server: `code` (a watch's: `statusCode`) and `body`, which may be JSON text. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  const { statusCode, body, headers, ...said } = error as Partial<Record<'code' | 'statusCode' | 'body', unknown>> & {
    headers?: Record<string, unknown>
  }
  const code = said.code ?? statusCode
  if (typeof code !== 'number' || code < 300) return undefined
  let status: unknown = body
  if (typeof body === 'string') {
    try {
      status = JSON.parse(body)
    } catch {
      status = { message: body.slice(0, 500) }
    }
  }
  const { reason, message, details } = (status ?? {}) as {
    reason?: string
    message?: string
    details?: { kind?: string; retryAfterSeconds?: number; causes?: { reason?: string }[] }
  }
  const after = Number(headers?.['retry-after'] ?? details?.retryAfterSeconds ?? Number.NaN)
  return {
    code,
    reason: reason ?? '',
    message: message ?? (error instanceof Error && body === undefined ? error.message : ''),
    causes: (details?.causes ?? []).map((cause) => cause.reason ?? ''),
    kind: details?.kind ?? '',
    retryAfterMs: Number.isFinite(after) && after >= 0 ? after * 1_000 : undefined,
  }
}

/** Whether somebody else has written or created it since it was read, or it is another object by now. */
export const isConflict = (error: unknown): boolean => refusalOf(error)?.code === 409

/** Whether there is no such Lease. */
export const isNotFound = (error: unknown): boolean => refusalOf(error)?.code === 404

/** After which time the server wants to be asked again: of an answer that says that nothing was done. */
export const retryAfterMs = (error: unknown): number | undefined => {
  const refusal = refusalOf(error)
  return refusal?.code === 429 ? (refusal.retryAfterMs ?? 1_000) : undefined
}

/** The error as a caller gets it. */
export function failure(error: unknown, asked: Asked): StoreError {
  if (error instanceof StoreError) return error
  const { verb, namespace, name } = asked
  const what = `${verb} of ${name === undefined ? 'leases' : `lease "${name}"`} in namespace "${namespace}"`
  const refusal = refusalOf(error)
  if (refusal === undefined) {
    const said = error instanceof Error ? error.message : String(error)
    const { code, cause } = (error ?? {}) as { code?: unknown; cause?: { code?: unknown } }
    if (verb !== 'create' && verb !== 'update')
      return new StoreError(`${what} was not answered (${said})`, { outcome: 'none', cause: error })
    return NOT_SENT.has(String(code ?? cause?.code))
      ? new StoreError(`${what}: the API server cannot be reached (${said})`, { outcome: 'none', cause: error })
      : new StoreError(`${what} was not answered; whether it was applied is unknown (${said})`, {
          outcome: 'unknown',
          cause: error,
        })
  }
  const { code, reason, message } = refusal
  const isWrite = verb === 'create' || verb === 'update'
  return new StoreError(`${what}: ${advice(refusal, asked)} (${[code, reason].join(' ').trim()}: ${message})`, {
    outcome: isWrite && code >= 500 ? 'unknown' : 'none',
    lasting: LASTING.has(code),
    cause: error,
  })
}

function advice({ code, causes, kind, message }: Refusal, { verb, namespace }: Asked): string {
  if (code === 401)
    return 'the API server does not know the credentials: the token is bad, expired, or its account is gone'
  if (code === 403) {
    if (OTHER_RULES.test(message)) return 'a quota or an admission rule of the cluster forbids it, no missing right'
    return causes.includes('NamespaceTerminating')
      ? `the namespace is being deleted, and takes nothing new: use another`
      : `the right to ${verb} leases is missing; what is needed is this, bound to the account:\n${kubernetesRole({ namespace })}`
  }
  if (code === 404)
    return kind === 'namespaces' ? 'the namespace does not exist: create it, or name another' : 'not found'
  if (code === 409) return 'others write it at the same moment'
  if (code === 410) return 'the version asked for is too old'
  if (code === 413) return 'the Lease is too large: use less meta'
  if (code === 422 || code === 400) return 'the API server finds the Lease invalid'
  if (code === 429) return 'the API server is busy and asks for patience'
  if (code === 504) return 'the API server timed out; a write may be applied yet'
  return code >= 500 ? 'the API server failed' : 'the API server refused'
}
