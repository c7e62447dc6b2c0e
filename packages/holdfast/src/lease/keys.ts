// The one rule for names, the same for every store (G11): checked before any command, so that a name which works on a
// laptop works in production.
import { InvalidArgumentError } from './errors.js'

/** The longest key, prefix included, in bytes of UTF-8. */
export const KEY_BYTES_MAX = 512

/** The longest holder label, in characters. */
const HOLDER_LENGTH_MAX = 256

/** Refuses what cannot be a key: anything but a non-empty, well-formed string of at most 512 bytes of UTF-8 without NUL. */
export function checkKey(option: string, key: unknown, bytesMax = KEY_BYTES_MAX): asserts key is string {
  if (typeof key !== 'string') throw new InvalidArgumentError(option, key, 'must be a string')
  if (key === '') throw new InvalidArgumentError(option, key, 'must not be empty')
  if (key.includes('\0')) throw new InvalidArgumentError(option, key, 'must not contain a NUL character')
  if (!isWellFormed(key))
    throw new InvalidArgumentError(option, key, 'must be well-formed text (it has half of a surrogate pair)')
  // A character takes at most three bytes for each UTF-16 unit: short keys need no counting.
  if (key.length * 3 > bytesMax && utf8Bytes(key) > bytesMax) {
    throw new InvalidArgumentError(
      option,
      key,
      `must be at most ${bytesMax} bytes of UTF-8, prefix included (it is ${utf8Bytes(key)})`,
    )
  }
}

/** Refuses what cannot label a holder. */
export function checkHolder(holder: unknown): asserts holder is string {
  if (typeof holder !== 'string' || holder === '')
    throw new InvalidArgumentError('holder', holder, 'must be a non-empty string')
  if (holder.length > HOLDER_LENGTH_MAX)
    throw new InvalidArgumentError('holder', holder, `must be at most ${HOLDER_LENGTH_MAX} characters`)
  if (holder.includes('\0') || !isWellFormed(holder))
    throw new InvalidArgumentError('holder', holder, 'must be well-formed text without NUL')
}

const encoder = new TextEncoder()
const utf8Bytes = (text: string) => encoder.encode(text).length

/** Half a surrogate pair has no UTF-8: stores would replace it, and two keys would become one. */
const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/
const isWellFormed: (text: string) => boolean =
  'isWellFormed' in String.prototype
    ? (text) => (text as string & { isWellFormed(): boolean }).isWellFormed()
    : (text) => !LONE_SURROGATE.test(text)

/** In the order of UTF-8 bytes, which is that of code points. */
export function byText(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const [left, right] = [a.charCodeAt(i), b.charCodeAt(i)]
    if (left === right) continue
    // The halves of a pair stand for code points beyond all single units.
    const pairs = Number(left >= 0xd800 && left < 0xe000) - Number(right >= 0xd800 && right < 0xe000)
    return pairs === 0 ? left - right : pairs
  }
  return a.length - b.length
}
