// What the store's tables and procedures are called: any database, any table; quoted, so that a name is only that.
import { InvalidArgumentError } from '../../lease/errors.js'

/** Where the tables are. */
export interface MysqlNames {
  /** The database, made if need be. Default: the one that the pool's connections are in. */
  readonly database?: string
  /** The table of leases; what else is needed is named after it. Default `holdfast_lease`. */
  readonly table?: string
}

/** The longest name that MySQL takes, and so much of it is left for a table when the longest ending is added. */
const NAME_LENGTH_MAX = 64
const TABLE_LENGTH_MAX = 46

/** A name, quoted with backticks, which stand for themselves under any `sql_mode`. */
export function identifier(option: string, name: unknown, lengthMax = NAME_LENGTH_MAX): string {
  if (typeof name !== 'string' || name === '' || /[\0\uD800-\uDFFF]/.test(name) || name.endsWith(' ')) {
    throw new InvalidArgumentError(
      option,
      name,
      'must be a name that MySQL takes: non-empty text of characters up to U+FFFF, without NUL, not ending in a space',
    )
  }
  if (name.length > lengthMax) {
    throw new InvalidArgumentError(option, name, `must be at most ${lengthMax} characters long`)
  }
  return `\`${name.replaceAll('`', '``')}\``
}

/** The quoted names of one store. */
export interface Names {
  /** Undefined: that of the connection. */
  readonly database: string | undefined
  readonly leases: string
  readonly waiters: string
  readonly ended: string
  readonly meta: string
  /** The quoted name of a procedure. */
  procedure(verb: string): string
}

/** The version of tables and procedures. A new one gets procedures of its own, so that both can be called for a while. */
export const VERSION = 1

/** Throws InvalidArgumentError for names that MySQL would not take. */
export function namesOf({ database, table = 'holdfast_lease' }: MysqlNames = {}): Names {
  const inDatabase = database === undefined ? undefined : identifier('database', database)
  identifier('table', table, TABLE_LENGTH_MAX)
  const of = (ending: string) =>
    `${inDatabase === undefined ? '' : `${inDatabase}.`}${identifier('table', table + ending)}`
  return {
    database: inDatabase,
    leases: of(''),
    waiters: of('_waiter'),
    ended: of('_ended'),
    meta: of('_meta'),
    procedure: (verb) => of(`_v${VERSION}_${verb}`),
  }
}
