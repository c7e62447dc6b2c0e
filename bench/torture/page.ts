// The tables that a person reads: all verdicts at a glance, then what was done and what each library did.
import { readFileSync } from 'node:fs'
import { machine } from '../harness/machine.js'
import type { Library } from '../peers/library.js'
import { versionOf } from '../peers/load.js'
import type { Fault, Line } from './fault.js'

export interface Cell {
  readonly fault: Fault
  readonly library: Library
  readonly line: Line
}

const said: Record<Line['verdict'], string> = {
  yes: 'yes',
  'in part': 'in part',
  no: '**no**',
  none: 'no such operation',
}

/** Name and version, as on npm. */
function title({ name }: Library): string {
  if (name === 'holdfast') {
    const { version } = JSON.parse(
      readFileSync(new URL('../../packages/holdfast/package.json', import.meta.url), 'utf8'),
    ) as { version: string }
    return `Holdfast ${version}`
  }
  return `${name === 'redlock5' ? 'redlock' : name} ${versionOf(name)}`
}

const row = (texts: readonly string[]) => `| ${texts.join(' | ')} |`
const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n')

export function page(faults: readonly Fault[], libraries: readonly Library[], cells: readonly Cell[]): string {
  const lineOf = (fault: Fault, library: Library) =>
    cells.find((cell) => cell.fault === fault && cell.library === library)?.line ?? { did: 'not run', verdict: 'none' }
  const { node, os, cores } = machine()
  const when = `${new Date().toISOString().slice(0, 10)}, Node ${node}, ioredis 5.11.1, ${os}, ${cores} cores.`
  const glance = table(
    ['', ...libraries.map(title)],
    faults.map((fault) => [fault.title, ...libraries.map((library) => said[lineOf(fault, library).verdict])]),
  )
  const setup = table(
    ['library', 'used as'],
    libraries.map((library) => [title(library), library.setup]),
  )
  const details = faults.map((fault) => {
    const rows = libraries.map((library) => {
      const { did, verdict } = lineOf(fault, library)
      return [title(library), did, said[verdict]]
    })
    return `### ${fault.title}\n\n${fault.what} Expected: ${fault.expected}.\n\n${table(['library', 'what it did', ''], rows)}`
  })
  return [when, glance, '### How each was used', setup, ...details].join('\n\n')
}
