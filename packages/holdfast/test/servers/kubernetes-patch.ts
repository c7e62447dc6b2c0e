// Patches of Leases at the stand-in: merge-patch, json-patch, and apply as far as the tests need them.
import { type Lease, Refusal } from './kubernetes-lease.js'

const TYPES = {
  'application/merge-patch+json': 'merge',
  'application/strategic-merge-patch+json': 'merge',
  'application/json-patch+json': 'json',
  'application/apply-patch+yaml': 'apply',
} as const

export type PatchKind = (typeof TYPES)[keyof typeof TYPES]

export function patchKind(contentType: string | undefined): PatchKind {
  const kind = TYPES[(contentType ?? '').split(';')[0]?.trim() as keyof typeof TYPES]
  if (kind === undefined)
    throw new Refusal(
      415,
      'UnsupportedMediaType',
      `the body of the request was in an unknown format - accepted media types include: ${Object.keys(TYPES).join(', ')}`,
    )
  return kind
}

/** What comes of a patch. Its resourceVersion is that of the patch, else that of the Lease: then it is unconditional. */
export function patched(lease: Lease, kind: PatchKind, text: string): Lease {
  const patch: unknown = JSON.parse(text)
  return kind === 'json' ? jsonPatched(lease, patch as Operation[]) : (merged(lease, patch) as Lease)
}

function merged(before: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
  const result: Record<string, unknown> = { ...(before as object) }
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name]
    else result[name] = merged(result[name], value)
  }
  return result
}

interface Operation {
  readonly op: 'test' | 'replace' | 'add' | 'remove'
  readonly path: string
  readonly value?: unknown
}

function jsonPatched(lease: Lease, operations: readonly Operation[]): Lease {
  const result = structuredClone(lease)
  for (const { op, path, value } of operations) {
    const names = path
      .split('/')
      .slice(1)
      .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
    const last = names.pop() ?? ''
    const parent = names.reduce<Record<string, unknown>>(
      (at, name) => (at[name] ?? {}) as Record<string, unknown>,
      result as unknown as Record<string, unknown>,
    )
    if (op === 'test' && JSON.stringify(parent[last]) !== JSON.stringify(value))
      throw new Refusal(422, 'Invalid', `the server rejected our request due to an error in our request`)
    if (op === 'remove') delete parent[last]
    else if (op !== 'test') parent[last] = value
  }
  return result
}
