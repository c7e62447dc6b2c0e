// Fingerprints tell a repeat of a request from another request that uses the same key. An honest repeat may have its members in
// another order, or its text in another spelling of Unicode; so the fingerprint is that of a canonical form.
import { InvalidArgumentError } from '../lease/errors.js'
import { checkKey } from '../lease/keys.js'
import { write } from './plain-data.js'
import { sha256 } from './sha256.js'

/** Names the canonical form: another form would be another name, so that old records are not taken for other requests' silently. */
const VERSION = 'h1'

/**
 * The fingerprint of plain data: the same for the same members in any order, for undefined and missing members, for -0 and 0,
 * and for text that differs only in its Unicode composition (NFC); another one for everything else, so also for '1' and 1, null
 * and missing, and lists in another order. 67 characters, the same in every process and on every platform.
 *
 * Throws InvalidArgumentError, naming the path, for what has no stable form: NaN and Infinity, BigInt, Date, Map, Set, buffers,
 * instances of classes, functions, symbols, undefined in a list, cycles, halves of surrogate pairs.
 *
 * @example
 * ```ts
 * const same = fingerprintOf({ amount: 100, to: 'shop' }) === fingerprintOf({ to: 'shop', amount: 1e2 })
 * ```
 */
export function fingerprintOf(value: unknown): string {
  return `${VERSION}-${sha256(write(value, { what: 'value', canonical: true }))}`
}

/**
 * The fingerprint of text that should be JSON: that of its data, so that spaces, the order of members and the spelling of numbers
 * do not matter; but of the text itself when it is no JSON, or has numbers with more digits than a JavaScript number keeps.
 *
 * @example
 * ```ts
 * const same = fingerprintOfJson('{"amount": 1.0}') === fingerprintOfJson('{"amount":1}')
 * ```
 */
export function fingerprintOfJson(json: string): string {
  if (keepsAllDigits(json)) {
    try {
      return fingerprintOf(JSON.parse(json))
    } catch {
      // Then its text stands for it.
    }
  }
  return `${VERSION}t-${sha256(json)}`
}

/** 15 significant digits always survive; with more, two different numbers could become one. */
const DIGITS_MAX = 15

function keepsAllDigits(json: string): boolean {
  const outsideText = json.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""')
  const numbers = outsideText.match(/-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g) ?? []
  return numbers.every((number) => {
    const digits = number
      .replace(/[eE].*$/, '')
      .replaceAll(/[-.]/g, '')
      .replace(/^0+/, '')
    if (digits === '') return true
    const value = Number(number)
    return digits.length <= DIGITS_MAX && Number.isFinite(value) && value !== 0
  })
}

/**
 * One key from its parts (tenant, endpoint, the client's key), such that two lists of parts never give one key: separators inside a
 * part are written as %3A. A scope that is part of the key is never shared: nobody gets the result of another tenant.
 *
 * Throws InvalidArgumentError for a part that is missing or empty, and when the whole is longer than 512 bytes of UTF-8.
 *
 * @example
 * ```ts
 * const key = keyOf('tenant-7', 'POST /payments', 'b8c1...') // tenant-7:POST /payments:b8c1...
 * ```
 */
export function keyOf(...parts: readonly string[]): string {
  for (const [i, part] of parts.entries()) {
    if (typeof part !== 'string' || part === '') {
      throw new InvalidArgumentError(
        `parts[${i}]`,
        part,
        "must be a non-empty string: give those who have none a name, such as 'anonymous'",
      )
    }
  }
  const key = parts.map((part) => part.replaceAll('%', '%25').replaceAll(':', '%3A')).join(':')
  checkKey('key', key)
  return key
}
