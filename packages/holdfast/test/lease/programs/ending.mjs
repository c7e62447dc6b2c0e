// C30: what a process does once there is nothing left to do, and what it must not leave behind.
import { memoryStore } from 'holdfast/memory'
import { args, open, say } from './client.mjs'

const store = memoryStore()
const leases = await open({ store })
const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length

if (args[0] === 'release') {
  const lease = await leases.acquire('k')
  await lease.release()
  await leases.close()
} else if (args[0] === 'many') {
  for (let i = 0; i < 10_000; i++) {
    const lease = await leases.acquire(`k${i}`, { ttlMs: 3_600_000 })
    await lease.release()
  }
  say(`timers ${timers()}`)
  process.exit(0)
} else if (args[0] === 'wait') {
  // Nothing else is pending: the wait must keep the process until it has its answer.
  await store.acquire({ key: 'k', claim: 'c', holder: 'other', ttlMs: 1_000 })
  leases.acquire('k', { waitMs: 30_000 }).then(async (lease) => {
    say(`token ${lease.token}`)
    await lease.release()
  })
} else if (args[0] === 'forget') {
  // The documented choice: a lease that is held keeps its process, and is renewed.
  await leases.acquire('k', { ttlMs: 2_000 })
  setTimeout(async () => {
    say(`holder ${(await store.inspect('k')).state}`)
  }, 3_000).unref()
}
say('done')
