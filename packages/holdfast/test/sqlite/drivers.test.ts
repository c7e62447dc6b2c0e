// The cases of the store and the fence on all three drivers: libsql and better-sqlite3 here, node:sqlite under a newer Node.
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, it } from 'vitest'
import type { SqliteDatabaseClass } from '../../src/stores/sqlite/index.js'
import { busyCases } from './busy-cases.js'
import { checkClients, loadDriver, newerNode } from './drivers.js'
import { fenceCases } from './fence-cases.js'
import { runCase } from './harness.js'
import { plainCases } from './plain-cases.js'
import { storeCases } from './store-cases.js'

const suites = [
  ['store', storeCases],
  ['refused as busy', busyCases],
  ['fence', fenceCases],
  ['plain statements', plainCases],
] as const

describe.each(['libsql', 'better-sqlite3'] as const)('%s', (name) => {
  let Database: SqliteDatabaseClass
  beforeAll(async () => {
    Database = await loadDriver(name)
  })
  describe.each(suites)('%s', (_, cases) => {
    it.each(cases.map((one) => [one.name, one] as const))('%s', (_name, one) => runCase(one, Database))
  })
})

describe('node:sqlite', () => {
  const failures = new Map<string, string>()
  beforeAll(() => {
    checkClients()
    const program = fileURLToPath(new URL('./run-cases.ts', import.meta.url))
    const loader = createRequire(import.meta.url).resolve('tsx')
    const args = ['--no-warnings', '--import', loader, program, 'node:sqlite']
    const { stdout, stderr, status } = spawnSync(newerNode, args, { encoding: 'utf8' })
    if (status !== 0) throw new Error(`the cases did not run: ${stderr}`)
    for (const [name, failure] of JSON.parse(stdout) as [string, string][]) failures.set(name, failure)
  })
  describe.each(suites)('%s', (suite, cases) => {
    it.each(cases.map((one) => [one.name] as const))('%s', (name) => {
      const failure = failures.get(`${suite} ${name}`)
      if (failure === undefined) throw new Error('the case did not run')
      if (failure !== '') throw new Error(failure)
    })
  })
})
