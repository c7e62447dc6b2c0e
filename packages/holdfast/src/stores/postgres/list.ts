// All keys of a store, in the order of their text, a page at a time.
import type { LeaseRecord, ListOptions } from '../../store/contract.js'
import { NOW } from './plpgsql.js'
import { readRecord } from './reply.js'
import type { Server } from './server.js'

const PAGE = 200

/** The records of the store's keys, by key. */
export async function* list(
  server: Server,
  { prefix = '', free = false }: ListOptions = {},
): AsyncGenerator<LeaseRecord> {
  const { leases, fn } = server.names
  const text = `select key, ${fn('record')}(l, ${NOW}) as record from ${leases} l
    where key > $1 and key >= $2 and ($3::boolean or more or (claim <> '' and expires_us > ${NOW}))
    order by key limit ${PAGE}`
  let after = ''
  while (true) {
    const rows = await server.run('a listing', { text, values: [after, prefix, free] })
    for (const row of rows) {
      const key = String(row.key)
      if (!key.startsWith(prefix)) return
      const record = readRecord(row.record)
      if (record !== null && (free || record.state === 'held' || record.waiters.length > 0)) yield record
      after = key
    }
    if (rows.length < PAGE) return
  }
}
