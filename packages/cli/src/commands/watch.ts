// `holdfast watch KEY`: a line at each change, until Ctrl-C.
import type { Command } from 'commander'
import type { LeaseRecord } from 'holdfast'
import { EXIT } from '../exit.js'
import { roughDuration, shownName } from '../text.js'
import { checkKey } from './key.js'
import { type StoreOptions, withOpenStore, withStore } from './options.js'
import { recordAsJson } from './records.js'

/** How often the store is asked. Tokens tell of changes that came and went between two looks. */
const LOOK_EVERY_MS = 250

const HELP = `
Prints the state at the start, then a line at each change of hands, revocation, release or expiry, and when somebody
begins or ceases to wait. Looks four times a second: a holder that came and went between two looks is seen in the
count of changes only. Ctrl-C ends it, with exit code 0. With --json: one object a line, null for an unknown key.`

export function addWatch(program: Command): void {
  const command = program
    .command('watch')
    .argument('<key>')
    .description('print a line at each change of one lease, until Ctrl-C')
    .option('--json', 'print one JSON object a line')
    .addHelpText('after', HELP)
  withStore(command).action(async (key: string, options: StoreOptions & { json?: boolean }) => {
    checkKey(key)
    await withOpenStore(options, async (store) => {
      const stop = stopped()
      let before: string | undefined
      while (!stop.signal.aborted) {
        const record = await store.inspect(key)
        const seen = whatCounts(record)
        if (seen !== before)
          process.stdout.write(
            options.json ? `${JSON.stringify(record && recordAsJson(record))}\n` : `${asLine(key, record)}\n`,
          )
        before = seen
        await stop.sleep(LOOK_EVERY_MS)
      }
    })
    process.exitCode = EXIT.ok
  })
}

/** What makes a new line: not the time that passes, and not a renewal. */
function whatCounts(record: LeaseRecord | null): string {
  if (record === null) return ''
  const { state, token, changes, revoked, waiters } = record
  return JSON.stringify([state, token, changes, revoked, waiters.map(({ holder }) => holder)])
}

function asLine(key: string, record: LeaseRecord | null): string {
  const time = new Date().toISOString()
  if (record === null) return `${time}  ${shownName(key)}  unknown`
  const { token, changes } = record
  const waiting = record.waiters.length === 0 ? '' : `, ${record.waiters.length} waiting`
  const facts = `token ${token}, ${changes} ${changes === 1 ? 'change' : 'changes'}${waiting}`
  if (record.state === 'free') return `${time}  ${shownName(key)}  free (${facts})`
  const revoked = record.revoked ? ', revoked' : ''
  return `${time}  ${shownName(key)}  held by ${shownName(record.holder)} (${facts}, ${roughDuration(record.remainingMs)} left${revoked})`
}

/** A pause that Ctrl-C, or the end of the reader, cuts short. */
function stopped(): { signal: AbortSignal; sleep(ms: number): Promise<void> } {
  const controller = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => controller.abort())
  return {
    signal: controller.signal,
    sleep: (ms) =>
      new Promise((resolve) => {
        const done = () => {
          clearTimeout(timer)
          controller.signal.removeEventListener('abort', done)
          resolve()
        }
        const timer = setTimeout(done, ms)
        controller.signal.addEventListener('abort', done)
      }),
  }
}
