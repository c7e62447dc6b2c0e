// The work takes longer than the ttl, while another wants the lock.
import { type Fault, KEY, PATIENCE_MS } from '../fault.js'
import { ms, nameOf, nowMs, pass, watch } from '../watching.js'

const TTL_MS = 2_000
const TTLS = 3
const VALUE = 42

export const longWork: Fault = {
  name: 'long-work',
  title: 'The work takes longer than the ttl',
  what: `Work that takes ${TTLS} ttls of 2 s runs under the lock and returns a value. Another asks all the while.`,
  expected: 'nobody else is in before the work has ended, and its value comes back',
  servers: 1,
  async run(library, world) {
    const locks = await world.open(library)
    const other = await world.open(library, { endless: true, retryMs: 50 })
    let enteredMs = 0
    let endedMs = Number.POSITIVE_INFINITY
    let otherMs = Number.POSITIVE_INFINITY
    let asking: Promise<unknown> = Promise.resolve()
    let releaseError: unknown
    const end = await watch(
      locks.hold(KEY, TTL_MS, async (view) => {
        enteredMs = nowMs()
        asking = other.acquire(KEY, 30_000).then((lock) => {
          otherMs = nowMs()
          return () => lock.release()
        })
        asking.catch(() => {})
        await pass(TTLS * TTL_MS)
        endedMs = nowMs()
        releaseError = view.releaseError
        return VALUE
      }),
      TTLS * TTL_MS + PATIENCE_MS,
    )
    await watch(asking, 5_000)
    const overtaken = otherMs < endedMs
    const got = end.is === 'value' && end.value === VALUE
    const who = overtaken ? `another was in after ${ms(otherMs - enteredMs)}` : 'nobody else was in'
    const renewal = library.renews ? '' : 'does not renew: '
    const value = got
      ? `the value came back${typeof releaseError === 'function' && releaseError() !== undefined ? ', and giving back failed' : ''}`
      : `the value was lost (${end.is === 'error' ? nameOf(end.error) : 'no end'})`
    return {
      did: `${renewal}${who}; ${value}`,
      verdict: got ? (overtaken ? (library.renews ? 'no' : 'none') : 'yes') : 'no',
    }
  },
}
