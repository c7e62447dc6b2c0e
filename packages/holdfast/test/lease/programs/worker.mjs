// C31: a process that works under a lease and is told to stop. Its work ends at once, slowly, or never.

import { sqliteStore } from 'holdfast/sqlite'
import Database from 'libsql'
import { args, open, pause, say } from './client.mjs'

const [path, how, ttlMs] = args
const leases = await open({ store: sqliteStore({ path, Database }), onLost: () => {} })
process.once('SIGTERM', () => {
  say('told to stop')
  leases.close({ drainMs: 1_000 }).then(
    () => say('closed'),
    (error) => say(`not closed: ${error.code} ${error.keys}`),
  )
})
const work = async ({ signal }) => {
  say('working')
  const alive = setInterval(() => {}, 1_000)
  await new Promise((resolve) => {
    signal.addEventListener('abort', resolve)
    process.once('SIGTERM', resolve) // whoever has no signal to wait for hears of it as well
  })
  if (how === 'slow') await pause(400)
  if (how === 'deaf') await pause(60_000)
  clearInterval(alive)
  say('work ended')
}
await leases.hold('job', { ttlMs: Number(ttlMs) }, work).catch((error) => say(`hold: ${error.code ?? error.message}`))
