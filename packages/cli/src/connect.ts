// From a store URL to a store. The URL comes from `--store`, else from HOLDFAST_STORE (which keeps a password out of the list
// of processes), else it is a SQLite file in the user's state directory. No message ever repeats more of a URL than its scheme
// and, for files, its path.
import { existsSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import type { LeaseStore } from 'holdfast'
import { sqliteStore } from 'holdfast/sqlite'
import Database from 'libsql'
import { CliError, EXIT, usageError } from './exit.js'
import { printable } from './text.js'

/** An open store. */
export interface Connection {
  readonly store: LeaseStore
  /** The URL without secrets, for people. */
  readonly shown: string
  /** Which fence the demo plays: that of the store's own technology, where it has one. */
  readonly fence: 'sqlite' | null
}

/** Where the store is named: by option, by environment, or not at all. */
export interface StoreChoice {
  readonly url: string
  readonly isDefault: boolean
}

/** The schemes of other stores: known, and not in this version. */
const LATER = [
  'redis',
  'rediss',
  'redis+sentinel',
  'redis+cluster',
  'postgres',
  'postgresql',
  'mysql',
  'mariadb',
  'etcd',
  'nats',
  'kubernetes',
  'quorum',
]

/** Which store is meant. `option` is the value of `--store`. */
export function chooseStore(option: string | undefined, env: NodeJS.ProcessEnv = process.env): StoreChoice {
  const url = option ?? (env.HOLDFAST_STORE === '' ? undefined : env.HOLDFAST_STORE)
  if (url !== undefined) return { url, isDefault: false }
  return { url: `sqlite:${encodeURI(defaultPath(env)).replaceAll('#', '%23').replaceAll('?', '%3F')}`, isDefault: true }
}

/** Opens a store. Throws `CliError`: 64 for a URL that cannot be right, 69 for a store that cannot be opened. */
export function connect({ url, isDefault }: StoreChoice): Connection {
  const path = sqlitePath(url)
  try {
    if (isDefault) mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    else if (!existsSync(dirname(path))) throw new Error('its folder does not exist; make it first')
    return { store: sqliteStore({ path, Database }), shown: `sqlite:${printable(path)}`, fence: 'sqlite' }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new CliError(EXIT.unavailable, `cannot open the store sqlite:${path}: ${why}`, { cause })
  }
}

/** Opens the store that the options name, and says on stderr which one when nobody named it. */
export function connectAs(option: string | undefined): Connection {
  const choice = chooseStore(option)
  const connection = connect(choice)
  if (choice.isDefault)
    process.stderr.write(`holdfast: using ${connection.shown} (name another with --store or HOLDFAST_STORE)\n`)
  return connection
}

/** The path in a `sqlite:` URL; anything else is refused with what to do. */
export function sqlitePath(url: string): string {
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase()
  if (scheme === undefined || /^[a-z]:[\\/]/i.test(url)) {
    const hint = looksLikePath(url) ? `; for a SQLite file write sqlite:${url}` : ''
    throw usageError(`the store must be named by a URL such as sqlite:./leases.db${hint}`)
  }
  if (LATER.includes(scheme)) {
    throw usageError(
      `stores of the scheme ${scheme}: are not yet in this version; it has sqlite: (a file on this machine)`,
    )
  }
  if (scheme !== 'sqlite')
    throw usageError(`unknown store scheme ${scheme}:; this version has sqlite: (a file on this machine)`)

  const text = url.slice('sqlite:'.length)
  if (/[?#]/.test(text)) throw usageError('a sqlite: URL takes no "?" or "#"; in a file name write them as %3F and %23')
  const path = decode(text.startsWith('///') ? text.slice(2) : text)
  if (path === '' || path.includes('\0'))
    throw usageError('a sqlite: URL needs the path of a file, as in sqlite:./leases.db')
  if (path.startsWith('//'))
    throw usageError('a sqlite: URL names no host: write sqlite:/absolute/path or sqlite:./relative/path')
  if (path === ':memory:') throw usageError('sqlite::memory: would be seen by this process alone; name a file')
  if (path === '~' || path.startsWith('~/')) return join(homedir(), path.slice(1))
  return resolve(path)
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw usageError('the sqlite: URL has a "%" that is followed by no character code; write a plain "%" as %25')
  }
}

/** Whether it may be repeated in a message: a path, and surely nothing that carries a password. */
const looksLikePath = (text: string) => /^[\w./~ \\:-]+$/.test(text) && !text.includes('@')

/** The file of the user's own leases, where the platform keeps such things. */
function defaultPath(env: NodeJS.ProcessEnv): string {
  return join(stateDirectory(env), 'holdfast', 'leases.db')
}

function stateDirectory(env: NodeJS.ProcessEnv): string {
  const home = homedir()
  if (process.platform === 'win32') return env.LOCALAPPDATA ?? join(home, 'AppData', 'Local')
  if (process.platform === 'darwin') return join(home, 'Library', 'Application Support')
  const named = env.XDG_STATE_HOME
  // A relative path is to be ignored: so says the XDG base directory specification.
  return named !== undefined && isAbsolute(named) ? named : join(home, '.local', 'state')
}
