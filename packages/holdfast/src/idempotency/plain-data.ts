// Plain data as text: null, booleans, finite numbers, well-formed text, lists and plain objects of these. Whatever JSON would drop,
// round or turn into something else on the way (undefined, NaN, BigInt, Date, Map, instances of classes, functions, cycles) is
// refused, with the path to it: a value that comes back changed is worse than an error.
import { InvalidArgumentError } from '../lease/errors.js'

/** How text is written. */
export interface Form {
  /** What the value is called in messages. */
  readonly what: string
  /** One text for all values that count as the same: members sorted by code unit, undefined members left out, text in NFC, no -0. */
  readonly canonical: boolean
}

/** Deeper values are refused: they would not come back, or overflow the stack of somebody else. */
const DEPTH_MAX = 200

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/

/** Writes the value as JSON. Throws InvalidArgumentError, naming the path, for what cannot be carried. */
export function write(value: unknown, form: Form, path = form.what, above: readonly object[] = []): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'string') return text(value, form, path)
  if (typeof value === 'number') return number(value, form, path)
  if (typeof value !== 'object') throw refused(path, value, HINTS[typeof value] ?? 'is not plain data')
  if (above.includes(value)) throw refused(path, value, 'contains itself')
  if (above.length >= DEPTH_MAX) throw refused(path, value, `is nested deeper than ${DEPTH_MAX} levels`)
  const inside = [...above, value]
  if (Array.isArray(value)) {
    if (Object.keys(value).length !== value.length) throw refused(path, value, 'is a list with holes, or with names')
    return `[${value.map((item, i) => write(item, form, `${path}[${i}]`, inside)).join()}]`
  }
  checkPlain(value, path)
  const entries = Object.entries(value).filter(([, member]) => !(form.canonical && member === undefined))
  const members = entries.map(([name, member]) => {
    const at = `${path}.${name}`
    return [text(name, form, at), write(member, form, at, inside)] as const
  })
  return `{${(form.canonical ? sorted(members, value, path) : members).map(([name, member]) => `${name}:${member}`).join()}}`
}

const HINTS: Record<string, string> = {
  undefined: 'is undefined: leave it out, or give null',
  bigint: 'is a BigInt: give it as text',
  function: 'is a function',
  symbol: 'is a symbol',
}

const refused = (path: string, value: unknown, why: string) =>
  new InvalidArgumentError(path, value, `must be plain data, and ${why}`)

function text(value: string, { canonical }: Form, path: string): string {
  if (LONE_SURROGATE.test(value)) throw refused(path, value, 'is text with half of a surrogate pair')
  return JSON.stringify(canonical ? value.normalize('NFC') : value)
}

function number(value: number, { canonical }: Form, path: string): string {
  if (!Number.isFinite(value)) throw refused(path, value, 'is not a finite number')
  return Object.is(value, -0) && !canonical ? '-0' : String(value)
}

function checkPlain(value: object, path: string): void {
  const prototype: unknown = Object.getPrototypeOf(value)
  // Of another realm the prototype is another object, but has none above it either.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    const { name } = value.constructor ?? {}
    const hint = value instanceof Date ? ': give its toISOString()' : ': give its data as a plain object'
    throw refused(path, value, `is an instance of ${name || 'a class'}${hint}`)
  }
  if (Object.getOwnPropertySymbols(value).length > 0) throw refused(path, value, 'has members named by symbols')
}

/** By code unit, whatever the locale. Two names that are one in NFC would make the order decide. */
function sorted(
  members: readonly (readonly [string, string])[],
  value: object,
  path: string,
): readonly (readonly [string, string])[] {
  const names = new Set(members.map(([name]) => name))
  if (names.size !== members.length) throw refused(path, value, 'has two members whose names differ only in spelling')
  return [...members].sort(([a], [b]) => (a < b ? -1 : 1))
}
