// A short ttl, as one takes for a leader that has to be replaced quickly.
import { type Fault, KEY, type Line, none } from '../fault.js'
import { believing, door, nowMs, watch } from '../watching.js'

const TTL_MS = 1_200
const TTLS = 3
const COMMANDS_PER_TTL_MAX = 10

export const shortTtl: Fault = {
  name: 'short-ttl',
  title: 'A ttl of 1.2 s',
  what: `Work runs under the lock for ${TTLS} ttls of 1.2 s. The commands that are sent are counted.`,
  expected: `the lock is kept, with at most ${COMMANDS_PER_TTL_MAX} commands for each ttl`,
  servers: 1,
  async run(library, world) {
    if (!library.renews) return none('does not renew')
    const locks = await world.open(library)
    const other = await world.open(library)
    const end = door()
    const line = door()
    let did: Line = none('was never granted')
    const holding = locks.hold(KEY, TTL_MS, async (view) => {
      const commands = world.counter()
      const { still } = await believing(view, nowMs() + TTLS * TTL_MS)
      const perTtl = Math.round(commands() / TTLS)
      const next = await watch(other.acquire(KEY, TTL_MS), 100)
      const kept = still && next.is !== 'value'
      const spent = perTtl === 1 ? '1 command' : `${perTtl.toLocaleString('en-US')} commands`
      did = {
        did: `${kept ? 'kept' : 'lost'}, with ${spent} for each ttl`,
        verdict: kept && perTtl <= COMMANDS_PER_TTL_MAX ? 'yes' : 'no',
      }
      line.open()
      await end.opened
    })
    await Promise.race([line.opened, watch(holding, 30_000)])
    end.open()
    await watch(holding, 2_000)
    return did
  },
}
