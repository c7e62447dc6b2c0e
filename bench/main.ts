// `npm run bench`: runs one benchmark by its name, or says which there are.
import { writeFile } from 'node:fs/promises'
import { ROUNDS_MIN, SECONDS } from './harness/benchmark.js'
import { listing, load, names } from './harness/catalogue.js'
import { machine } from './harness/machine.js'
import { type Options, readOptions, USAGE, UsageError } from './harness/options.js'
import { rowsOf } from './harness/rows.js'
import { runRounds } from './harness/run.js'
import { NOTE, table } from './harness/table.js'
import { verdicts } from './harness/targets.js'
import { areInstalled, MISSING } from './peers/load.js'

const EXIT_USAGE = 64

async function main(options: Options): Promise<void> {
  if (options.name === undefined) return console.log(`${USAGE}\n\n${await listing()}`)
  if (!(await names()).includes(options.name)) throw new UsageError(`there is no benchmark ${options.name}`)
  const withPeers = options.peers && areInstalled()
  if (options.peers && !withPeers) console.error(MISSING)
  const benchmark = await load(options.name, withPeers)
  const rounds = options.rounds ?? Math.max(ROUNDS_MIN, benchmark.rounds ?? ROUNDS_MIN)
  const seconds = options.seconds ?? benchmark.seconds ?? SECONDS
  const when = new Date().toISOString()
  const onRound = (round: number) => console.error(round === 0 ? 'warm-up' : `round ${round} of ${rounds}`)
  const rows = rowsOf(benchmark, await runRounds(benchmark, { rounds, seconds, onRound }))
  const notes = [NOTE, ...(benchmark.notes ?? [])]
  console.log(
    `${benchmark.title}\n\n${table(rows)}\n\n${[...verdicts(benchmark.targets ?? [], rows), ...notes].join('\n')}`,
  )
  if (options.json === undefined) return
  await writeFile(
    options.json,
    `${JSON.stringify({ bench: benchmark.name, when, machine: machine(), rows }, null, 2)}\n`,
  )
}

try {
  await main(readOptions(process.argv.slice(2)))
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  console.error(`${error.message}\n\n${USAGE}\n\n${await listing()}`)
  process.exitCode = EXIT_USAGE
}
