// The packages of other people, which live in a folder of their own: they are installed by the comparisons, never by the tests.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const folder = fileURLToPath(new URL('.', import.meta.url))
const require = createRequire(import.meta.url)

/** Whether what the lock file asks for was installed after the lock file last changed. */
export function areInstalled(): boolean {
  const done = join(folder, 'node_modules/.package-lock.json')
  return existsSync(done) && statSync(done).mtimeMs >= statSync(join(folder, 'package-lock.json')).mtimeMs
}

/** Installs them, and throws where that fails. */
export function install(): void {
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  if (status !== 0) throw new Error('`npm ci` in bench/peers failed')
}

/** Said where they are missing. */
export const MISSING = 'other libraries are not installed, and left out: run `npm ci` in bench/peers'

/** What a package exports, read with the shape that its adapter needs of it. */
export async function load<Module>(name: string): Promise<Module> {
  return (await import(pathToFileURL(require.resolve(name)).href)) as Module
}

/** The version that is installed. */
export function versionOf(name: string): string {
  const { version } = JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json'), 'utf8')) as {
    version: string
  }
  return version.replace(/^v/, '')
}
