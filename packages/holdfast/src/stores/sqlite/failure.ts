// What SQLite's errors mean for a caller. The drivers tell the code in three ways; a caller gets one StoreError, which names
// the file and says what to do.
import { HoldfastError, StoreError } from '../../lease/errors.js'

/** SQLite's primary result codes that are told apart here. */
type Code = 'BUSY' | 'LOCKED' | 'READONLY' | 'IOERR' | 'CORRUPT' | 'FULL' | 'CANTOPEN' | 'NOTADB' | 'OTHER'

const BY_NUMBER = new Map<number, Code>([
  [5, 'BUSY'],
  [6, 'LOCKED'],
  [8, 'READONLY'],
  [10, 'IOERR'],
  [11, 'CORRUPT'],
  [13, 'FULL'],
  [14, 'CANTOPEN'],
  [26, 'NOTADB'],
])

/** The primary code of a driver's error. Extended codes (BUSY_SNAPSHOT, IOERR_WRITE) fall under their primary one. */
export function codeOf(error: unknown): Code {
  if (typeof error !== 'object' || error === null) return 'OTHER'
  const { code, errcode, rawCode, message } = error as {
    code?: unknown
    errcode?: unknown
    rawCode?: unknown
    message?: unknown
  }
  const number = typeof errcode === 'number' ? errcode : rawCode // node:sqlite, libsql
  if (typeof number === 'number') return BY_NUMBER.get(number & 0xff) ?? 'OTHER'
  if (typeof code === 'string' && code.startsWith('SQLITE_')) {
    const name = code.split('_')[1] ?? '' // better-sqlite3
    for (const known of BY_NUMBER.values()) if (known === name) return known
  }
  // libsql, when it cannot open: 'ConnectionFailed("... /path: 14")', without a code.
  const opening = typeof message === 'string' ? /^ConnectionFailed\(.*: (\d+)"\)$/.exec(message) : null
  return opening === null ? 'OTHER' : (BY_NUMBER.get(Number(opening[1]) & 0xff) ?? 'OTHER')
}

/** Whether another has the lock, so that trying again helps. */
export function isBusy(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'BUSY' || code === 'LOCKED'
}

/** What is known of a statement that was its own transaction: of these errors SQLite promises that it was undone. */
export function outcomeOf(error: unknown): 'none' | 'unknown' {
  const code = codeOf(error)
  return code === 'IOERR' || code === 'OTHER' ? 'unknown' : 'none'
}

/** Whether a number in the row cannot be given exactly (node:sqlite throws; the others round, which is found afterwards). */
export const isOutOfRange = (error: unknown): boolean =>
  error instanceof RangeError && (error as { code?: unknown }).code === 'ERR_OUT_OF_RANGE'

const ADVICE: Record<Code, (path: string) => string> = {
  BUSY: (path) => `another process has the lock of ${path}: try again`,
  LOCKED: (path) => `another process has the lock of ${path}: try again`,
  READONLY: (path) =>
    `${path} cannot be written: let this user write the file and its directory (SQLite keeps ${path}-wal and ${path}-shm beside it)`,
  IOERR: (path) => `reading or writing ${path} failed: check the disk, and that the file is on a local file system`,
  CORRUPT: (path) =>
    `${path} is damaged: stop all its processes, move it away with its -wal and -shm files, and start again; tokens go on rising`,
  FULL: (path) => `no space is left for ${path}: free some; nothing was written`,
  CANTOPEN: (path) =>
    `${path} cannot be opened: check that its directory exists and that this user may read and write the file and its directory`,
  NOTADB: (path) => `${path} is not an SQLite database: give the leases a file of their own`,
  OTHER: (path) => `SQLite refused a command on ${path}`,
}

/** The error as a caller gets it. Errors of Holdfast's own pass as they are. */
export function failure(error: unknown, path: string, outcome: 'none' | 'unknown'): HoldfastError {
  if (error instanceof HoldfastError) return error
  const said = error instanceof Error ? error.message : String(error)
  const unknown = outcome === 'unknown' ? '; whether the last command was applied is unknown' : ''
  return new StoreError(`${ADVICE[codeOf(error)](path)}${unknown} (${said})`, { outcome, cause: error })
}
