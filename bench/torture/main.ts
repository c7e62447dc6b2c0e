// `npm run torture`: does to each library what networks, servers and slow processes do, and prints what each did.
import { spawn } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { peers } from '../peers/index.js'
import type { Library } from '../peers/library.js'
import { areInstalled, install } from '../peers/load.js'
import type { Fault, Line } from './fault.js'
import { faults } from './faults/index.js'
import { holdfast } from './holdfast.js'
import { type Cell, page } from './page.js'

const USAGE = `npm run torture [-- --fault NAME] [--library NAME] [--write FILE]

  --fault NAME     only this fault
  --library NAME   only this library
  --write FILE     puts the tables into a file, between <!-- tables --> and <!-- end of tables -->

faults: ${faults.map(({ name }) => name).join(', ')}
libraries: ${[holdfast, ...peers].map(({ name }) => name).join(', ')}`

const CELL_MS_MAX = 120_000
const AT_ONCE = 2
const BETWEEN = /(<!-- tables -->\n)[\s\S]*(\n<!-- end of tables -->)/

const program = fileURLToPath(new URL('cell.ts', import.meta.url))
const loader = createRequire(import.meta.url).resolve('tsx')

/** What a library did, told by its process, or by how that ended. */
function run(fault: Fault, library: Library): Promise<Line> {
  const child = spawn(process.execPath, ['--import', loader, program, fault.name, library.name], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    out += part
  })
  child.stderr.setEncoding('utf8').on('data', (part: string) => {
    err += part
  })
  const timer = setTimeout(() => child.kill('SIGTERM'), CELL_MS_MAX)
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => {
      clearTimeout(timer)
      const last = out.trimEnd().split('\n').at(-1) ?? ''
      if (code === 0 && last.startsWith('{')) return resolve(JSON.parse(last) as Line)
      const reason = /^\s*\[?(\w*Error: [^\n.\]]*)/m.exec(err)?.[1] ?? `code ${code}`
      resolve({ did: `the process ended, by an unhandled rejection (${reason})`, verdict: 'no' })
      console.error(err)
    })
  })
}

async function main(): Promise<void> {
  const string = { type: 'string' } as const
  const { values } = parseArgs({ options: { fault: string, library: string, write: string } })
  const chosenFaults = faults.filter(({ name }) => name === (values.fault ?? name))
  const libraries = [holdfast, ...peers].filter(({ name }) => name === (values.library ?? name))
  if (chosenFaults.length === 0 || libraries.length === 0) throw new Error(`no such fault or library\n\n${USAGE}`)
  if (libraries.some((library) => library !== holdfast) && !areInstalled()) install()

  const cells: Cell[] = []
  const rest = chosenFaults.flatMap((fault) => libraries.map((library) => ({ fault, library })))
  const work = async () => {
    for (let next = rest.shift(); next !== undefined; next = rest.shift()) {
      const { fault, library } = next
      const line = await run(fault, library)
      console.error(`${fault.name}  ${library.name}  ${line.verdict}  ${line.did}`)
      cells.push({ fault, library, line })
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  const text = page(chosenFaults, libraries, cells)
  if (values.write === undefined) return console.log(text)
  const before = await readFile(values.write, 'utf8')
  if (!BETWEEN.test(before)) throw new Error(`${values.write} has no place for the tables`)
  await writeFile(
    values.write,
    before.replace(BETWEEN, (_, start: string, end: string) => `${start}\n${text}${end}`),
  )
}

try {
  await main()
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 64
}
