// What is wrong with a path or a file is said where it was written: at once, before the first use.
import { statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { InvalidArgumentError } from '../../lease/errors.js'
import type { Connections } from './connection.js'
import { failure, isBusy } from './failure.js'

/** Opens at once, so that what is wrong is said where it was written. When another is just making the file: at the first use. */
export function openNow(connections: Connections, path: string): void {
  try {
    connections.get()
  } catch (error) {
    if (!isBusy(error)) throw failure(error, path, 'none')
  }
}

/** The path as an absolute one. Throws InvalidArgumentError for what cannot be a file of leases. */
export function checkPath(path: unknown): string {
  if (typeof path !== 'string' || path === '')
    throw new InvalidArgumentError('path', path, 'must be the path of a file')
  if (path.includes(':memory:') || /^(file:|[a-z][a-z0-9+.-]+:\/\/)/i.test(path)) {
    throw new InvalidArgumentError(
      'path',
      path,
      'must be the path of a file: for leases in memory use memoryStore of holdfast/memory',
    )
  }
  const absolute = resolve(path)
  const directory = dirname(absolute)
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new InvalidArgumentError(
      'path',
      path,
      'must lie in a directory that exists: make it first, with mkdirSync(dirname(path), { recursive: true })',
    )
  }
  return absolute
}
