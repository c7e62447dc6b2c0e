// The table that a person reads.
import type { Row } from './rows.js'

const HEADINGS = ['subject', 'metric', 'median', 'min', 'max', 'unit', 'ratio to the floor (range)']

/** Rows as aligned text, with the note on what may be read from them. */
export function table(rows: readonly Row[]): string {
  const cells = rows.map((row) => [
    row.subject,
    row.metric,
    figure(row.median),
    figure(row.min),
    figure(row.max),
    row.unit,
    row.ratio === null ? '' : `${row.ratio.toFixed(2)} (${row.ratioMin?.toFixed(2)} to ${row.ratioMax?.toFixed(2)})`,
  ])
  const widths = HEADINGS.map((heading, column) =>
    Math.max(heading.length, ...cells.map((line) => line[column]?.length ?? 0)),
  )
  const line = (texts: readonly string[]) =>
    texts
      .map((text, column) => pad(text, widths[column] ?? 0, column))
      .join('  ')
      .trimEnd()
  return [line(HEADINGS), line(widths.map((width) => '-'.repeat(width))), ...cells.map(line)].join('\n')
}

/** Printed under every table. */
export const NOTE =
  'Read the ratios only: the rest belongs to this machine and this moment. A machine that others use moves single runs by a quarter and more.'

/** Numbers stand right, words left. */
const pad = (text: string, width: number, column: number) =>
  column >= 2 && column <= 4 ? text.padStart(width) : text.padEnd(width)

/** A number in as many digits as it deserves. */
export function figure(value: number): string {
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US')
  return Number(value.toPrecision(3)).toString()
}
