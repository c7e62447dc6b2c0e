// C02, in real time: durations that the platform's timers cannot take. Says how many commands were sent within half a second.
import { memoryStore } from 'holdfast/memory'
import { faultyStore } from 'holdfast/testing'
import { args, open, pause, say } from './client.mjs'

const ms = Number(args[0])
const store = faultyStore(memoryStore())
const leases = await open({ store })
const lease = await leases.acquire('k', { ttlMs: ms })
const controller = new AbortController()
leases.acquire('k', { waitMs: ms, signal: controller.signal }).catch((error) => say(`wait ended: ${error.message}`))
await pause(500)
say(`held ${lease.held}, renewals ${store.callsOf('renew').length}`)
process.exit(0)
