// Between the record in the engine and the state of the protocol: instants are this process's own, counted from what it has seen.
import { ENDED_RETENTION_MS, type KeyState, unknownKey } from '../protocol.js'
import type { ObservedRecord, Versioned, WriteKind } from './records.js'
import type { Sightings } from './sightings.js'

/** More withdrawn claims than this are not kept: a record must stay small. */
const ENDED_MAX = 64

/** The state of a key as this process sees it. */
export function stateOf(key: string, read: Versioned | null, sightings: Sightings, wallMs: number): KeyState {
  if (read === null) return unknownKey()
  const { record, beat } = read
  const { sinceMs, ended } = sightings.see(key, beat, record.ended)
  const retentionMs = Math.max(ENDED_RETENTION_MS, 2 * record.ttlMs)
  return {
    ...unknownKey(record.token),
    claim: record.claim,
    holder: record.holder,
    ttlMs: record.ttlMs,
    // For people: the holder's time of day may differ from ours.
    grantedMs: Math.min(sinceMs, sinceMs - (wallMs - record.grantedAtMs)),
    expiresMs: record.claim === '' ? 0 : sinceMs + record.ttlMs,
    revoked: record.revoked,
    changes: record.changes,
    meta: record.meta,
    lastEnded: record.lastEnded,
    ended: record.ended.map(({ claim, revoked }) => ({
      claim,
      revoked,
      untilMs: (ended.get(claim) ?? sinceMs) + retentionMs,
    })),
  }
}

/**
 * What has to stand in the engine for this state. A sign of life says how long it is good for: what is left of the term, which a
 * renewal with a shorter ttl does not shorten. Whoever else writes leaves that as it was.
 */
export function recordOf(
  state: KeyState,
  before: ObservedRecord | undefined,
  kind: WriteKind,
  at: Instants,
): ObservedRecord {
  const isBeat = kind !== 'other'
  return {
    claim: state.claim,
    holder: state.holder,
    ttlMs: isBeat ? Math.ceil(Math.round((state.expiresMs - at.monoMs) * 1e3) / 1e3) : (before?.ttlMs ?? 0),
    token: state.token,
    changes: state.changes,
    grantedAtMs: kind === 'grant' ? at.wallMs : (before?.grantedAtMs ?? 0),
    beats: (before?.beats ?? 0) + (isBeat ? 1 : 0),
    revoked: state.revoked,
    meta: state.meta,
    lastEnded: state.lastEnded,
    ended: state.ended.slice(-ENDED_MAX).map(({ claim, revoked }) => ({ claim, revoked })),
  }
}

/** The same instant on both clocks of this process. */
export interface Instants {
  readonly monoMs: number
  readonly wallMs: number
}
