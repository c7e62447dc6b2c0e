// Which benchmarks there are: the modules in bench/benchmarks, by the names of their files.
import { readdir } from 'node:fs/promises'
import type { Benchmark } from './benchmark.js'

const FOLDER = new URL('../benchmarks/', import.meta.url)

export async function names(): Promise<string[]> {
  const files = await readdir(FOLDER)
  return files.flatMap((file) => (file.endsWith('.ts') ? file.slice(0, -3) : [])).sort()
}

/** One benchmark, checked for what would spoil its results; with other people's libraries among its subjects if asked. */
export async function load(name: string, withPeers = false): Promise<Benchmark> {
  const { default: found } = (await import(new URL(`${name}.ts`, FOLDER).href)) as { default: Benchmark }
  const all = { ...found, subjects: [...found.subjects, ...(found.peers ?? [])] }
  check(name, all)
  return withPeers ? all : found
}

export function check(file: string, { name, floor, subjects, targets = [] }: Benchmark): void {
  const known = new Set(subjects.map((subject) => subject.name))
  const named = [
    floor,
    ...subjects.flatMap((subject) => subject.floor ?? []),
    ...targets.map((target) => target.subject),
  ]
  if (name !== file) throw new Error(`${file}.ts calls itself ${name}`)
  if (known.size !== subjects.length) throw new Error(`${name} has two subjects of one name`)
  for (const subject of named) if (!known.has(subject)) throw new Error(`${name} has no subject ${subject}`)
}

/** One line for each benchmark. */
export async function listing(): Promise<string> {
  const all = await Promise.all((await names()).map((name) => load(name)))
  const width = Math.max(0, ...all.map(({ name }) => name.length))
  return all.map(({ name, title }) => `  ${name.padEnd(width)}  ${title}`).join('\n')
}
