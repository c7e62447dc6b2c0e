// Between the record of the protocol and the Lease object. What decides stands in `spec`, where every elector looks. In the one
// annotation stands what is true for ever (claims that have ended) or names the claim that it speaks of (revoked, meta): client-go
// keeps annotations when it takes a Lease over, and they then say nothing about the new holder.
import { StoreError } from '../../lease/errors.js'
import type { Json } from '../../store/contract.js'
import type { ObservedRecord, Versioned, WriteKind } from '../../store/observed/records.js'
import type { KubernetesLease, KubernetesLeaseSpec } from './client.js'
import { fromMicroTime, toMicroTime } from './micro-time.js'
import { fromLeaseName, isDigest, toLeaseName } from './names.js'

/** A Lease as it was read. */
export interface LeaseRead extends Versioned {
  readonly lease: KubernetesLease
  /** Grants of anybody since it was created. */
  readonly transitions: number
}

const RECORD = 'holdfast/record'
const KEY = 'holdfast/key'
/** A creation has room for so many grants: the token is the creation's second and a count. */
export const TRANSITIONS = 2 ** 21
/** A holder that does not say how long it holds is given what client-go gives by default. */
const SILENT_SECONDS = 15
const FUTURE_US = 86_400e6
/** Of what somebody has to change by hand: whoever waits is told at once. */
const STAYS = { outcome: 'none', lasting: true } as const

interface Annotated {
  /** The label of the last holder. */
  readonly last?: string
  readonly lastEnded?: string
  readonly ended?: readonly { claim: string; revoked: boolean }[]
  /** The identity that is revoked. */
  readonly revoked?: string
  readonly meta?: { readonly of: string; readonly value: Json }
}

/** `_` divides; a claim has none of its own. */
const identityOf = (holder: string, claim: string) =>
  claim === '' ? '' : `${holder}_${claim.replaceAll(/[%_]/g, (sign) => (sign === '%' ? '%25' : '%5F'))}`

function partsOf(identity: string): { holder: string; claim: string } {
  const place = identity.lastIndexOf('_')
  const claim = identity.slice(place + 1).replaceAll(/%5F|%25/g, (code) => (code === '%25' ? '%' : '_'))
  // Somebody else's identity, whole: no claim of ours is alike.
  return place < 0 || claim === '' ? { holder: identity, claim: identity } : { holder: identity.slice(0, place), claim }
}

/** What a Lease says of a key. Throws StoreError for one that belongs to another key. */
export function readLease(key: string, lease: KubernetesLease): LeaseRead {
  const { name = '', uid = '', resourceVersion = '', creationTimestamp, annotations } = lease.metadata ?? {}
  const spec = lease.spec ?? {}
  if (isDigest(name) && annotations?.[KEY] !== key)
    throw new StoreError(
      `lease "${name}" belongs to another key ("${annotations?.[KEY]}") with the same digest as "${key}", or its annotation ${KEY} is gone: rename the key`,
      STAYS,
    )
  const said = annotated(name, annotations?.[RECORD])
  const { holderIdentity: identity = '', leaseTransitions: transitions = 0 } = spec
  const { holder, claim } = partsOf(identity)
  const createdUs = fromMicroTime(creationTimestamp)
  if (createdUs === undefined)
    throw new StoreError(`lease "${name}" has no creationTimestamp: is this an API server?`, STAYS)
  return {
    lease,
    transitions,
    record: {
      claim,
      holder: claim === '' ? (said.last ?? '') : holder,
      ttlMs: (spec.leaseDurationSeconds ?? SILENT_SECONDS) * 1_000,
      token: transitions === 0 ? 0 : Math.floor(createdUs / 1e6) * TRANSITIONS + transitions,
      // Its first holder is not counted by client-go.
      changes: claim === '' ? transitions : Math.max(1, transitions),
      grantedAtMs: Math.floor((fromMicroTime(spec.acquireTime) ?? 0) / 1e3),
      beats: 0,
      revoked: claim !== '' && said.revoked === identity,
      meta: said.meta?.of === identity ? said.meta.value : null,
      lastEnded: said.lastEnded ?? '',
      ended: said.ended ?? [],
    },
    version: `${uid} ${resourceVersion}`,
    beat: JSON.stringify([
      uid,
      identity,
      transitions,
      fromMicroTime(spec.renewTime) ?? '',
      fromMicroTime(spec.acquireTime) ?? '',
      spec.leaseDurationSeconds ?? '',
    ]),
  }
}

