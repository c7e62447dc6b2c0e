// The same seed gives the same history on every version of Node: the newer one, from the tests' folder of clients, draws the
// same fingerprint; and a failing run is made short.
import { execFileSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { simulate } from 'holdfast/testing'
import { describe, expect, it } from 'vitest'
import { fingerprint } from '../../src/testing/simulation/report.js'

const here = dirname(fileURLToPath(import.meta.url))
const newerNode = join(here, '../clients/node_modules/.bin/node')
const sim = join(here, '../../../../scripts/sim.mjs')

describe('replay', () => {
  it.each([3, 9, 16, 17])('seed %d gives the same history under a newer Node', async (seed) => {
    const version = execFileSync(newerNode, ['--version'], { encoding: 'utf8' })
    expect(version.trim()).not.toBe(process.version)
    const output = execFileSync(newerNode, [sim, '--seed', String(seed), '--quiet'], { encoding: 'utf8' })
    const { history } = await simulate({ seed })
    expect(output).toContain(`fingerprint ${fingerprint(history)}`)
  })
})
