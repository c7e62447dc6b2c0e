// The types of the real drivers fit what the store and the fence ask for: compiled with the drivers' own declarations, which
// only the clients folder has.
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { checkClients } from './drivers.js'

it('better-sqlite3, libsql and node:sqlite are assignable, and what is wrong is not', () => {
  checkClients()
  const tsc = createRequire(import.meta.url).resolve('typescript/lib/tsc.js')
  const project = fileURLToPath(new URL('../clients/types', import.meta.url))
  const { stdout, status } = spawnSync(process.execPath, [tsc, '-p', project], { encoding: 'utf8' })
  expect({ stdout, status }).toEqual({ stdout: '', status: 0 })
})
