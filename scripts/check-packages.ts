// The packages as their users will get them: packed, installed into a folder of their own, resolved by the type checker with
// nothing but what a user has.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const bin = (name: string) => join(root, 'node_modules/.bin', name)
const run = (command: string, args: readonly string[], cwd: string) => {
  try {
    return execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command} ${args.join(' ')} failed\n${stdout ?? ''}${stderr ?? ''}`)
  }
}

const work = mkdtempSync(join(tmpdir(), 'holdfast-packages-'))
try {
  for (const name of ['holdfast', 'cli']) {
    const folder = join(root, 'packages', name)
    run(bin('publint'), ['run', '--strict', '--level', 'warning'], folder)
    run('npm', ['pack', '--silent', '--pack-destination', work], folder)
    console.log(`${name}: publint and pack are content`)
  }
  const tarball = readdirSync(work).find((file) => /^holdfast-\d/.test(file))
  if (tarball === undefined) throw new Error('npm pack left no tarball of holdfast')
  // ESM only, on purpose: resolution from CommonJS by `import()`.
  run(bin('attw'), [join(work, tarball), '--profile', 'esm-only'], root)
  console.log('holdfast: types resolve for every entry')

  const modules = join(work, 'node_modules/holdfast')
  mkdirSync(modules, { recursive: true })
  run('tar', ['-xzf', join(work, tarball), '-C', modules, '--strip-components=1'], work)
  writeFileSync(join(work, 'package.json'), JSON.stringify({ type: 'module' }))
  writeFileSync(
    join(work, 'user.ts'),
    `import { createLeases, exponential, LeaseLostError, type Lease } from 'holdfast'
import { memoryStore } from 'holdfast/memory'
import { sqliteFence, sqliteStore } from 'holdfast/sqlite'
import { VirtualClock } from 'holdfast/testing'
const clock = new VirtualClock()
const leases = createLeases({ store: memoryStore({ clock }), clock })
const lease: Lease = await leases.acquire('report', { retry: exponential({ minMs: 1, maxMs: 10 }), waitMs: 0 })
const value: number = await leases.hold('other', async ({ token }) => token)
if (lease.signal.reason instanceof LeaseLostError) lease.signal.reason.reason satisfies string
if (value !== 1 || typeof sqliteStore !== 'function' || typeof sqliteFence !== 'function') throw new Error('not what was packed')
await lease.release()
await leases.close()
`,
  )
  const common = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--skipLibCheck', 'false']
  // Without any types of Node: the DOM library alone must do.
  run(
    bin('tsc'),
    [...common, '--lib', 'es2022,dom,dom.iterable,dom.asynciterable', '--types', '', '--typeRoots', work, 'user.ts'],
    work,
  )
  console.log('holdfast: compiles with the DOM library alone')
  mkdirSync(join(work, 'node_modules/@types'), { recursive: true })
  run('cp', ['-r', join(root, 'node_modules/@types/node'), join(work, 'node_modules/@types/node')], work)
  run('cp', ['-r', join(root, 'node_modules/undici-types'), join(work, 'node_modules/undici-types')], work)
  run(bin('tsc'), [...common, '--lib', 'es2022', '--types', 'node', 'user.ts'], work)
  console.log('holdfast: compiles with the types of Node alone')
  writeFileSync(
    join(work, 'using.ts'),
    `import { createLeases } from 'holdfast'
import { memoryStore } from 'holdfast/memory'
export async function report() {
  await using leases = createLeases({ store: memoryStore() })
  await using lease = await leases.acquire('report')
  return lease.token
}
`,
  )
  run(
    bin('tsc'),
    [...common, '--lib', 'es2022,esnext.disposable,dom', '--types', '', '--typeRoots', work, 'using.ts'],
    work,
  )
  console.log('holdfast: `await using` compiles')
  run(
    bin('tsc'),
    [...common, '--noEmit', 'false', '--outDir', work, '--lib', 'es2022', '--types', 'node', 'user.ts'],
    work,
  )
  run(process.execPath, ['user.js'], work)
  console.log('holdfast: the packed library runs')
} finally {
  rmSync(work, { recursive: true, force: true })
}
