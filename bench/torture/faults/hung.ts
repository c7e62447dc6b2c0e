// The server hangs while the lock is held: its process is stopped, connections stay open, nothing is answered. The lock runs out all
// the same, and whoever comes first after the server goes on gets it.
import type { Library } from '../../peers/library.js'
import { type Fault, KEY, type Line, none } from '../fault.js'
import { believing, door, ms, nowMs, pass, watch } from '../watching.js'
import type { World } from '../world.js'

const TTL_MS = 4_000
const AFTER_MS = 4_000
/** The observer looks every 10 ms, and clocks count whole ms: so near the end is at the end. */
const NEAR_MS = 20

async function run(library: Library, world: World, commandTimeoutMs?: number): Promise<Line> {
  const locks = await world.open(library, commandTimeoutMs === undefined ? {} : { commandTimeoutMs })
  const other = await world.open(library)
  const end = door()
  const line = door()
  let did: Line = none('was never granted')
  const holding = locks.hold(KEY, TTL_MS, async (view) => {
    const overMs = nowMs() + TTL_MS // at the latest: the grant was made before this
    await pass(300)
    world.server.freeze()
    const { lastMs, still } = await believing(view, overMs + AFTER_MS)
    await pass(overMs + AFTER_MS - nowMs())
    world.server.thaw()
    const next = await watch(other.acquire(KEY, TTL_MS), 2_000)
    const both = next.is === 'value' && view.believes() === true
    did = judge(library, lastMs - overMs, still, both)
    line.open()
    await end.opened
  })
  await Promise.race([line.opened, watch(holding, 30_000)])
  end.open()
  await watch(holding, 1_000)
  return did
}

function judge({ tells }: Library, lateMs: number, still: boolean, both: boolean): Line {
  if (still) {
    const two = both ? '; another had the lock by then: two believe' : ''
    return { did: `still believed ${ms(lateMs)} after the lock was over${two}`, verdict: 'no' }
  }
  if (lateMs > NEAR_MS) return { did: `told ${ms(lateMs)} after the lock was over`, verdict: 'no' }
  const when = lateMs > -NEAR_MS ? 'as the lock ends' : `${ms(-lateMs)} before the lock is over`
  if (!tells) return { did: `nothing tells the work; who looks is told ${when}`, verdict: 'in part' }
  return { did: `told ${when}`, verdict: 'yes' }
}

const expected = 'the work is told before the lock is over'

export const hung: Fault = {
  name: 'hung',
  title: 'Redis hangs while the lock is held',
  what: 'Work runs under the lock, ttl 4 s. The server is stopped (SIGSTOP) 300 ms after the grant, for 7.7 s. Then another asks.',
  expected,
  servers: 1,
  run: (library, world) => run(library, world),
}

export const hungWithTimeout: Fault = {
  name: 'hung-command-timeout',
  title: 'The same, with a time-out for commands',
  what: 'As before, with `commandTimeout: 500` given to ioredis, which is none of its defaults.',
  expected,
  servers: 1,
  run: (library, world) => run(library, world, 500),
}
