// Assertions that need no test runner: they throw, and say what was expected of the store.
import { StoreError } from '../../lease/errors.js'

/** A store did not do what a case demands. */
export class ConformanceFailure extends Error {
  override readonly name = 'ConformanceFailure'
}

/** Throws unless the condition holds. */
export function check(condition: unknown, message: string): asserts condition {
  if (!condition) throw new ConformanceFailure(message)
}

/** Throws unless both are the same plain value. */
export function equal(actual: unknown, expected: unknown, what: string): void {
  check(sameValue(actual, expected), `${what} should be ${show(expected)}, but is ${show(actual)}`)
}

/** Throws unless `actual` has all the properties of `expected`, with the same values. */
export function has<Shape extends object>(actual: object | null, expected: Partial<Shape>, what: string): void {
  check(actual !== null, `${what} should be there, but is null`)
  for (const [name, value] of Object.entries(expected)) {
    equal((actual as Record<string, unknown>)[name], value, `${name} of ${what}`)
  }
}

/** Throws unless the promise rejects with a StoreError of this outcome. */
export async function rejects(promise: Promise<unknown>, outcome: 'none' | 'unknown', what: string): Promise<void> {
  const error = await promise.then(
    (value) => {
      throw new ConformanceFailure(`${what} should reject, but gave ${show(value)}`)
    },
    (reason: unknown) => reason,
  )
  if (error instanceof ConformanceFailure) throw error
  check(error instanceof StoreError, `${what} should reject with a StoreError, but did with ${show(error)}`)
  equal(error.outcome, outcome, `the outcome of ${what}`)
}

function sameValue(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b) || Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false
  const names = Object.keys(a)
  if (names.length !== Object.keys(b).length) return false
  const left = a as Record<string, unknown>
  const right = b as Record<string, unknown>
  return names.every((name) => name in right && sameValue(left[name], right[name]))
}

/** A value as a message shows it. */
export function show(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${value.message}`
  if (typeof value === 'bigint') return `${value}n`
  try {
    const text = JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? `${part}n` : part))
    return text === undefined ? String(value) : text.length > 300 ? `${text.slice(0, 300)}...` : text
  } catch {
    return String(value)
  }
}
