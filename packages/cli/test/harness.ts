// Runs the built command line as a user would, in a folder of its own, and leaves no process behind. Tests wait for
// conditions, never for a length of time.
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach } from 'vitest'

export const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url))
if (!existsSync(MAIN)) throw new Error('the command line is not built: run `npm run build` first')

export interface Result {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** A program that runs. */
export interface Running {
  readonly pid: number
  readonly stdout: () => string
  readonly stderr: () => string
  readonly ended: Promise<Result>
  write(text: string): void
  /** Ends its standard input. */
  endInput(): void
  kill(signal: NodeJS.Signals): void
}

export interface Place {
  /** A folder of this test's own. */
  readonly folder: string
  /** A file in it. */
  file(name: string): string
  /** What stands in a file; nothing when there is none. */
  read(name: string): string
  lines(name: string): string[]
  /** Runs `holdfast` on this test's store, to the end. */
  holdfast(...args: string[]): Promise<Result>
  /** Starts `holdfast` on this test's store. */
  start(...args: string[]): Running
  /** Starts any program here. */
  spawn(file: string, args: readonly string[], env?: NodeJS.ProcessEnv): Running
  /** Writes a shell script, and gives the words that run it. */
  script(name: string, text: string): string[]
  /** The environment of what runs here. */
  readonly env: NodeJS.ProcessEnv
  /** What runs on behalf of this test: every process with this folder in its environment. */
  processes(): Process[]
}

export interface Process {
  readonly pid: number
  readonly ppid: number
  readonly pgid: number
  readonly state: string
  readonly command: string
}

const places: string[] = []

afterEach(() => {
  for (const folder of places.splice(0)) {
    for (const { pid } of processesOf(folder)) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has just ended.
      }
    }
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
})

/** A folder, a store in it, and what a test needs to run things there. */
export function place(): Place {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-cli-test-'))
  places.push(folder)
  const file = (name: string) => join(folder, name)
  const read = (name: string) => (existsSync(file(name)) ? readFileSync(file(name), 'utf8') : '')
  const env: NodeJS.ProcessEnv = {
    PATH: process.env.PATH,
    HOME: folder,
    HOLDFAST_TEST_FOLDER: folder,
    HOLDFAST_STORE: `sqlite:${file('leases.db')}`,
  }
  const run = (program: string, args: readonly string[], own: NodeJS.ProcessEnv = env) =>
    running(spawn(program, args, { cwd: folder, env: own, stdio: 'pipe' }))
  return {
    folder,
    file,
    read,
    env,
    lines: (name) => read(name).split('\n').filter(Boolean),
    holdfast: (...args) => run(process.execPath, [MAIN, ...args]).ended,
    start: (...args) => run(process.execPath, [MAIN, ...args]),
    spawn: run,
    script(name, text) {
      writeFileSync(file(name), text)
      return ['sh', file(name)]
    },
    processes: () => processesOf(folder),
  }
}

function running(child: ChildProcess): Running {
  let stdout = ''
  let stderr = ''
  child.stdout?.on('data', (data: Buffer) => {
    stdout += data
  })
  child.stderr?.on('data', (data: Buffer) => {
    stderr += data
  })
  child.stdin?.on('error', () => {})
  const ended = new Promise<Result>((resolve, reject) => {
    child.once('error', reject)
    // Not 'close': a process that stays behind may keep the streams open.
    child.once('exit', (code, signal) =>
      setImmediate(() => setTimeout(() => resolve({ code, signal, stdout, stderr }), 50)),
    )
  })
  ended.catch(() => {})
  return {
    pid: child.pid ?? 0,
    stdout: () => stdout,
    stderr: () => stderr,
    ended,
    write: (text) => void child.stdin?.write(text),
    endInput: () => void child.stdin?.end(),
    kill: (signal) => void child.kill(signal),
  }
}

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
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Every process that was started on behalf of a folder and is no zombie. Linux only, as these tests are. */
function processesOf(folder: string): Process[] {
  const found: Process[] = []
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      if (!readFileSync(`/proc/${name}/environ`, 'utf8').includes(`HOLDFAST_TEST_FOLDER=${folder}\0`)) continue
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      const [state = '', ppid, pgid] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      if (state === 'Z' || state === 'X') continue
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
      found.push({ pid: Number(name), ppid: Number(ppid), pgid: Number(pgid), state, command })
    } catch {
      // It has ended meanwhile.
    }
  }
  return found
}

/** Whether a process runs, stopped or not. A zombie does not. */
export function lives(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2))
  } catch {
    return false
  }
}

/**
 * A command that writes its token to a file, over and over, until it is ended: what two holders at once would show as tokens
 * in turns. `stubborn` ignores SIGTERM; `busy` makes no pause, so that it writes whenever it may run at all.
 */
export function beating({ stubborn = false, busy = false } = {}): string[] {
  const trap = stubborn ? "trap '' TERM; " : ''
  return ['sh', '-c', `${trap}while :; do echo "$HOLDFAST_TOKEN" >> beats; ${busy ? '' : 'sleep 0.01; '}done`]
}

/** Fails when two held at once: every token that was written must be over before a bigger one begins. Gives the tokens. */
export function tokensInTurn(lines: readonly string[]): number[] {
  const tokens: number[] = []
  for (const line of lines) {
    const token = Number(line)
    const last = tokens.at(-1) ?? 0
    if (!Number.isSafeInteger(token) || token < last)
      throw new Error(`two held at once: token ${line} came after ${last}`)
    if (token !== last) tokens.push(token)
  }
  return tokens
}
