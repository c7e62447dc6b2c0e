// The holder's side of the watchdog: starts it, tells it deadlines, and does its work in its place if it is ever killed.
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { CliError, EXIT } from '../exit.js'
import { isGroupGone, signalGroup } from './group.js'
import { type Instant, later, now, untilMs } from './instants.js'
import type { CommandLine, EndedBy, FromWatchdog, ToWatchdog } from './messages.js'

/** How the command ended. */
export interface Gone {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** Set when the watchdog, or this process in its place, ended it. */
  readonly endedBy: EndedBy | 'watchdog' | null
}

export type Started =
  | { readonly is: 'started'; readonly pgid: number; readonly gone: Promise<Gone> }
  | { readonly is: 'not started'; readonly why: 'late' | 'not found' | 'not executable'; readonly message: string }

export interface GuardOptions {
  readonly key: string
  readonly graceMs: number
  /** The command has ended, processes that it left in its group have not. */
  readonly onExited: () => void
}

/** How long a new process may take to say that it runs. */
const START_MS = 10_000

/** How often this process looks at the group when the watchdog is no more. */
const LOOK_EVERY_MS = 50

/** A command under a deadline. */
export class Guard {
  readonly #watchdog: ChildProcess
  readonly #options: GuardOptions
  readonly #exit: Promise<void>
  #deadline: Instant | undefined
  #lastResort: NodeJS.Timeout | undefined

  private constructor(watchdog: ChildProcess, options: GuardOptions) {
    this.#watchdog = watchdog
    this.#options = options
    this.#exit = new Promise((resolve) => watchdog.once('exit', () => resolve()))
  }

  /** Starts the watchdog. It watches nothing yet. */
  static async start(options: GuardOptions): Promise<Guard> {
    const from = now()
    const watchdog = fork(fileURLToPath(new URL('./watchdog.js', import.meta.url)), [], {
      detached: true,
      execArgv: [],
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    })
    watchdog.on('error', () => {}) // its exit says enough
    const guard = new Guard(watchdog, options)
    const ready = await guard.#hear((message) => (message.is === 'ready' ? message : undefined), START_MS)
    if (ready === undefined) {
      guard.abandon()
      throw new CliError(EXIT.internal, 'the watchdog process did not start; the command was not run')
    }
    // Deadlines travel as instants: both processes must read the same clocks. A ms is lost where the wall clock is cut.
    const skewed = untilMs(ready.at, from) < -1 || untilMs(now(), ready.at) < -1
    if (skewed) {
      guard.abandon()
      throw new CliError(
        EXIT.internal,
        'the clocks of two processes of this machine do not agree; the command was not run',
      )
    }
    return guard
  }

  /** Starts the command, which may run until the deadline. */
  async run(command: CommandLine, deadline: Instant): Promise<Started> {
    this.#deadline = deadline
    const answer = this.#hear((message) =>
      message.is === 'started' || message.is === 'not started' ? message : undefined,
    )
    const gone = this.#hear((message) => {
      if (message.is === 'exited') this.#options.onExited()
      return message.is === 'gone' ? message : undefined
    })
    this.#tell({ is: 'start', command, key: this.#options.key, deadline, graceMs: this.#options.graceMs })
    const started = await answer
    if (started === undefined)
      throw new CliError(EXIT.internal, 'the watchdog process died before it started the command')
    if (started.is === 'not started') {
      this.abandon()
      return started
    }
    const { pgid } = started
    const end = gone.then((message) => message ?? this.#endInItsPlace(pgid))
    return { is: 'started', pgid, gone: end.finally(() => clearTimeout(this.#lastResort)) }
  }

  /** Tells the new deadline. */
  renewed(deadline: Instant): void {
    this.#deadline = deadline
    this.#tell({ is: 'deadline', deadline })
  }

  /** The lease is lost: the command is ended now. Should the watchdog be stopped itself, SIGKILL comes from here. */
  end(pgid: number): void {
    this.#tell({ is: 'end' })
    const killAt = later(this.#deadline ?? now(), this.#options.graceMs)
    this.#lastResort = setTimeout(() => signalGroup(pgid, 'SIGKILL'), Math.max(0, untilMs(killAt, now())))
  }

  /** Ends a watchdog that watches nothing. */
  abandon(): void {
    if (this.#watchdog.connected) this.#watchdog.disconnect()
    this.#watchdog.unref()
  }

  /** Somebody killed the watchdog: the command must not run unwatched. */
  async #endInItsPlace(pgid: number): Promise<Gone> {
    const from = now()
    const killAt = later(
      from,
      Math.min(this.#options.graceMs, untilMs(this.#deadline ?? from, from) + this.#options.graceMs),
    )
    signalGroup(pgid, 'SIGTERM')
    signalGroup(pgid, 'SIGCONT')
    while (!isGroupGone(pgid)) {
      if (untilMs(killAt, now()) <= 0) signalGroup(pgid, 'SIGKILL')
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
    }
    return { code: null, signal: null, endedBy: 'watchdog' }
  }

  #tell(message: ToWatchdog): void {
    if (this.#watchdog.connected) this.#watchdog.send(message, () => {})
  }

  /** The first message that `pick` takes; undefined when the watchdog ends, or the time is over, without one. */
  #hear<Message>(
    pick: (message: FromWatchdog) => Message | undefined,
    timeoutMs?: number,
  ): Promise<Message | undefined> {
    return new Promise((resolve) => {
      const done = (message: Message | undefined) => {
        this.#watchdog.off('message', listener)
        clearTimeout(timer)
        resolve(message)
      }
      const listener = (message: FromWatchdog) => {
        const picked = pick(message)
        if (picked !== undefined) done(picked)
      }
      const timer = timeoutMs === undefined ? undefined : setTimeout(done, timeoutMs, undefined)
      this.#watchdog.on('message', listener)
      // What it sent before its end is still read: the end counts only after the messages.
      void this.#exit.then(() => setImmediate(done, undefined))
    })
  }
}
