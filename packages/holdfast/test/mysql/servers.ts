// Real MariaDB servers for the tests: private instances on free ports, started as children of the test process, stopped by their
// process. The data folder is made once in a process and copied for each.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createPool, type Pool, type PoolOptions } from 'mysql2/promise'
import { systemClock } from '../../src/lease/clock.js'
import { freePort } from '../servers/ports.js'

const run = promisify(execFile)
const HOST = '127.0.0.1'

/** Waits for so many ms: the tests' one way to let real time pass. */
export const pass = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    systemClock.setTimer(ms, resolve)
  })

/** Resolves with the first truthy answer. Rejects when it does not come. */
export async function waitUntil<T>(
  what: string,
  condition: () => Promise<T> | T,
  withinMs = 30_000,
): Promise<NonNullable<T>> {
  const untilMs = systemClock.monoMs() + withinMs
  while (true) {
    const answer = await condition()
    if (answer) return answer
    if (systemClock.monoMs() > untilMs) throw new Error(`not within ${withinMs} ms: ${what}`)
    await pass(10)
  }
}

/** What runs: a test that fails before it has stopped its servers leaves none behind. */
const running = new Set<ChildProcess>()
const folders = new Set<string>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

let template: Promise<string> | undefined

/** The redo log has 96 MB by default, which would be written and copied for each server. */
const SMALL = ['--innodb-log-file-size=8M', '--innodb-buffer-pool-size=24M', '--skip-name-resolve']

/** Where the server may write: it gives up being root. */
async function folderFor(what: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), `holdfast-${what}-`))
  folders.add(folder)
  if (process.getuid?.() === 0) {
    const { stdout } = await run('id', ['-u', 'mysql'])
    chownSync(folder, Number(stdout), 0)
    chmodSync(folder, 0o755)
  }
  return folder
}

const asUser = () => (process.getuid?.() === 0 ? ['--user=mysql'] : [])

async function freshData(): Promise<string> {
  const folder = await folderFor('mariadb-template')
  const args = ['--auth-root-authentication-method=normal', '--skip-test-db']
  await run('mariadb-install-db', ['--no-defaults', ...asUser(), `--datadir=${folder}/data`, ...args, ...SMALL])
  return folder
}

export interface MysqlServerOptions {
  /** Further arguments of mariadbd. */
  readonly args?: readonly string[]
  /** Whether its clock can be stepped. */
  readonly stepped?: boolean
  readonly env?: Record<string, string>
}

/** One process of MariaDB. */
export class MysqlServer {
  readonly port: number
  readonly folder: string
  readonly #options: MysqlServerOptions
  #child: ChildProcess | undefined

  private constructor(port: number, folder: string, options: MysqlServerOptions) {
    this.port = port
    this.folder = folder
    this.#options = options
  }

  static async start(options: MysqlServerOptions = {}): Promise<MysqlServer> {
    template ??= freshData()
    const folder = await folderFor('mariadb')
    cpSync(join(await template, 'data'), join(folder, 'data'), { recursive: true, preserveTimestamps: true })
    if (process.getuid?.() === 0) await run('chown', ['-R', 'mysql', folder])
    const server = new MysqlServer(await freePort(), folder, options)
    await server.start()
    const pool = server.pool({ database: 'mysql' })
    await pool.query('CREATE DATABASE test')
    await pool.end()
    return server
  }

  /** Starts it, again with what is on its disk. */
  async start(): Promise<void> {
    const { args = [], stepped = false, env = {} } = this.#options
    const own = ['--no-defaults', ...asUser(), `--datadir=${this.folder}/data`, `--port=${this.port}`]
    const more = [`--bind-address=${HOST}`, `--socket=${this.folder}/s`, `--pid-file=${this.folder}/pid`]
    const clock = stepped ? this.#steppedClock() : {}
    const child = spawn('mariadbd', [...own, ...more, ...SMALL, `--log-error=${this.folder}/log`, ...args], {
      stdio: 'ignore',
      env: { ...process.env, ...env, ...clock },
    })
    child.on('error', () => {})
    child.once('exit', () => running.delete(child))
    running.add(child)
    this.#child = child
    await waitUntil(`mariadbd on ${this.port}`, async () => {
      if (child.exitCode !== null) throw new Error(readFileSync(`${this.folder}/log`, 'utf8'))
      const pool = this.pool({ database: 'mysql' })
      return pool
        .query('SELECT 1')
        .then(() => true)
        .catch(() => false)
        .finally(() => pool.end())
    })
  }

  #steppedClock(): Record<string, string> {
    this.step(0)
    return {
      LD_PRELOAD: 'libfaketimeMT.so.1',
      LD_LIBRARY_PATH: '/usr/lib/x86_64-linux-gnu/faketime',
      FAKETIME_TIMESTAMP_FILE: join(this.folder, 'clock'),
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    }
  }

  /** Sets its clock so many seconds ahead of, or behind, the machine's. */
  step(seconds: number): void {
    writeFileSync(join(this.folder, 'clock'), `${seconds < 0 ? '' : '+'}${seconds}s\n`)
  }

  /** A pool on it. */
  pool(options: PoolOptions = {}): Pool {
    return createPool({ host: HOST, port: this.port, user: 'root', database: 'test', ...options })
  }

  /** Ends it as a power failure does. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  freeze(): void {
    this.#child?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#child?.kill('SIGCONT')
  }

  /** Lets this process end while it runs. */
  unref(): void {
    this.#child?.unref()
  }

  async stop(): Promise<void> {
    this.thaw()
    await this.#end('SIGKILL')
    rmSync(this.folder, { recursive: true, force: true })
    folders.delete(this.folder)
    if (running.size > 0 || template === undefined) return
    rmSync(await template, { recursive: true, force: true }) // the last one: a worker of the test runner may end without a word
    template = undefined
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill(signal)
    await exited
  }
}
