// One of three independent servers hangs. Two are a majority: nothing should take longer.
import { type Fault, KEY, type Line, none, PATIENCE_MS } from '../fault.js'
import { door, ms, nameOf, nowMs, pass, watch } from '../watching.js'

const TTL_MS = 10_000
const PROMPT_MS = 1_000

export const hungNode: Fault = {
  name: 'hung-node',
  title: 'One of three servers hangs',
  what: 'Three independent servers, one of them stopped. A lock is taken, held for one and a half ttls (100 ms where the library does not renew), and given back. ttl 10 s.',
  expected: 'all of it works, and neither taking nor giving back waits for the server that hangs',
  servers: 3,
  async run(library, world) {
    if (!library.quorum) return none('works on one server only')
    const locks = await world.open(library)
    world.server.freeze()
    const startMs = nowMs()
    const granted = door()
    let acquiredMs = 0
    let endedMs = 0
    let lost = false
    const holding = locks.hold(KEY, TTL_MS, async (view) => {
      acquiredMs = nowMs() - startMs
      granted.open()
      await pass(library.renews ? 1.5 * TTL_MS : 100)
      lost = view.believes() === false
      endedMs = nowMs()
    })
    const start = await watch(Promise.race([granted.opened, holding]), PATIENCE_MS)
    if (start.is === 'error')
      return { did: `not granted: ${nameOf(start.error)} after ${ms(start.tookMs)}`, verdict: 'no' }
    if (start.is === 'open') return { did: `not granted within ${ms(PATIENCE_MS)}`, verdict: 'no' }
    const end = await watch(holding, 1.5 * TTL_MS + PATIENCE_MS)
    const gaveBackMs = nowMs() - endedMs
    const taken = `granted after ${ms(acquiredMs)}`
    if (lost) return { did: `${taken}, lost while it was held`, verdict: 'no' }
    const kept = library.renews ? ', kept' : ''
    if (end.is === 'open') return { did: `${taken}${kept}, giving it back never ended`, verdict: 'no' }
    if (end.is === 'error')
      return {
        did: `${taken}${kept}, giving it back failed with ${nameOf(end.error)} after ${ms(gaveBackMs)}`,
        verdict: 'no',
      }
    const prompt = acquiredMs < PROMPT_MS && gaveBackMs < PROMPT_MS
    return {
      did: `${taken}${kept}, given back in ${ms(gaveBackMs)}`,
      verdict: prompt ? 'yes' : 'in part',
    } satisfies Line
  },
}
