// The suite under node's own test runner, from the built package. That it runs under vitest, the other tests here show.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { checkConformance, conformance } from '../../src/testing/index.js'
import { goodHabits, naiveTarget } from './naive-store.js'

const program = fileURLToPath(new URL('./with-node-test.mjs', import.meta.url))

function run(...args: string[]): Promise<{ code: unknown; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, ['--test-reporter=tap', program, ...args], (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : error.code, output: stdout + stderr })
    })
  })
}

describe('runConformance', () => {
  it('runs under node:test, and skips what the target cannot be asked for', async () => {
    const { code, output } = await run()
    const skipped = conformance.filter((one) => one.needs?.some((need) => need === 'open' || need === 'prune')).length
    expect(output).toContain(`# pass ${conformance.length - skipped}\n`)
    expect(output).toContain(`# skipped ${skipped}\n`)
    expect([code, output.includes('# fail 0\n')]).toEqual([0, true])
  }, 60_000)

  it('fails under node:test when the store is wrong', async () => {
    const { code, output } = await run('broken')
    expect(code).toBe(1)
    expect(output).toMatch(/not ok \d+ - G4-no-renewal-after-expiry/)
    expect(output).toMatch(/the renewal of claim a should be lost \(expired\)/)
  }, 60_000)
})

describe('checkConformance', () => {
  it('tells what became of each case, and never rejects', async () => {
    const { open: _, prune: __, ...poor } = naiveTarget(goodHabits)
    const results = await checkConformance(
      () => poor,
      conformance.filter((one) => one.needs?.includes('prune')),
    )
    expect(new Set(results.map(({ outcome }) => outcome))).toEqual(new Set(['not applicable']))
    const [first] = await checkConformance(() => Promise.reject(new Error('no server')), conformance.slice(0, 1))
    expect(first).toMatchObject({ outcome: 'failed', error: { message: 'no server' } })
  })
})
