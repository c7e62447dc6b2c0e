// What the stand-in of an API server knows of a Lease: what it takes, what it refuses, and in which words.

export interface Lease {
  apiVersion?: string
  kind?: string
  metadata: {
    name?: string
    namespace?: string
    uid?: string
    resourceVersion?: string
    creationTimestamp?: string
    annotations?: Record<string, string>
    labels?: Record<string, string>
    [name: string]: unknown
  }
  spec?: Record<string, unknown>
}

/** An answer that is an error: the body is a Status. */
export class Refusal extends Error {
  constructor(
    readonly code: number,
    readonly reason: string,
    message: string,
    readonly details: object = {},
    readonly headers: Record<string, string> = {},
  ) {
    super(message)
  }

  get status(): object {
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: this.message,
      ...(this.reason === '' ? {} : { reason: this.reason }),
      details: this.details,
      code: this.code,
    }
  }
}

const NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const MICRO_TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[.,](\d{6})(Z|[+-]\d\d:\d\d)$/
const GO_ZERO = '0001-01-01T00:00:00.000000Z'
const FIELDS = new Set(['holderIdentity', 'leaseDurationSeconds', 'leaseTransitions', 'acquireTime', 'renewTime'])
const DROPPED = new Set(['strategy', 'preferredHolder'])

const badRequest = (message: string) => new Refusal(400, 'BadRequest', message)
export const invalid = (name: string, message: string) =>
  new Refusal(422, 'Invalid', `Lease.coordination.k8s.io "${name}" is invalid: ${message}`, {
    name,
    group: 'coordination.k8s.io',
    kind: 'Lease',
  })

/** Reads a body as the server decodes it: the Lease, and the warnings. Throws Refusal. */
export function decode(text: string, strict: boolean): { lease: Lease; warnings: string[] } {
  let body: Lease
  try {
    body = JSON.parse(text)
  } catch {
    throw badRequest('the object provided is unrecognized')
  }
  const warnings: string[] = []
  const spec: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(body.spec ?? {})) {
    if (DROPPED.has(name) || value === null) continue
    if (!FIELDS.has(name)) {
      if (strict) throw badRequest(`strict decoding error: unknown field "spec.${name}"`)
      warnings.push(`unknown field "spec.${name}"`)
      continue
    }
    if (name.endsWith('Time')) {
      const time = microTime(value)
      if (time !== undefined) spec[name] = time
    } else if (name === 'holderIdentity') {
      if (typeof value !== 'string') throw badRequest(`json: cannot unmarshal into Go struct field spec.${name}`)
      spec[name] = value
    } else {
      const literal = new RegExp(`"${name}"\\s*:\\s*([^,}\\s]+)`).exec(text)?.[1] ?? ''
      if (!/^-?\d+$/.test(literal) || Math.abs(Number(literal)) > 2_147_483_647)
        throw badRequest(`json: cannot unmarshal number ${literal} into Go struct field spec.${name} of type int32`)
      spec[name] = value
    }
  }
  const { resourceVersion } = body.metadata ?? {}
  if (resourceVersion !== undefined && typeof resourceVersion !== 'string')
    throw badRequest('json: cannot unmarshal number into Go struct field metadata.resourceVersion of type string')
  return { lease: { ...body, metadata: { ...body.metadata }, spec }, warnings }
}

/** As it comes back: in UTC, with six digits; undefined for Go's zero time. */
function microTime(value: unknown): string | undefined {
  const [, second, micros, zone] = typeof value === 'string' ? (MICRO_TIME.exec(value) ?? []) : []
  const ms = Date.parse(`${second}${zone}`)
  if (Number.isNaN(ms)) throw badRequest(`parsing time ${JSON.stringify(value)} as "2006-01-02T15:04:05.000000Z07:00"`)
  const text = `${new Date(ms).toISOString().slice(0, 19)}.${micros}Z`
  return text === GO_ZERO ? undefined : text
}

/** Refuses what is no valid Lease. */
export function validate({ metadata: { name = '' }, spec = {} }: Lease): void {
  if (name.length > 253) throw invalid(name, `metadata.name: Invalid value: "${name}": must be no more than 253 bytes`)
  if (!NAME.test(name))
    throw invalid(
      name,
      `metadata.name: Invalid value: "${name}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'`,
    )
  const { leaseDurationSeconds: duration, leaseTransitions: transitions } = spec as Record<string, number | undefined>
  if (duration !== undefined && duration <= 0)
    throw invalid(name, `spec.leaseDurationSeconds: Invalid value: ${duration}: must be greater than 0`)
  if (transitions !== undefined && transitions < 0)
    throw invalid(name, `spec.leaseTransitions: Invalid value: ${transitions}: must be greater than or equal to 0`)
}

export const notFound = (name: string) =>
  new Refusal(404, 'NotFound', `leases.coordination.k8s.io "${name}" not found`, {
    name,
    group: 'coordination.k8s.io',
    kind: 'leases',
  })

export const conflict = (name: string, why: string) =>
  new Refusal(409, 'Conflict', `Operation cannot be fulfilled on leases.coordination.k8s.io "${name}": ${why}`, {
    name,
    group: 'coordination.k8s.io',
    kind: 'leases',
  })
