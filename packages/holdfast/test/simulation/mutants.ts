// Makes a mutant: a copy of the built package with one guard taken away, and runs the simulation of that copy in a process of
// its own until it finds a violation, or has tried all seeds.
import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Mutation } from './mutations.js'

const root = join(dirname(fileURLToPath(import.meta.url)), '../../../..')
const dist = join(root, 'packages/holdfast/dist')
const mutants = join(root, '.cache/mutants')

/** What the simulation of a mutant came to. */
export interface Verdict {
  /** The guarantees found broken, in the first run that broke any. */
  readonly broken: readonly string[]
  /** Which run that was; the number of runs if none. */
  readonly runs: number
  readonly output: string
}

/** Writes the mutant's files; gives their folder. Throws when the patch does not fit exactly once. */
export function makeMutant({ name, file, find, replace, also }: Mutation): string {
  const folder = join(mutants, name)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  cpSync(dist, folder, { recursive: true, filter: (path) => !/\.(map|d\.ts|tsbuildinfo)$/.test(path) })
  for (const patch of [{ file, find, replace }, ...(also === undefined ? [] : [also])]) {
    const path = join(folder, patch.file)
    const text = readFileSync(path, 'utf8')
    const times = text.split(patch.find).length - 1
    if (times !== 1) throw new Error(`${name}: its text occurs ${times} times in ${patch.file}, not once`)
    writeFileSync(
      path,
      text.replace(patch.find, () => patch.replace),
    )
  }
  return folder
}

/** Runs the simulation of a mutant until it finds a violation. */
export function runMutant(mutation: Mutation): Promise<Verdict> {
  const folder = pathToFileURL(`${makeMutant(mutation)}/`).href
  const args = ['--dist', folder, '--scenario', mutation.scenario, '--runs', String(mutation.seeds)]
  return new Promise((resolve, reject) => {
    const child = spawn(
      process.execPath,
      [join(root, 'scripts/sim.mjs'), ...args, '--jobs', '1', '--first', '--no-shrink', '--quiet'],
      // A mutant may well loop for ever.
      { stdio: ['ignore', 'pipe', 'pipe'], timeout: 120_000, killSignal: 'SIGKILL' },
    )
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text))
    child.on('error', reject)
    child.on('close', () => {
      const broken = [...output.matchAll(/: (G\d+) is broken/g)].map(([, guarantee = '']) => guarantee)
      resolve({ broken, runs: Number(/^(\d+) runs/m.exec(output)?.[1] ?? 0), output })
    })
  })
}
