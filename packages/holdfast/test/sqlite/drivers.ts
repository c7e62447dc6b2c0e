// The three drivers that the SQLite store and fence run on. libsql comes with the workspace; the others are installed in
// test/clients, since one of them compiles and one is a newer Node.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { SqliteDatabaseClass } from '../../src/stores/sqlite/index.js'

export type DriverName = 'libsql' | 'better-sqlite3' | 'node:sqlite'

const clients = fileURLToPath(new URL('../clients', import.meta.url))

/** A Node that has `node:sqlite`. */
export const newerNode = join(clients, 'node_modules/.bin/node')

/** Fails with the command that installs what is missing. */
export function checkClients(): void {
  for (const path of [newerNode, join(clients, 'node_modules/better-sqlite3')]) {
    if (!existsSync(path))
      throw new Error(`the clients of these tests are not installed: run npm ci --prefix ${clients}`)
  }
  const { stdout } = spawnSync(newerNode, ['--version'], { encoding: 'utf8' })
  if (!/^v2[2-9]/.test(stdout)) throw new Error(`${newerNode} must be Node 22 or newer: run npm ci --prefix ${clients}`)
}

/** The class of a driver. `node:sqlite` only under the newer Node. */
export async function loadDriver(name: DriverName): Promise<SqliteDatabaseClass> {
  if (name === 'libsql') return createRequire(import.meta.url)('libsql')
  if (name === 'better-sqlite3') {
    checkClients()
    return createRequire(join(clients, 'package.json'))('better-sqlite3')
  }
  const { DatabaseSync } = await import(/* @vite-ignore */ name)
  return DatabaseSync
}
