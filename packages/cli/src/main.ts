#!/usr/bin/env node
// `holdfast` on the command line: reads the arguments, runs a command, and turns every failure into one line on stderr and a
// documented exit code. HOLDFAST_DEBUG=1 adds the stack.
import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { addDemo } from './commands/demo.js'
import { addDoctor } from './commands/doctor.js'
import { addLs } from './commands/ls.js'
import { asCliError } from './commands/options.js'
import { addRevoke } from './commands/revoke.js'
import { addRun } from './commands/run.js'
import { addSchema } from './commands/schema.js'
import { addShow } from './commands/show.js'
import { addWatch } from './commands/watch.js'
import { EXIT } from './exit.js'
import { SCHEMES } from './stores/index.js'
import { printable } from './text.js'

const HELP = `
Store: --store URL, else the environment variable HOLDFAST_STORE (which keeps a password out of the list of processes),
else a SQLite file in this user's state directory. Stores of this version:
  ${SCHEMES.flatMap(({ forms }) => forms).join('\n  ')}
Failures print one line; HOLDFAST_DEBUG=1 adds where they came from. holdfast COMMAND --help tells more of each command.`

function program(): Command {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  const root = new Command('holdfast')
    .description('leases with fencing tokens, over the store that you already run')
    .version(version, '--version')
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      outputError: (text, write) => write(`holdfast: ${printable(text.replace(/^error: /, '').trim())}\n`),
    })
    .addHelpText('after', HELP)
  for (const add of [addDemo, addRun, addLs, addShow, addWatch, addRevoke, addDoctor, addSchema]) add(root)
  return root
}

// A reader that has seen enough (`holdfast ls | head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT.ok)
  throw error
})
process.stderr.on('error', () => {})

try {
  await program().parseAsync()
} catch (error) {
  process.exitCode = error instanceof CommanderError ? (error.exitCode === 0 ? EXIT.ok : EXIT.usage) : report(error)
}

function report(error: unknown): number {
  const { exitCode, message, cause } = asCliError(error)
  process.stderr.write(`holdfast: ${printable(message)}\n`)
  if (process.env.HOLDFAST_DEBUG) process.stderr.write(tracesOf(cause ?? error))
  return exitCode
}

/** Where it came from, and what caused it. Not the errors as they are: some hold what was sent, passwords too. */
function tracesOf(error: unknown): string {
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error)
  const cause = error instanceof Error && error.cause !== undefined ? `caused by: ${tracesOf(error.cause)}` : ''
  return `${stack}\n${cause}`
}
