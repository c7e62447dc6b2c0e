// Real PostgreSQL servers for the tests: private instances on free ports, started as children of the test process as the user
// postgres, stopped by their process. With a standby, behind PgBouncer, or under a clock that can be set.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { systemClock } from '../../src/lease/clock.js'
import { freePort } from '../servers/ports.js'

const run = promisify(execFile)
const HOST = '127.0.0.1'
const BIN = '/usr/lib/postgresql/15/bin'

/** Waits for so many ms: the tests' one way to let real time pass. */
export const pass = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    systemClock.setTimer(ms, resolve)
  })

/** Resolves with the first truthy answer. Rejects when it does not come. */
export async function waitUntil<T>(
  what: string,
  condition: () => Promise<T> | T,
  withinMs = 20_000,
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
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

async function idsOfPostgres(): Promise<{ uid: number; gid: number }> {
  const [{ stdout: uid }, { stdout: gid }] = await Promise.all([
    run('id', ['-u', 'postgres']),
    run('id', ['-g', 'postgres']),
  ])
  return { uid: Number(uid), gid: Number(gid) }
}

async function folderOfPostgres(name: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), `holdfast-${name}-`))
  const { uid, gid } = await idsOfPostgres()
  chownSync(folder, uid, gid)
  chmodSync(folder, 0o755)
  return folder
}

/** Spawns as the user postgres; what is in `env` is set only after root has been left, so that a preload is allowed. */
async function spawnAsPostgres(
  program: string,
  args: readonly string[],
  log: string,
  env: readonly string[] = [],
): Promise<ChildProcess> {
  const said = openSync(log, 'a')
  const child = spawn(
    'setpriv',
    ['--reuid=postgres', '--regid=postgres', '--init-groups', 'env', ...env, program, ...args],
    { stdio: ['ignore', said, said], cwd: '/' },
  )
  closeSync(said)
  child.on('error', () => {})
  child.once('exit', () => running.delete(child))
  running.add(child)
  return child
}

const hasEnded = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null

async function end(child: ChildProcess | undefined, signal: 'SIGKILL' | 'SIGINT' | 'SIGQUIT'): Promise<void> {
  if (child === undefined || hasEnded(child)) return
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}

/** The processes whose working folder this is: a postmaster and all its children. */
function processesIn(folder: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      return readlinkSync(`/proc/${name}/cwd`) === folder ? [Number(name)] : []
    } catch {
      return [] // it has ended by itself
    }
  })
}

function killed(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // it has ended by itself
  }
}

export interface ServerOptions {
  /** Lines of postgresql.conf. */
  readonly settings?: readonly string[]
  /** Whether its clock can be set with `setClock`. */
  readonly clock?: boolean
  /** The primary of which this is to be a standby, under this name. */
  readonly standbyOf?: { readonly primary: PostgresServer; readonly name: string }
}

/** One server. */
export class PostgresServer {
  readonly port: number
  readonly folder: string
  readonly #clockFile: string | undefined
  #child: ChildProcess | undefined

  private constructor(port: number, folder: string, clock: boolean) {
    this.port = port
    this.folder = folder
    this.#clockFile = clock ? join(folder, 'clock') : undefined
  }

  static async start({ settings = [], clock = false, standbyOf }: ServerOptions = {}): Promise<PostgresServer> {
    const server = new PostgresServer(await freePort(), await folderOfPostgres('postgres'), clock)
    const data = join(server.folder, 'data')
    const own = [
      `port = ${server.port}`,
      `listen_addresses = '${HOST}'`,
      `unix_socket_directories = '${server.folder}'`,
      'max_connections = 200',
      'shared_buffers = 32MB',
      'wal_level = replica',
      'max_wal_senders = 4',
      'hot_standby = on',
      'fsync = off',
    ]
    if (standbyOf === undefined) {
      await run(
        'runuser',
        [
          '-u',
          'postgres',
          '--',
          `${BIN}/initdb`,
          '-D',
          data,
          '-U',
          'postgres',
          '-A',
          'trust',
          '-E',
          'UTF8',
          '--no-sync',
          '--no-locale',
        ],
        { cwd: '/' },
      )
    } else {
      const from = `host=${HOST} port=${standbyOf.primary.port} user=postgres application_name=${standbyOf.name}`
      await run(
        'runuser',
        ['-u', 'postgres', '--', `${BIN}/pg_basebackup`, '-D', data, '-d', from, '-R', '--no-sync', '-c', 'fast'],
        { cwd: '/' },
      )
      own.push(`primary_conninfo = '${from}'`, "synchronous_standby_names = ''")
    }
    appendFileSync(join(data, 'postgresql.auto.conf'), `\n${[...own, ...settings].join('\n')}\n`)
    await server.start()
    return server
  }

