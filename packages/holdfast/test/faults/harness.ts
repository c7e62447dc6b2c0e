// Faults on real processes and servers: start, stop, kill, freeze, thaw, hang, cut, swallowReplies, heal, stepClock,
// waitUntil. A test arranges programs that obey their standard input, lets a fault happen to them, and reads what they said.
// All of them are stopped by their process ids when a test is over, also when it failed.
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach } from 'vitest'
import { type TcpProxy, tcpProxy } from '../../src/testing-node/proxy.js'

/** Longer runs of the same tests: `node scripts/test.mjs --soak`. */
export const SOAK = process.env.HOLDFAST_SOAK === '1'

const cleanups: (() => unknown)[] = []

afterEach(async () => {
  const errors: unknown[] = []
  for (const cleanup of cleanups.splice(0).reverse()) {
    try {
      await cleanup()
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'not everything could be stopped')
})

/** Waits until `condition` gives something, and gives it. */
export async function waitUntil<Value>(
  what: string,
  condition: () => Value | undefined | false | null,
  timeoutMs = 30_000,
): Promise<Value> {
  const end = performance.now() + timeoutMs
  for (;;) {
    const value = condition()
    if (value !== undefined && value !== false && value !== null) return value
    if (performance.now() > end) throw new Error(`waited ${timeoutMs} ms in vain until ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

/** A folder that goes when the test is over. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'holdfast-faults-'))
  cleanups.push(() => rmSync(path, { recursive: true, force: true, maxRetries: 5 }))
  return path
}

/** Something to be undone when the test is over; the last first. */
export const atEnd = (cleanup: () => unknown): void => void cleanups.push(cleanup)

/** A line that a program said. */
export type Said = { readonly [name: string]: unknown }

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface StartOptions {
  readonly env?: NodeJS.ProcessEnv
  /** The machine's clock as this program sees it. */
  readonly clock?: FakeClock
}

/** A process under the test's hands. */
export class Program {
  readonly pid: number
  /** Every line that it said so far. */
  readonly said: Said[] = []
  readonly exited: Promise<Exit>
  exit: Exit | undefined
  stderr = ''
  readonly #child: ChildProcess
  #rest = ''
  #asked = 0

  constructor(command: string, args: readonly string[], { env, clock }: StartOptions = {}) {
    this.#child = spawn(command, args, {
      stdio: 'pipe',
      env: { PATH: process.env.PATH, ...env, ...clock?.env },
    })
    this.pid = this.#child.pid ?? 0
    this.#child.stdin?.on('error', () => {}) // a program that has ended hears nothing
    this.#child.stdout?.on('data', (data: Buffer) => this.#hear(String(data)))
    this.#child.stderr?.on('data', (data: Buffer) => {
      this.stderr += data
    })
    this.exited = new Promise((resolve) => {
      const end = (exit: Exit) => {
        this.exit = exit
        resolve(exit)
      }
      this.#child.once('error', (error) => {
        this.stderr += error.message
        end({ code: null, signal: null })
      })
      // What it said last may still be in the pipe, unless a child of its own keeps that open.
      this.#child.once('close', (code, signal) => end({ code, signal }))
    })
    atEnd(() => this.kill())
  }

  /** Tells it something, and waits for what it says to that. */
  ask(command: string, details: Said = {}, timeoutMs?: number): Promise<Said> {
    const id = this.tell(command, details)
    return this.hears(`the answer to ${command}`, (line) => line.re === id, timeoutMs)
  }

  /** Tells it something. Gives the number that its answer will bear. */
  tell(command: string, details: Said = {}): number {
    const id = ++this.#asked
    this.#child.stdin?.write(`${JSON.stringify({ id, do: command, ...details })}\n`)
    return id
  }

  /** Waits for a line. */
  hears(what: string, is: (line: Said) => boolean, timeoutMs?: number): Promise<Said> {
    return waitUntil(
      `${what} (process ${this.pid})`,
      () => {
        const found = this.said.find(is)
        if (found === undefined && this.exit !== undefined)
          throw new Error(
            `process ${this.pid} ended (${this.exit.signal ?? this.exit.code}) before ${what}: ${this.stderr}`,
          )
        return found
      },
      timeoutMs,
    )
  }

  /** SIGTERM, and waits for the end. */
  async stop(): Promise<Exit> {
    this.#signal('SIGTERM')
    return this.exited
  }

  /** SIGKILL, and waits for the end. */
  async kill(): Promise<Exit> {
    this.#signal('SIGKILL')
    return this.exited
  }

  /** SIGSTOP: it stands still, wherever it is. */
  async freeze(): Promise<void> {
    this.#signal('SIGSTOP')
    await this.frozen()
  }

  /** Waits until it stands still, by the harness's hand or its own. */
  async frozen(): Promise<void> {
    await waitUntil(`process ${this.pid} is frozen`, () => stateOf(this.pid) === 'T' || this.exit !== undefined)
  }

  /** SIGCONT. */
  thaw(): void {
    this.#signal('SIGCONT')
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.exit === undefined && this.pid > 0) this.#child.kill(signal)
  }

  #hear(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line.startsWith('{')) this.said.push(JSON.parse(line))
      else this.stderr += `${line}\n`
    }
  }
}

/** The letter by which the kernel calls a process's state: R, S, T (stopped), Z … */
function stateOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.slice(stat.lastIndexOf(')') + 2)[0] ?? ''
  } catch {
    return ''
  }
}

const program = (name: string) => fileURLToPath(new URL(`./programs/${name}.mjs`, import.meta.url))
const built = fileURLToPath(new URL('../../dist/index.js', import.meta.url))

/** Starts one of the programs beside this file, and waits until it is ready. They run what was built. */
export async function start(name: string, args: readonly string[] = [], options: StartOptions = {}): Promise<Program> {
  const started = launch(name, args, options)
  await started.hears('it is ready', (line) => line.ready === true)
  return started
}

/** Starts one of the programs beside this file. */
export function launch(name: string, args: readonly string[] = [], options: StartOptions = {}): Program {
  if (!existsSync(built)) throw new Error('the library is not built: run `npm run build` first')
  return new Program(process.execPath, [program(name), ...args], options)
}

/** A server that runs, reached through a proxy. */
export interface ProxiedServer {
  readonly process: Program
  /** Where clients reach it. The proxy has the verbs hang, halfOpen, cut, refuse, slow, swallowReplies and heal. */
  readonly proxy: TcpProxy
}

/** Puts a proxy before the server that `process` runs on `port`. */
export async function behindProxy(process: Program, port: number): Promise<ProxiedServer> {
  const proxy = await tcpProxy({ port })
  atEnd(() => proxy.close())
  return { process, proxy }
}

/** The time of day as chosen programs see it, by libfaketime; timers and the monotonic clock stay true. */
export class FakeClock {
  readonly env: NodeJS.ProcessEnv
  readonly #file: string
  #offsetS = 0

  constructor(home: string) {
    this.#file = join(home, 'clock')
    this.#write()
    this.env = {
      LD_PRELOAD: fakeTimeLibrary(),
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    }
  }

  /** Sets the clock forward, or back when negative, for all programs that run with it, at once. */
  stepClock(bySeconds: number): void {
    this.#offsetS += bySeconds
    this.#write()
  }

  #write(): void {
    writeFileSync(`${this.#file}.new`, `${this.#offsetS < 0 ? '' : '+'}${this.#offsetS}\n`)
    renameSync(`${this.#file}.new`, this.#file)
  }
}

function fakeTimeLibrary(): string {
  for (const name of readdirSync('/usr/lib')) {
    const path = `/usr/lib/${name}/faketime/libfaketimeMT.so.1`
    if (existsSync(path)) return path
  }
  throw new Error('libfaketime is missing: on Debian, as root: apt-get install faketime')
}
