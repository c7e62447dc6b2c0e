// Leases as `ls`, `show` and `watch` show them.
import type { LeaseRecord } from 'holdfast'
import { roughDuration, shownName } from '../text.js'

/** A record for programs: all that the store tells, except the claim, with which anybody could end the lease. */
export function recordAsJson({ claim: _secret, ...record }: LeaseRecord): Omit<LeaseRecord, 'claim'> {
  return record
}

/** What is left, in a word. */
export function leftOf(record: LeaseRecord): string {
  if (record.state === 'free') return 'free'
  return `${roughDuration(record.remainingMs)}${record.revoked ? ' (revoked)' : ''}`
}

/** Who waits, first in line first. */
export const waitingOf = (record: LeaseRecord): string =>
  record.waiters.length === 0 ? '-' : record.waiters.map(({ holder }) => shownName(holder)).join(', ')
