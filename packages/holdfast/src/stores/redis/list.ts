// All keys of a store: SCAN gives them in no order, several times, and from each master apart, so their names are collected
// first, then sorted, then read page by page.
import { byText } from '../../lease/keys.js'
import type { LeaseRecord, ListOptions } from '../../store/contract.js'
import { failure, isMoving } from './failure.js'
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
    const answers = (await runTogether(server, 'a listing', 'inspect', keys, [])).flat()
    for (const [i, place] of places.entries()) replies[place] = answers[i]
  })
  await Promise.all(parts)
  return replies
}

/** Runs a script on keys of one slot: together, or one by one while the slot is on the move. Gives the answers of all calls. */
export async function runTogether(
  server: Server,
  what: string,
  verb: 'inspect' | 'prune',
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown[]> {
  const run = (some: readonly string[]) => server.run(what, (scripts) => scripts[verb], some, args)
  try {
    return [await run(keys)]
  } catch (error) {
    if (keys.length === 1 || !isMoving(error)) throw error
    return await Promise.all(keys.map((key) => run([key])))
  }
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
