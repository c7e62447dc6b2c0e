// Paths in `sqlite:` URLs, apart from what opens them: the default store is one too.
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { usageError } from '../exit.js'
import { decoded } from './url.js'

/** The path in a `sqlite:` URL; anything else is refused with what to do. */
export function sqlitePath(url: string): string {
  const text = url.slice('sqlite:'.length)
  if (/[?#]/.test(text)) throw usageError('a sqlite: URL takes no "?" or "#"; in a file name write them as %3F and %23')
  if (text === '') throw usageError('a sqlite: URL needs the path of a file, as in sqlite:./leases.db')
  const path = decoded(text.startsWith('///') ? text.slice(2) : text, 'the sqlite: URL')
  if (path.startsWith('//'))
    throw usageError('a sqlite: URL names no host: write sqlite:/absolute/path or sqlite:./relative/path')
  if (path === ':memory:') throw usageError('sqlite::memory: would be seen by this process alone; name a file')
  if (path === '~' || path.startsWith('~/')) return join(homedir(), path.slice(1))
  return resolve(path)
}

/** A path as a URL that names the very file. */
export const sqliteUrl = (path: string): string =>
  `sqlite:${encodeURI(path).replaceAll('#', '%23').replaceAll('?', '%3F')}`
