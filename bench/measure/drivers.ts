// The SQLite drivers that are there: libsql comes with the workspace, better-sqlite3 compiles and is installed by the tests in
// a folder of their own, node:sqlite comes with newer versions of Node.
import { createRequire } from 'node:module'
import type { SqliteDatabaseClass } from 'holdfast/sqlite'

export interface Driver {
  readonly name: string
  readonly Database: SqliteDatabaseClass
}

const require = createRequire(import.meta.url)
const COMPILED = '../../packages/holdfast/test/clients/node_modules/better-sqlite3'

const ways: Record<string, () => SqliteDatabaseClass> = {
  libsql: () => require('libsql'),
  'better-sqlite3': () => require(COMPILED),
  'node:sqlite': () => require('node:sqlite').DatabaseSync,
}

/** A driver by its name; undefined where it is not installed, or was compiled for another Node. */
export function driver(name: string): Driver | undefined {
  try {
    const Database = ways[name]?.()
    if (Database === undefined) return undefined
    new Database(':memory:').close()
    return { name, Database }
  } catch {
    return undefined
  }
}

/** All drivers that are there. */
export const drivers = (): Driver[] => Object.keys(ways).flatMap((name) => driver(name) ?? [])