function annotated(name: string, text: string | undefined): Annotated {
  if (text === undefined) return {}
  let said: unknown
  try {
    said = JSON.parse(text)
  } catch {}
  if (isAnnotated(said)) return said
  throw new StoreError(
    `the annotation ${RECORD} of lease "${name}" is not what Holdfast writes: remove it by hand (${text.slice(0, 100)})`,
    STAYS,
  )
}

/** Whether it can be read as one: somebody may have changed it by hand. */
function isAnnotated(said: unknown): said is Annotated {
  if (typeof said !== 'object' || said === null) return false
  const { ended = [] } = said as { ended?: unknown }
  return Array.isArray(ended) && ended.every((one) => typeof one?.claim === 'string')
}

/** The key of a Lease that Holdfast has written; undefined for all others. */
export function keyOf({ metadata }: KubernetesLease): string | undefined {
  const { name = '', annotations } = metadata ?? {}
  if (annotations?.[RECORD] === undefined) return undefined
  const key = isDigest(name) ? annotations[KEY] : fromLeaseName(name)
  return key !== undefined && toLeaseName(key) === name ? key : undefined
}

/** The Lease to write: over the one that was read, with its uid and resourceVersion, or a new one. */
export function leaseOf(
  key: string,
  namespace: string,
  record: ObservedRecord,
  over: LeaseRead | null,
  kind: WriteKind,
  wallMs: number,
): KubernetesLease {
  const { managedFields: _, creationTimestamp: __, ...before } = over?.lease.metadata ?? {}
  const name = toLeaseName(key)
  const spec = specOf(record, over, kind, wallMs)
  const identity = spec.holderIdentity ?? ''
  const said: Annotated = {
    ...(record.claim === '' && record.holder !== '' ? { last: record.holder } : {}),
    ...(record.lastEnded === '' ? {} : { lastEnded: record.lastEnded }),
    ...(record.ended.length === 0 ? {} : { ended: record.ended }),
    ...(record.revoked ? { revoked: identity } : {}),
    ...(record.meta === null ? {} : { meta: { of: identity, value: record.meta } }),
  }
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      ...before,
      name,
      namespace,
      annotations: {
        ...before.annotations,
        ...(name === key ? {} : { [KEY]: key }),
        [RECORD]: JSON.stringify(said),
      },
    },
    spec,
  }
}

function specOf(record: ObservedRecord, over: LeaseRead | null, kind: WriteKind, wallMs: number): KubernetesLeaseSpec {
  const before = over?.lease.spec ?? {}
  if (kind === 'other') {
    // Nothing but a change of the claim touches what electors observe.
    if (record.claim === (over?.record.claim ?? '')) return before
    return { ...before, holderIdentity: identityOf(record.holder, record.claim) }
  }
  const transitions = (over?.transitions ?? 0) + (kind === 'grant' ? 1 : 0)
  if (transitions >= TRANSITIONS)
    throw new StoreError(
      `lease "${over?.lease.metadata?.name}" has changed hands ${TRANSITIONS} times, which is all that its tokens have room for: delete it while nobody holds it`,
      STAYS,
    )
  const now = toMicroTime(signOfLife(wallMs * 1e3, fromMicroTime(before.renewTime)))
  return {
    ...before,
    holderIdentity: identityOf(record.holder, record.claim),
    leaseDurationSeconds: Math.max(1, Math.ceil(record.ttlMs / 1_000)),
    leaseTransitions: transitions,
    acquireTime: kind === 'grant' ? now : before.acquireTime,
    renewTime: now,
  }
}

/** Later than the last one by a microsecond at least, so that every observer sees it change; unless that one is far in the future. */
function signOfLife(nowUs: number, lastUs: number | undefined): number {
  const us = Math.floor(nowUs)
  return lastUs === undefined || lastUs < us || lastUs > us + FUTURE_US ? us : lastUs + 1
}
