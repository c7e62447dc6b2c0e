// C21: the event loop is blocked past the expiry, and another gets in meanwhile.
import { memoryStore } from 'holdfast/memory'
import { faultyStore } from 'holdfast/testing'
import { block, open, pause, say } from './client.mjs'

const memory = memoryStore()
const store = faultyStore(memory)
const leases = await open({ store, onLost: () => {} })
try {
  const value = await leases.hold('k', { ttlMs: 500 }, async (lease) => {
    const { signal } = lease
    await pause(300)
    const sent = store.callsOf('renew').length
    block(1_500)
    // The store's time has passed as well: it lets the next one in.
    const next = memory.acquire({ key: 'k', claim: 'next', holder: 'next', ttlMs: 60_000 })
    say(`held ${lease.held}`)
    await new Promise((resolve) => setTimeout(resolve, 0))
    say(`aborted ${signal.aborted}`)
    await pause(100)
    say(`renewals after the block ${store.callsOf('renew').length - sent}`)
    say(`next ${(await next).is}`)
    return 42
  })
  say(`value ${value}`)
} catch (error) {
  say(`error ${error.code} ${error.outcome?.value}`)
}
say(`holder ${(await memory.inspect('k')).holder}`)
process.exit(0)
