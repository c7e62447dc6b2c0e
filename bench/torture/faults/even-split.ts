// Four independent servers, two contenders, each nearer to two of them: each gets two votes, and three are a majority.
import type { Library } from '../../peers/library.js'
import { type Fault, KEY, none, PATIENCE_MS } from '../fault.js'
import { type End, ms, nameOf, nowMs, pass, watch } from '../watching.js'
import type { World } from '../world.js'

const TTL_MS = 5_000
const FARTHER_MS = 100
const WORK_MS = 100

/** A contender to whom half of the servers are farther. */
async function contender(library: Library, world: World, far: readonly number[]) {
  const proxies = await Promise.all(world.servers.map((server) => world.proxy(server)))
  const locks = await world.open(library, { ports: proxies.map(({ port }) => port) })
  for (const place of far) proxies[place]?.slow(FARTHER_MS, 'toServer')
  return locks
}

export const evenSplit: Fault = {
  name: 'even-split',
  title: 'The votes are split evenly',
  what: 'Four independent servers. Two contenders ask at the same instant; requests to two of the servers take 100 ms longer, other two for each, so each gets two votes. The work takes 100 ms. ttl 5 s.',
  expected: 'both get in, one after the other',
  servers: 4,
  async run(library, world) {
    if (!library.quorum) return none('works on one server only')
    const contenders = [await contender(library, world, [2, 3]), await contender(library, world, [0, 1])]
    const startMs = nowMs()
    const grantsMs: number[] = []
    let inside = 0
    let together = false
    const ends = await Promise.all(
      contenders.map((locks) => {
        const holding = locks.hold(KEY, TTL_MS, async () => {
          grantsMs.push(nowMs() - startMs)
          together ||= ++inside > 1
          await pass(WORK_MS)
          inside--
        })
        return watch(holding, PATIENCE_MS)
      }),
    )
    const when = grantsMs.map(ms).join(' and ')
    if (together) return { did: `both were inside at once, after ${when}`, verdict: 'no' }
    const failures = ends.flatMap(failure)
    if (failures.length === 0) return { did: `both got in, after ${when}`, verdict: 'yes' }
    const one = grantsMs.length > 0 ? `one got in after ${when}; ` : ''
    const hangs = ends.some(({ is }) => is === 'open')
    return { did: `${one}${failures.join('; ')}`, verdict: hangs || grantsMs.length === 0 ? 'no' : 'in part' }
  },
}

function failure(end: End<void>): string[] {
  if (end.is === 'open') return [`an acquire had not ended after ${ms(end.tookMs)}`]
  return end.is === 'error' ? [`${nameOf(end.error)} after ${ms(end.tookMs)}`] : []
}
