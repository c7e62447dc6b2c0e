// The lock is gone before the work is done: its key was deleted by hand, or lost by the server. The work has a result all the same.
import { type Fault, KEY, PATIENCE_MS } from '../fault.js'
import { ms, nameOf, nowMs, pass, watch } from '../watching.js'

const TTL_MS = 10_000
const VALUE = 42
const PROMPT_MS = 1_000

export const lostUnderWork: Fault = {
  name: 'lost-under-work',
  title: 'The lock is gone before the work returns',
  what: 'Work runs under the lock, ttl 10 s; all keys are deleted; 200 ms later the work returns a value.',
  expected: 'the caller learns within a second that the lock was lost, and gets the value',
  servers: 1,
  async run(library, world) {
    const locks = await world.open(library)
    const admin = world.client()
    let endedMs = 0
    let releaseError: (() => unknown) | undefined
    const end = await watch(
      locks.hold(KEY, TTL_MS, async (view) => {
        await admin.flushall()
        await pass(200)
        endedMs = nowMs()
        releaseError = view.releaseError
        return VALUE
      }),
      PATIENCE_MS,
    )
    const tookMs = nowMs() - endedMs
    const after = tookMs < 10 ? 'at once' : `after ${ms(tookMs)}`
    if (end.is === 'open') return { did: 'giving back never ended', verdict: 'no' }
    if (end.is === 'value') {
      if (releaseError?.() === undefined)
        return { did: `the value came back ${after}, with no word of the loss`, verdict: 'in part' }
      return { did: `the value came back ${after}, and giving back said that the lock was gone`, verdict: 'yes' }
    }
    const { outcome } = end.error as { outcome?: { value?: unknown } }
    if (outcome?.value === VALUE && tookMs < PROMPT_MS)
      return { did: `${nameOf(end.error)} ${after}, which carries the value`, verdict: 'yes' }
    return { did: `${nameOf(end.error)} ${after}; the value was lost`, verdict: 'no' }
  },
}
