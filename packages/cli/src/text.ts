// How values are read from and shown to people: durations, names that may hold anything, aligned columns.
import { usageError } from './exit.js'

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Reads `500ms`, `30s`, `1.5m`, `2h`. A number without a unit is refused: half the world would read it as seconds. */
export function parseDuration(option: string, text: string): number {
  const [, digits, unit = ''] = /^(\d+(?:\.\d+)?)([a-z]*)$/.exec(text.trim()) ?? []
  if (digits === undefined)
    throw usageError(`${option} must be a duration such as 500ms, 30s, 5m or 2h; got ${quote(text)}`)
  if (unit === '')
    throw usageError(`${option} needs a unit: write ${digits}s for seconds or ${digits}ms for milliseconds`)
  const factor = UNIT_MS[unit]
  if (factor === undefined) throw usageError(`${option} has the unit ${quote(unit)}: use ms, s, m or h`)
  const ms = Number(digits) * factor
  if (!Number.isSafeInteger(ms))
    throw usageError(`${option} must be a whole number of milliseconds; got ${quote(text)}`)
  return ms
}

/** A duration exactly as an option would name it: for messages about options. */
export function exactDuration(ms: number): string {
  for (const unit of ['h', 'm', 's']) {
    const factor = UNIT_MS[unit] ?? 1
    if (ms >= factor && ms % factor === 0) return `${ms / factor}${unit}`
  }
  return `${ms}ms`
}

/** A duration as a person reads it at a glance. */
export function roughDuration(ms: number): string {
  if (ms < 1_000) return `${Math.ceil(ms)} ms`
  if (ms < 120_000) return `${Number((ms / 1_000).toFixed(1))} s`
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`
  return `${Number((ms / 3_600_000).toFixed(1))} h`
}

/** Characters that would move the cursor, change colours, hide or reorder text, or break the line. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

/** Makes text harmless on a terminal: what cannot be seen is written as `\u{…}`. */
export const printable = (text: string): string =>
  text.replace(UNPRINTABLE, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`)

/** A name as it is shown: two different names never look the same, since the backslash is escaped too. */
export const shownName = (name: string): string => printable(name.replaceAll('\\', '\\\\'))

/** A short quotation of what was given. */
export const quote = (text: string): string =>
  JSON.stringify(printable(text.length > 80 ? `${text.slice(0, 77)}...` : text))

/** Rows under a heading, in columns as wide as their widest cell. Numbers stand to the right. */
export function table(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  right: ReadonlySet<string> = new Set(),
): string {
  const widths = heading.map((title, column) =>
    Math.max(...[title, ...rows.map((row) => row[column] ?? '')].map(width)),
  )
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => {
        const padding = ' '.repeat(Math.max(0, (widths[column] ?? 0) - width(cell)))
        return right.has(heading[column] ?? '') ? padding + cell : cell + padding
      })
      .join('  ')
      .trimEnd()
  return [heading, ...rows].map((cells) => `${line(cells)}\n`).join('')
}

const width = (text: string) => [...text].length
