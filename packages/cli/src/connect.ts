// From what the user said to an open store. The URL comes from `--store`, else from HOLDFAST_STORE (which keeps a password out
// of the list of processes), else it is a SQLite file in the user's state directory. What the schemes mean is in stores/.
import { mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { openUrl } from './stores/index.js'
import type { Connection } from './stores/scheme.js'
import { sqlitePath, sqliteUrl } from './stores/sqlite-url.js'

/** Where the store is named: by option, by environment, or not at all. */
export interface StoreChoice {
  readonly url: string
  readonly isDefault: boolean
}

/** Which store is meant. `option` is the value of `--store`. */
export function chooseStore(option: string | undefined, env: NodeJS.ProcessEnv = process.env): StoreChoice {
  const url = option ?? (env.HOLDFAST_STORE === '' ? undefined : env.HOLDFAST_STORE)
  if (url !== undefined) return { url, isDefault: false }
  return { url: sqliteUrl(defaultPath(env)), isDefault: true }
}

/** Opens a store. Throws `CliError`: 64 for a URL that cannot be right, 69 for a store that cannot be reached in bounded time. */
export async function connect({ url, isDefault }: StoreChoice, { forDoctor = false } = {}): Promise<Connection> {
  if (isDefault) mkdirSync(dirname(sqlitePath(url)), { recursive: true, mode: 0o700 })
  const connection = await openUrl(url)
  try {
    if (!(forDoctor && connection.doctorWhenDown)) await connection.ready?.()
    return connection
  } catch (error) {
    await connection.store.close()
    throw error
  }
}

/** Opens the store that the options name, and says on stderr which one when nobody named it. */
export async function connectAs(option: string | undefined): Promise<Connection> {
  const choice = chooseStore(option)
  const connection = await connect(choice)
  if (choice.isDefault)
    process.stderr.write(`holdfast: using ${connection.shown} (name another with --store or HOLDFAST_STORE)\n`)
  return connection
}

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
