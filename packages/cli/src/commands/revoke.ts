// `holdfast revoke KEY`: takes a lease away from its holder, gently, or at once with --force.
import type { Command } from 'commander'
import type { LeaseRecord } from 'holdfast'
import { CliError, EXIT } from '../exit.js'
import { quote, roughDuration, shownName } from '../text.js'
import { checkKey } from './key.js'
import { type StoreOptions, withOpenStore, withStore } from './options.js'
import { recordAsJson } from './records.js'

const HELP = `
Without --force the holder's renewals are refused from now on: it learns of it at its next renewal, and at the latest its
term runs out. Nobody else gets in before that, so nobody is overtaken while it believes that it holds the lease.
With --force the key is free at once. That breaks exclusion: until its next renewal the old holder still believes that it
holds, and acts beside the new one. Fences still refuse the old one's writes.
Exits with ${EXIT.nothing} when nobody holds the key. With --json: the record as it was before.`

export function addRevoke(program: Command): void {
  const command = program
    .command('revoke')
    .argument('<key>')
    .description('take a lease away from its holder')
    .option('--force', 'free the key at once, although its holder may still act (breaks exclusion)')
    .option('--json', 'print one JSON object')
    .addHelpText('after', HELP)
  withStore(command).action(async (key: string, options: StoreOptions & { force?: boolean; json?: boolean }) => {
    checkKey(key)
    const force = options.force === true
    const before = await withOpenStore(options, (store) => store.revoke(key, { force }))
    if (before === null) throw new CliError(EXIT.nothing, `nobody holds ${quote(key)}`)
    process.stdout.write(options.json ? `${JSON.stringify(recordAsJson(before), null, 2)}\n` : asText(before, force))
    if (force) {
      process.stderr.write(
        'holdfast: warning: exclusion is broken: until its next renewal the old holder believes that it holds, and only fences stop it\n',
      )
    }
  })
}

function asText(before: LeaseRecord, force: boolean): string {
  const whose = `${shownName(before.key)}, held by ${shownName(before.holder)} with token ${before.token}`
  if (force) return `freed ${whose}\n`
  return `revoked ${whose}: it cannot be renewed any more, and runs out in ${roughDuration(before.remainingMs)} at the latest\n`
}
