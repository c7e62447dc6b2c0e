// C17: what happens in the background to a lease that is held, with Node's defaults and no listener for anything.
import { memoryStore } from 'holdfast/memory'
import { faultyStore } from 'holdfast/testing'
import { args, kind, open, pause, say } from './client.mjs'

const TTL_MS = 2_000
const [fault] = args
const memory = memoryStore()
const store = faultyStore(memory)
const fail = () => {
  throw new Error('the listener failed')
}
const reject = async () => fail()
const listener = { 'listener throws': fail, 'listener rejects': reject }[fault]
const leases = await open({ store, ...(kind === 'naive' ? { onLost: listener } : { onEvent: listener }) })
const lease = await leases.acquire('k', { ttlMs: TTL_MS })
lease.signal.addEventListener('abort', () => say('lost'))
if (fault === 'store down') store.always('any', { fail: new Error('down') })
if (fault === 'replies lost') store.always('renew', { dropAfter: 'error' })
if (fault === 'key deleted' || listener !== undefined) await memory.revoke('k', { force: true })
await pause(3 * TTL_MS)
store.heal()
const again = await leases.acquire('k', { ttlMs: TTL_MS })
await pause(1.5 * TTL_MS)
say(`again ${again.held}`)
await again.release()
await leases.close()
say('end')
