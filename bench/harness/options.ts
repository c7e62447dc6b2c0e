// The command line of the harness: what may be asked, and what is refused before anything runs.
import { parseArgs } from 'node:util'
import { ROUNDS_MIN } from './benchmark.js'

export interface Options {
  readonly name: string | undefined
  /** Whether other people's libraries run as well. */
  readonly peers: boolean
  readonly json: string | undefined
  readonly rounds: number | undefined
  readonly seconds: number | undefined
}

/** A command line that cannot be run as it stands. */
export class UsageError extends Error {}

export const USAGE = `npm run bench -- NAME [--json FILE] [--rounds N] [--seconds S] [--peers]

  --json FILE   also writes the rows as JSON
  --rounds N    counted rounds after the warm-up, at least ${ROUNDS_MIN}
  --seconds S   length of each sample
  --peers       other libraries as well, where the benchmark has them (\`npm ci\` in bench/peers)`

export function readOptions(args: readonly string[]): Options {
  const { values, positionals } = parse(args)
  if (positionals.length > 1) throw new UsageError(`one benchmark at a time: ${positionals.join(', ')}`)
  const rounds = number('--rounds', values.rounds)
  if (rounds !== undefined && (!Number.isInteger(rounds) || rounds < ROUNDS_MIN)) {
    throw new UsageError(`--rounds ${values.rounds}: must be a whole number, ${ROUNDS_MIN} or more`)
  }
  const seconds = number('--seconds', values.seconds)
  if (seconds !== undefined && !(seconds > 0 && seconds < Number.POSITIVE_INFINITY)) {
    throw new UsageError(`--seconds ${values.seconds}: must be a number above 0`)
  }
  return { name: positionals[0], peers: values.peers ?? false, json: values.json, rounds, seconds }
}

function parse(args: readonly string[]) {
  const string = { type: 'string' } as const
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: { json: string, peers: { type: 'boolean' }, rounds: string, seconds: string },
    })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

function number(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (Number.isNaN(value)) throw new UsageError(`${option} ${text}: must be a number`)
  return value
}
