// `holdfast doctor`: what the settings of the store's servers do to the promises.
import type { Command } from 'commander'
import { chooseStore, connect } from '../connect.js'
import type { Finding, Level } from '../doctor/finding.js'
import { CliError, EXIT } from '../exit.js'
import { printable, table } from '../text.js'
import { type StoreOptions, withStore } from './options.js'

const HELP = `
Levels: ok; note: good to know, or it could not be read; warning: a promise breaks in a case that happens; problem: a promise
does not hold, or nothing works. TOUCHES names the promises (G1 to G13) and assumptions (A1 to A3) of docs/design.md.
On Redis it also tries what the store does on a key of its own, which is gone after seconds. It changes no setting.
Exits with ${EXIT.ok} when nothing is a problem, and with ${EXIT.problem} when something is. With --json: one object.`

export function addDoctor(program: Command): void {
  const command = program
    .command('doctor')
    .description("report what the settings of the store's servers do to the promises")
    .option('--json', 'print one JSON object')
    .addHelpText('after', HELP)
  withStore(command).action(async (options: StoreOptions & { json?: boolean }) => {
    const { shown, findings } = await examine(options.store)
    process.stdout.write(options.json ? asJson(shown, findings) : asText(shown, findings))
    process.exitCode = findings.some(({ level }) => level === 'problem') ? EXIT.problem : EXIT.ok
  })
}

async function examine(option: string | undefined): Promise<{ shown: string; findings: Finding[] }> {
  const connection = await connect(chooseStore(option), { forDoctor: true })
  const { store, shown, doctor } = connection
  try {
    if (doctor === undefined) throw new CliError(EXIT.unavailable, `doctor knows nothing yet about ${shown}`)
    return { shown, findings: await doctor() }
  } finally {
    await store.close()
  }
}

const asJson = (store: string, findings: readonly Finding[]): string =>
  `${JSON.stringify({ store, problems: countOf(findings, 'problem'), findings }, null, 2)}\n`

function asText(store: string, findings: readonly Finding[]): string {
  const several = findings.some(({ where }) => where !== undefined)
  const rows = findings.map(({ level, where, what, read, touches }) => [
    level,
    ...(several ? [printable(where ?? '-')] : []),
    what,
    printable(read),
    touches.join(' ') || '-',
  ])
  const heading = ['LEVEL', ...(several ? ['SERVER'] : []), 'WHAT', 'READ', 'TOUCHES']
  const advice = LEVELS.flatMap((level) =>
    findings
      .filter((one) => one.level === level && one.advice !== '')
      .map(({ where, what, advice }) => {
        const which = where === undefined ? what : `${what} of ${printable(where)}`
        return `${level}: ${which}: ${printable(advice)}\n`
      }),
  )
  const counts = LEVELS.map(
    (level) => `${countOf(findings, level)} ${level}${countOf(findings, level) === 1 ? '' : 's'}`,
  )
  return `${store}\n\n${table(heading, rows)}\n${advice.join('')}${advice.length > 0 ? '\n' : ''}${counts.join(', ')}\n`
}

/** What is said first. */
const LEVELS = ['problem', 'warning', 'note'] as const satisfies readonly Level[]

const countOf = (findings: readonly Finding[], level: Level) => findings.filter((one) => one.level === level).length
