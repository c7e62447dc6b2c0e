// What the store's tables and functions are called: any schema, any table; quoted, so that a name is only that.
import { InvalidArgumentError } from '../../lease/errors.js'

/** Where the tables are. */
export interface PostgresNames {
  /** The schema, made if need be. Default `public`. */
  readonly schema?: string
  /** The table of leases; what else is needed is named after it. Default `holdfast_lease`. */
  readonly table?: string
}

/** Postgres cuts names off here; the longest ending that is added takes 16. */
const NAME_BYTES_MAX = 63
const TABLE_BYTES_MAX = 45

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** A name, quoted. Throws InvalidArgumentError for what cannot be one. */
export function identifier(option: string, name: unknown, bytesMax = NAME_BYTES_MAX): string {
  const bytes = encoder.encode(typeof name === 'string' ? name : '')
  // Half of a surrogate pair would go as U+FFFD, and two names would be one.
  if (typeof name !== 'string' || name === '' || name.includes('\0') || decoder.decode(bytes) !== name) {
    throw new InvalidArgumentError(option, name, 'must be a name: non-empty, well-formed text without NUL')
  }
  if (bytes.length > bytesMax) {
    throw new InvalidArgumentError(
      option,
      name,
      `must be at most ${bytesMax} bytes long, since Postgres cuts names off`,
    )
  }
  return `"${name.replaceAll('"', '""')}"`
}

/** A text as an SQL literal, under any setting of standard_conforming_strings. */
export const literal = (text: string): string =>
  `${text.includes('\\') ? ' E' : ''}'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`

/** The quoted names of one store. */
export interface Names {
  readonly schema: string
  readonly leases: string
  readonly waiters: string
  readonly ended: string
  readonly meta: string
  /** The quoted name of a function. */
  fn(verb: string): string
  /** What wake-ups are sent to. */
  readonly channel: string
}

/** The version of tables and functions. A new one gets functions of its own, so that both can be called for a while. */
export const VERSION = 1

export function namesOf({ schema = 'public', table = 'holdfast_lease' }: PostgresNames = {}): Names {
  const inSchema = identifier('schema', schema)
  identifier('table', table, TABLE_BYTES_MAX)
  const of = (ending: string) => `${inSchema}.${identifier('table', table + ending)}`
  return {
    schema: inSchema,
    leases: of(''),
    waiters: of('_waiter'),
    ended: of('_ended'),
    meta: of('_meta'),
    fn: (verb) => of(`_v${VERSION}_${verb}`),
    channel: hashed(`${schema}.${table}`),
  }
}

/** A short name for a text. Channels and statements have names that are cut off: two must not share one because they begin alike. */
export function hashed(text: string): string {
  let hash = 0xcbf29ce484222325n // FNV-1a, 64 bits
  for (const byte of encoder.encode(text)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n)
  return `holdfast_${hash.toString(16)}`
}
