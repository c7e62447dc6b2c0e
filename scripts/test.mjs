// `npm test`: installs what is missing, then checks everything. Needs nothing but Node and npm, so that it is also the one
// command of a fresh machine, and of CI.
//
//   npm test                     everything
//   npm test -- unit tidy        only the named steps
//   npm test -- --list           the names of the steps
//   npm test -- --soak unit      the fault tests for minutes instead of seconds
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const clients = join(root, 'packages/holdfast/test/clients')
const counts = { passed: 0, failed: 0 }

/** Debian packages that a step needs, by a program that each brings (or the path of one that is not on the PATH). */
const DEBIAN = {
  clients: { 'g++': 'g++', make: 'make', python3: 'python3' },
  unit: {
    faketime: 'faketime',
    openssl: 'openssl',
    ps: 'procps',
    'redis-server': 'redis-server',
    'redis-sentinel': 'redis-sentinel',
    'redis-cli': 'redis-tools',
    '/usr/lib/postgresql/*/bin/postgres': 'postgresql',
    pgbouncer: 'pgbouncer',
    mariadbd: 'mariadb-server',
    etcd: 'etcd-server',
    etcdctl: 'etcd-client',
    'nats-server': 'nats-server',
  },
}

const steps = [
  ['install', installPackages, 'the packages of this repository'],
  ['clients', installClients, 'the compiled SQLite driver and a newer Node, in a folder of the tests'],
  ['build', () => run('npx', ['tsc', '-b', 'packages/holdfast', 'packages/cli']), 'the packages'],
  ['lint', () => run('npx', ['biome', 'check', '--error-on-warnings', '.']), 'linter and formatter'],
  ['types', () => run('npx', ['tsc', '-p', 'tsconfig.check.json']), 'types of sources, tests, benchmarks and examples'],
  ['unit', unit, 'unit, conformance, process and tidy tests'],
  ['examples', () => run('npx', ['tsx', 'scripts/examples.ts']), 'the examples in docs and doc comments'],
  ['packages', () => run('npx', ['tsx', 'scripts/check-packages.ts']), 'the packages as users will get them'],
]

const given = process.argv.slice(2)
const asked = given.filter((word) => word !== '--soak')
if (given.includes('--soak')) process.env.HOLDFAST_SOAK = '1'
if (asked.includes('--list')) {
  for (const [name, , about] of steps) console.log(`${name.padEnd(10)} ${about}`)
  process.exit(0)
}
const unknown = asked.filter((name) => !steps.some(([step]) => step === name))
if (unknown.length > 0) {
  console.error(`no such step: ${unknown.join(', ')} (--list names them)`)
  process.exit(64)
}
for (const [name, step, about] of steps) {
  if (asked.length > 0 && !asked.includes(name)) continue
  console.log(`\n== ${name}: ${about}`)
  const before = counts.failed
  step()
  if (counts.failed > before) break
}
console.log(`\n${counts.passed} passed, ${counts.failed} failed`)
process.exit(counts.failed === 0 ? 0 : 1)

/** Runs a command, shows what it prints, counts it as one check. */
function run(command, args, options = {}) {
  const ok = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options }).status === 0
  counts[ok ? 'passed' : 'failed']++
  if (!ok) console.error(`failed: ${command} ${args.join(' ')}`)
  return ok
}

function installPackages() {
  if (isInstalled(root)) return console.log('there already')
  run('npm', ['ci', '--no-audit', '--no-fund'])
}

function installClients() {
  if (isInstalled(clients)) return console.log('there already')
  installDebian(DEBIAN.clients)
  run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: clients })
}

/** Whether what the lock file asks for was installed after the lock file last changed. */
function isInstalled(folder) {
  const done = join(folder, 'node_modules/.package-lock.json')
  return existsSync(done) && statSync(done).mtimeMs >= statSync(join(folder, 'package-lock.json')).mtimeMs
}

function isProgram(name) {
  return spawnSync('sh', ['-c', `command -v ${name}`]).status === 0
}

/** Installs Debian packages where that is possible, and says precisely what to install where it is not. */
function installDebian(packages) {
  const names = Object.entries(packages)
    .filter(([program]) => !isProgram(program))
    .map(([, name]) => name)
  if (names.length === 0) return
  if (!isProgram('apt-get') || process.getuid?.() !== 0) {
    console.error(
      `these are missing: ${names.join(' ')}. Install them, on Debian as root: apt-get install ${names.join(' ')}`,
    )
    counts.failed++
    return
  }
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  run('apt-get', ['update', '-qq'], { env })
  run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...names], { env })
}

/** The test runner, whose own counts are added to ours. */
function unit() {
  installDebian(DEBIAN.unit)
  const report = join(root, '.cache/vitest.json')
  const { status } = spawnSync(
    'npx',
    ['vitest', 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`],
    {
      cwd: root,
      stdio: 'inherit',
    },
  )
  const { numPassedTests = 0, numFailedTests = 0 } = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : {}
  counts.passed += numPassedTests
  counts.failed += Math.max(numFailedTests, status === 0 ? 0 : 1)
}