  get url(): string {
    return `postgres://postgres@${HOST}:${this.port}/postgres`
  }

  /** Starts it again, with what is on its disk. */
  async start(): Promise<void> {
    const env =
      this.#clockFile === undefined
        ? []
        : [
            'LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1',
            `FAKETIME_TIMESTAMP_FILE=${this.#clockFile}`,
            'FAKETIME_NO_CACHE=1',
            'FAKETIME_DONT_FAKE_MONOTONIC=1',
          ]
    if (this.#clockFile !== undefined && !existsSync(this.#clockFile)) this.setClock(0)
    const log = join(this.folder, 'log')
    const child = await spawnAsPostgres(`${BIN}/postgres`, ['-D', join(this.folder, 'data')], log, env)
    this.#child = child
    await waitUntil(`postgres on ${this.port}`, () => {
      if (hasEnded(child)) throw new Error(`postgres does not start: ${readFileSync(log, 'utf8').slice(-2_000)}`)
      return this.isReady()
    })
  }

  async isReady(): Promise<boolean> {
    return run(`${BIN}/pg_isready`, ['-q', '-h', HOST, '-p', String(this.port)]).then(
      () => true,
      () => false,
    )
  }

  /** Sets the server's clock ahead of the machine's, in seconds; below zero: behind it. */
  setClock(seconds: number): void {
    if (this.#clockFile === undefined) throw new Error('start it with { clock: true }')
    writeFileSync(this.#clockFile, `${seconds < 0 ? '' : '+'}${seconds}s\n`)
  }

  /** Runs one statement on a connection of its own. */
  async sql<Row = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]> {
    const client = new pg.Client({ connectionString: this.url })
    client.on('error', () => {})
    await client.connect()
    try {
      const { rows } = await client.query(text, values)
      return rows as Row[]
    } finally {
      await client.end()
    }
  }

  /** Ends it as a power failure does: the postmaster and its children, none of which can say goodbye. */
  async kill(): Promise<void> {
    // Looked for until there are none: one that was forked meanwhile would keep the shared memory, and no server could
    // start beside it; it also may wait without end for a lock of one that is gone.
    const data = realpathSync(join(this.folder, 'data'))
    await waitUntil(`the end of postgres on ${this.port}`, () => {
      const left = processesIn(data)
      for (const pid of left) killed(pid)
      return left.length === 0
    })
    await end(this.#child, 'SIGKILL')
    rmSync(join(this.folder, 'data', 'postmaster.pid'), { force: true })
  }

  /** Lets this process end while it runs. */
  unref(): void {
    this.#child?.unref()
  }

  /** Makes a standby the primary. */
  async promote(): Promise<void> {
    await this.sql('select pg_promote(true, 30)')
  }

  async restart(): Promise<void> {
    await end(this.#child, 'SIGINT')
    await this.start()
  }

  async stop(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    await end(child, 'SIGQUIT')
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** PgBouncer before a server, sharing connections out by the transaction. */
export class PgBouncer {
  readonly port: number
  readonly folder: string
  #child: ChildProcess | undefined

  private constructor(port: number, folder: string) {
    this.port = port
    this.folder = folder
  }

  static async start(server: PostgresServer, poolSize = 5): Promise<PgBouncer> {
    const bouncer = new PgBouncer(await freePort(), await folderOfPostgres('pgbouncer'))
    const config = join(bouncer.folder, 'pgbouncer.ini')
    const lines = [
      '[databases]',
      `postgres = host=${HOST} port=${server.port} user=postgres`,
      '[pgbouncer]',
      `listen_addr = ${HOST}`,
      `listen_port = ${bouncer.port}`,
      'auth_type = any',
      'pool_mode = transaction',
      `default_pool_size = ${poolSize}`,
      'max_client_conn = 500',
      'unix_socket_dir =',
    ]
    writeFileSync(config, `${lines.join('\n')}\n`)
    bouncer.#child = await spawnAsPostgres('/usr/sbin/pgbouncer', [config], join(bouncer.folder, 'log'))
    const url = bouncer.url
    await waitUntil('pgbouncer', async () => {
      const client = new pg.Client({ connectionString: url })
      client.on('error', () => {})
      return client.connect().then(
        () => client.end().then(() => true),
        () => false,
      )
    })
    return bouncer
  }

  get url(): string {
    return `postgres://postgres@${HOST}:${this.port}/postgres`
  }

  async stop(): Promise<void> {
    await end(this.#child, 'SIGKILL')
    rmSync(this.folder, { recursive: true, force: true })
  }
}
