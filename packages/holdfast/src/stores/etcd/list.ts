// All keys, page by page: the records in the order of their names, and for each page who holds, who waits, and what is left.
import type { LeaseRecord, ListOptions } from '../../store/contract.js'
import { inParallel } from '../../store/observed/parallel.js'
import { grantIn, heldBy, placesIn, recordOf, run, type Seen } from './key.js'
import { beginningWith, namesOf } from './names.js'
import type { Shared } from './verbs.js'
import type { RangeAnswer } from './wire.js'
import { decode, del, get, isAbsent, isModifiedAt, type KeyValue, OLDEST_FIRST } from './wire.js'

/** Three operations each, of the 128 that a transaction may have. */
const PAGE = 40
const ASKED_AT_ONCE = 16

interface Listed {
  readonly key: string
  readonly at: Seen
  readonly record: KeyValue
}

async function* pages(shared: Shared, prefix: string): AsyncGenerator<Listed[]> {
  const { gateway } = shared
  const name = `${shared.prefix}r/`
  const range = beginningWith(name + prefix)
  for (let key: string | undefined = range.key; key !== undefined; ) {
    const ask = { ...range, key, limit: String(PAGE), sort_order: 'ASCEND', sort_target: 'KEY' }
    const page: RangeAnswer = await gateway.ask('a list', '/v3/kv/range', ask, gateway.limits(undefined))
    const kvs = page.kvs ?? []
    const keys = kvs.map((kv) => decode(kv.key).slice(name.length))
    const success = keys.flatMap((one) => {
      const names = namesOf(shared.prefix, one)
      return [get({ key: names.held }), get({ key: names.last }), get(names.queue, OLDEST_FIRST)]
    })
    if (kvs.length > 0) {
      const answer = await run(gateway, 'a list', { success }, gateway.limits(undefined))
      const responses = answer.responses ?? []
      yield kvs.map((record, i) => ({
        key: keys[i] ?? '',
        record,
        at: {
          revision: answer.header?.revision ?? '0',
          held: heldBy(responses[3 * i]?.response_range?.kvs?.[0]),
          grant: grantIn(record),
          last: decode(responses[3 * i + 1]?.response_range?.kvs?.[0]?.value),
          ended: '',
          queue: placesIn(responses[3 * i + 2]),
          own: undefined,
        },
      }))
    }
    const lastKey = kvs[kvs.length - 1]?.key
    key = page.more === true && lastKey !== undefined ? btoa(`${atob(lastKey)}\0`) : undefined
  }
}

export async function* list(shared: Shared, { prefix = '', free = false }: ListOptions): AsyncGenerator<LeaseRecord> {
  for await (const page of pages(shared, prefix)) {
    const wanted = page.filter(({ at }) => free || at.held !== undefined || at.queue.length > 0)
    const records = await inParallel(wanted, ASKED_AT_ONCE, async ({ key, at }) => {
      const lease = at.held?.kv.lease
      const leftMs = lease === undefined ? 0 : await shared.terms.left(lease, shared.gateway.limits(undefined))
      return recordOf(key, at, leftMs, shared.clock.wallMs())
    })
    for (const record of records) if (record !== null) yield record
  }
}

/** Forgets keys that are free and were last granted long ago: whose records are all that is left of them. */
export async function prune(shared: Shared, olderThanMs: number): Promise<number> {
  const { gateway, clock } = shared
  let count = 0
  for await (const page of pages(shared, '')) {
    for (const { key, at, record } of page) {
      const value = at.grant?.value
      const ageMs = clock.wallMs() - (value?.atMs ?? 0)
      if (at.held !== undefined || at.queue.length > 0 || at.last !== '' || ageMs < olderThanMs) continue
      const names = namesOf(shared.prefix, key)
      const answer = await run(
        gateway,
        'a pruning',
        {
          compare: [isModifiedAt(names.record, record.mod_revision ?? '0'), isAbsent(names.wanted)],
          success: [del({ key: names.record })],
        },
        gateway.limits(undefined),
      )
      if (answer.succeeded === true) count++
    }
  }
  return count
}
