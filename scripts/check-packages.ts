// The packages as their users will get them: packed, installed into a folder of their own, resolved by the type checker with
// nothing but what a user has.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
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
import { kubernetesStore } from 'holdfast/kubernetes'
import { memoryStore } from 'holdfast/memory'
import { sqliteFence, sqliteStore } from 'holdfast/sqlite'
import { VirtualClock } from 'holdfast/testing'
import { tcpProxy } from 'holdfast/testing/proxy'
const clock = new VirtualClock()
const leases = createLeases({ store: memoryStore({ clock }), clock })
const lease: Lease = await leases.acquire('report', { retry: exponential({ minMs: 1, maxMs: 10 }), waitMs: 0 })
const value: number = await leases.hold('other', async ({ token }) => token)
if (lease.signal.reason instanceof LeaseLostError) lease.signal.reason.reason satisfies string
if (value !== 1 || typeof kubernetesStore !== 'function' || typeof sqliteStore !== 'function' || typeof sqliteFence !== 'function' || typeof tcpProxy !== 'function') throw new Error('not what was packed')
await lease.release()
await leases.close()
`,
  )
  const strict = { strict: true, noEmit: true, module: 'nodenext', target: 'es2022', skipLibCheck: false }
  /** Compiles one file with nothing but these options, and the types that are named. */
  const compile = (file: string, options: object) => {
    writeFileSync(
      join(work, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: { ...strict, ...options }, files: [file] }),
    )
    run(bin('tsc'), ['-p', work], work)
  }
  compile('user.ts', { lib: ['es2022', 'dom', 'dom.asynciterable'], types: [] })
  console.log('holdfast: compiles with the DOM library alone')
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
  compile('using.ts', { lib: ['es2022', 'esnext.disposable', 'dom'], types: [] })
  console.log('holdfast: `await using` compiles')

  for (const name of ['@types/node', 'undici-types']) {
    cpSync(join(root, 'node_modules', name), join(work, 'node_modules', name), { recursive: true })
  }
  compile('user.ts', { lib: ['es2022'], types: ['node'], noEmit: false, outDir: '.' })
  console.log('holdfast: compiles with the types of Node alone')
  run(process.execPath, ['user.js'], work)
  console.log('holdfast: the packed library runs')
} finally {
  rmSync(work, { recursive: true, force: true })
}
