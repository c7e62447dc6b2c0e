// The line of those who wait for a key. A place is a key on an etcd lease of two polls, kept alive by asking; the order is that of
// the create revisions. When the key is free the place of the first is moved to a lease of one poll: that is its reservation, and
// when it does not come it has lost its place, without anybody looking at a clock.
import type { AcquireRequest } from '../../store/contract.js'
import type { Limits } from './gateway.js'
import { type Place, run } from './key.js'
import type { Names, WaiterValue } from './names.js'
import { secondsOf } from './terms.js'
import type { Shared } from './verbs.js'
import { get, isAbsent, isCreatedAt, isModifiedAt, put } from './wire.js'

/** In line, once: who is there already only says that it still waits. `again`: the key may have become free meanwhile. */
export async function joinQueue(
  shared: Shared,
  names: Names,
  request: AcquireRequest,
  pollMs: number,
  own: Place | undefined,
  limits: Limits,
): Promise<'waiting' | 'again'> {
  const { key, claim, holder } = request
  const name = names.waiting(claim)
  if (own !== undefined) {
    const lease = own.kv.lease ?? '0'
    const longEnough = own.value.pollMs >= pollMs || own.value.reserved === true
    if (longEnough && ((await shared.terms.keepAlive([lease], limits)).get(lease) ?? 0) > 0) return 'waiting'
  }
  const term = await shared.terms.grant(secondsOf(2 * pollMs), limits)
  const value: WaiterValue = { holder, pollMs, sinceMs: own?.value.sinceMs ?? shared.clock.wallMs() }
  const there = own === undefined ? isAbsent({ key: name }) : isCreatedAt(name, own.kv.create_revision ?? '0')
  const answer = await run(
    shared.gateway,
    'a place in the queue',
    {
      compare: [there, isAbsent({ key: names.ended(claim) })],
      success: [put(name, JSON.stringify(value), term.id), get({ key: names.held })],
    },
    limits,
  )
  if (answer.succeeded !== true) return 'again'
  shared.places.set(key, claim, own?.kv.create_revision ?? answer.header?.revision ?? '0')
  return (answer.responses?.[1]?.response_range?.kvs ?? []).length > 0 || own !== undefined ? 'waiting' : 'again'
}

/** Keeps a free key for the first in line, for one poll of it. How long at most, in ms; undefined when things have moved on. */
export async function reserve(
  shared: Shared,
  names: Names,
  head: Place | undefined,
  limits: Limits,
): Promise<number | undefined> {
  if (head === undefined) return undefined
  if (head.value.reserved === true) {
    const leftMs = await shared.terms.left(head.kv.lease ?? '0', limits)
    return leftMs === 0 ? undefined : leftMs
  }
  const term = await shared.terms.grant(secondsOf(head.value.pollMs), limits)
  const value: WaiterValue = { ...head.value, reserved: true }
  const answer = await run(
    shared.gateway,
    'a reservation',
    {
      compare: [isModifiedAt(head.kv.key, head.kv.mod_revision ?? '0'), isAbsent({ key: names.held })],
      success: [put(head.kv.key, JSON.stringify(value), term.id)],
    },
    limits,
  )
  return answer.succeeded === true ? shared.terms.remainingMs(term) : undefined
}
