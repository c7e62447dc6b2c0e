// All keys of a store: SCAN gives them in no order, several times, and from each master apart, so their names are collected
// first, then sorted, then read page by page.
import type { LeaseRecord, ListOptions } from '../../store/contract.js'
import { failure } from './failure.js'
import { isForeign, readRecord } from './reply.js'
import type { Server } from './server.js'
import { slotOf } from './slot.js'

/** How many names SCAN looks at in one step, and how many records are read in one. */
const SCAN_COUNT = 1_000
const PAGE = 100

/** The names under a prefix, as they are in Redis, in the order of their text. */
export async function namesOf(server: Server, prefix: string): Promise<string[]> {
  await server.ready()
  const names = new Set<string>()
  const pattern = `${prefix.replaceAll(/[\\*?[\]^]/g, '\\$&')}*`
  try {
    for (const send of await server.wire.masters()) {
      let cursor = '0'
      do {
        const reply = await send(['scan', cursor, 'MATCH', pattern, 'COUNT', String(SCAN_COUNT), 'TYPE', 'string'])
        const [next, found] = reply as [unknown, unknown[]]
        cursor = String(next)
        for (const name of found) if (String(name).startsWith(prefix)) names.add(String(name))
      } while (cursor !== '0')
    }
  } catch (error) {
    throw failure(error, 'a listing')
  }
  return [...names].sort(byText)
}

/** The records of the store's keys, by key. `prefix` is that of the store. */
export async function* list(
  server: Server,
  prefix: string,
  { prefix: beginning = '', free = false }: ListOptions,
): AsyncGenerator<LeaseRecord> {
  const names = await namesOf(server, prefix + beginning)
  for (let first = 0; first < names.length; first += PAGE) {
    const page = names.slice(first, first + PAGE)
    for (const [at, reply] of (await inspectAll(server, page)).entries()) {
      if (isForeign(reply)) continue
      const record = readRecord(reply, (page[at] ?? '').slice(prefix.length))
      if (record !== null && (free || record.state === 'held' || record.waiters.length > 0)) yield record
    }
  }
}

/** Runs on all names, which may be in several slots. Gives the answers in their order. */
async function inspectAll(server: Server, names: readonly string[]): Promise<unknown[]> {
  const replies: unknown[] = new Array(names.length).fill(null)
  const parts = groups(server, names).map(async (places) => {
    const keys = places.map((place) => names[place] ?? '')
    const answers = (await server.run('a listing', (scripts) => scripts.inspect, keys, [])) as unknown[]
    for (const [i, place] of places.entries()) replies[place] = answers[i]
  })
  await Promise.all(parts)
  return replies
}

/** The places of names that one script may touch together. */
export function groups(server: Server, names: readonly string[]): number[][] {
  if (!server.wire.cluster) return names.length === 0 ? [] : [[...names.keys()]]
  const bySlot = new Map<number, number[]>()
  for (const [place, name] of names.entries()) {
    const slot = slotOf(name)
    bySlot.set(slot, [...(bySlot.get(slot) ?? []), place])
  }
  return [...bySlot.values()]
}

/** In the order of UTF-8 bytes, which is that of code points. */
function byText(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const [left, right] = [a.charCodeAt(i), b.charCodeAt(i)]
    if (left === right) continue
    // The halves of a pair stand for code points beyond all single units.
    const pairs = Number(left >= 0xd800 && left < 0xe000) - Number(right >= 0xd800 && right < 0xe000)
    return pairs === 0 ? left - right : pairs
  }
  return a.length - b.length
}
