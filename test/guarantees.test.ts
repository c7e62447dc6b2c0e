// The page of guarantees names what stands behind each promise. The lists are read off the code, so the page cannot claim more
// than there is: `npx vitest run test/guarantees.test.ts -u` writes them anew.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { conformance } from '../packages/holdfast/src/testing/index.js'
import { mutations } from '../packages/holdfast/test/simulation/mutations.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const page = join(root, 'docs/guarantees.md')
const START = '<!-- From here on the page is written by test/guarantees.test.ts. -->\n'

const numbers = Array.from({ length: 13 }, (_, i) => `G${i + 1}`)
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const cites = (text: string, number: string) => new RegExp(`\\b${number}\\b`).test(text)

const files = execFileSync('git', ['ls-files', 'packages'], { cwd: root, encoding: 'utf8' }).split('\n')
const checkers = files.filter((path) => /simulation\/checkers\/(?!index|store-view)[a-z-]+\.ts$/.test(path))
/** Test files that name a guarantee, but for those that the other lines speak of. */
const tests = files.filter((path) => /\/test\/.*\.ts$/.test(path) && !/\/(conformance|simulation)\//.test(path))

const evidence = (number: string) => ({
  'Conformance cases': conformance.filter(({ guarantee }) => guarantee === number).map(({ id }) => id),
  'Checkers of the simulation': checkers
    .filter((path) => read(path).includes(`guarantee: '${number}'`))
    .map((path) => basename(path, '.ts')),
  'Mutations found by the simulation': mutations
    .filter(({ expects }) => expects.includes(number))
    .map(({ name }) => name),
  Tests: tests.filter((path) => cites(read(path), number)).map((path) => path.replace(/^packages\//, '')),
})

it('every guarantee has something that stands behind it', () => {
  const bare = numbers.filter((number) => Object.values(evidence(number)).flat().length === 0)
  expect(bare).toEqual([])
})

it('the page of guarantees lists what stands behind each', async () => {
  const [head = ''] = readFileSync(page, 'utf8').split(START)
  const sections = numbers.map((number) => {
    const lines = Object.entries(evidence(number))
      .filter(([, names]) => names.length > 0)
      .map(([what, names]) => `- ${what}: ${names.map((name) => `\`${name}\``).join(', ')}\n`)
    return `\n### ${number}\n\n${lines.join('')}`
  })
  await expect(`${head}${START}${sections.join('')}`).toMatchFileSnapshot(page)
})
