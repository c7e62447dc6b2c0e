// `holdfast show KEY`: all that the store knows of one lease.
import type { Command } from 'commander'
import type { LeaseRecord, LeaseStore } from 'holdfast'
import { CliError, EXIT } from '../exit.js'
import { printable, quote, roughDuration, shownName } from '../text.js'
import { checkKey } from './key.js'
import { type StoreOptions, withOpenStore, withStore } from './options.js'
import { leftOf, recordAsJson, waitingOf } from './records.js'

export function addShow(program: Command): void {
  const command = program
    .command('show')
    .argument('<key>')
    .description('show one lease')
    .option('--json', 'print one JSON object')
    .addHelpText('after', `\nExits with ${EXIT.nothing} when the store knows nothing of the key.`)
  withStore(command).action(async (key: string, options: StoreOptions & { json?: boolean }) => {
    checkKey(key)
    const record = await withOpenStore(options, (store) => inspect(store, key))
    process.stdout.write(options.json ? `${JSON.stringify(recordAsJson(record), null, 2)}\n` : asText(record))
  })
}

async function inspect(store: LeaseStore, key: string): Promise<LeaseRecord> {
  const record = await store.inspect(key)
  if (record === null) throw new CliError(EXIT.nothing, `the store knows nothing of the key ${quote(key)}`)
  return record
}

function asText(record: LeaseRecord): string {
  const held = record.state === 'held'
  const lines: [string, string][] = [
    ['key', shownName(record.key)],
    ['state', `${record.state}${record.revoked ? ', revoked: its term runs out' : ''}`],
    [held ? 'holder' : 'last holder', shownName(record.holder) || '-'],
    ['token', String(record.token)],
    ['left', held ? `${leftOf(record)} of ${roughDuration(record.ttlMs)}` : '-'],
    ['held for', held ? roughDuration(record.heldMs) : '-'],
    ['changes', String(record.changes)],
    ['waiting', waitingOf(record)],
  ]
  if (record.meta !== null) lines.push(['meta', printable(JSON.stringify(record.meta))])
  return lines.map(([name, value]) => `${name.padEnd(12)} ${value}\n`).join('')
}
