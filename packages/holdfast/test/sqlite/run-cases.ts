// Runs the cases on one driver outside the test runner: `run-cases.ts node:sqlite` under a Node that has it. Prints for each
// case its name and what went wrong, as JSON.

import { busyCases } from './busy-cases.js'
import { type DriverName, loadDriver } from './drivers.js'
import { fenceCases } from './fence-cases.js'
import { runCase } from './harness.js'
import { plainCases } from './plain-cases.js'
import { storeCases } from './store-cases.js'

const Database = await loadDriver(process.argv[2] as DriverName)
const results: [string, string][] = []
for (const [suite, cases] of [
  ['store', storeCases],
  ['refused as busy', busyCases],
  ['fence', fenceCases],
  ['plain statements', plainCases],
] as const) {
  for (const one of cases) {
    const failure = await Promise.resolve(runCase(one, Database)).then(
      () => '',
      (error) => (error instanceof Error ? (error.stack ?? error.message) : String(error)),
    )
    results.push([`${suite} ${one.name}`, failure])
  }
}
console.log(JSON.stringify(results))
