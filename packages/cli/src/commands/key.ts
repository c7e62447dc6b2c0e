// Names from the command line: the library's own rules, asked before a store is opened.
import { usageError } from '../exit.js'

const BYTES_MAX = 512
const HOLDER_LENGTH_MAX = 256

/** Refuses what cannot be a key. NUL and half surrogate pairs cannot come in an argument of a process. */
export function checkKey(key: string): void {
  if (key === '') throw usageError('KEY must not be empty')
  const bytes = Buffer.byteLength(key)
  if (bytes > BYTES_MAX) throw usageError(`KEY must be at most ${BYTES_MAX} bytes of UTF-8 (it is ${bytes})`)
}

/** Refuses what cannot label a holder. */
export function checkHolder(holder: string): void {
  if (holder === '') throw usageError('--holder must not be empty')
  if (holder.length > HOLDER_LENGTH_MAX)
    throw usageError(`--holder must be at most ${HOLDER_LENGTH_MAX} characters (it is ${holder.length})`)
}
