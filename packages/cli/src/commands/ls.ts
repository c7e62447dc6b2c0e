// `holdfast ls`: which leases are held, and who waits.
import type { Command } from 'commander'
import type { LeaseRecord } from 'holdfast'
import { shownName, table } from '../text.js'
import { type StoreOptions, withOpenStore, withStore } from './options.js'
import { leftOf, recordAsJson, waitingOf } from './records.js'

const HELP = `
Columns: the key, who holds it (or held it last), its fencing token, what is left of the term by the store's clock,
how often it changed hands, and who waits in the store's queue, first in line first.
With --json: one array of objects.`

export function addLs(program: Command): void {
  const command = program
    .command('ls')
    .description('list the leases that are held or waited for')
    .option('--prefix <text>', 'only keys that start with this', '')
    .option('--all', 'also keys that are free but remembered')
    .option('--json', 'print JSON')
    .addHelpText('after', HELP)
  withStore(command).action(async (options: StoreOptions & { prefix: string; all?: boolean; json?: boolean }) => {
    const records: LeaseRecord[] = []
    await withOpenStore(options, async (store) => {
      for await (const record of store.list({ prefix: options.prefix, free: options.all === true }))
        records.push(record)
    })
    process.stdout.write(options.json ? `${JSON.stringify(records.map(recordAsJson), null, 2)}\n` : asTable(records))
    if (!options.json && records.length === 0) process.stderr.write('holdfast: no leases are held\n')
  })
}

function asTable(records: readonly LeaseRecord[]): string {
  const rows = records.map((record) => [
    shownName(record.key),
    shownName(record.holder),
    String(record.token),
    leftOf(record),
    String(record.changes),
    waitingOf(record),
  ])
  return table(['KEY', 'HOLDER', 'TOKEN', 'LEFT', 'CHANGES', 'WAITING'], rows, new Set(['TOKEN', 'CHANGES']))
}
