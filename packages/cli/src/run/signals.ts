// Signals that `run` is sent are meant for the command: it has a process group of its own, which the terminal's keys do not
// reach, so they are forwarded to the whole group.
import { constants } from 'node:os'
import { signalGroup } from './group.js'

const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH'] as const

/** Those that mean "stop", before there is a command. */
const ENDING: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'])

/** From SIGTSTP, which a command may want to act on, to SIGSTOP, which it must obey. */
const STOP_AFTER_MS = 100

/** Forwards signals while a command runs. */
export class Signals {
  readonly #ended = new AbortController()
  #pgid: number | undefined
  #early: NodeJS.Signals[] = []
  #stopTimer: NodeJS.Timeout | undefined
  #mayGoOn = () => true
  readonly #installed: [NodeJS.Signals, () => void][] = []

  constructor() {
    for (const signal of FORWARDED) this.#on(signal, () => this.#forward(signal))
    this.#on('SIGTSTP', () => this.#stop())
    this.#on('SIGCONT', () => this.#goOn())
  }

  /** Aborts, with the signal's name as its reason, when a signal ends `run` before there is a command. */
  get ended(): AbortSignal {
    return this.#ended.signal
  }

  /** From now on signals go to this group. `mayGoOn` says whether it may be continued after a stop. */
  forwardTo(pgid: number, mayGoOn: () => boolean): void {
    this.#pgid = pgid
    this.#mayGoOn = mayGoOn
    for (const signal of this.#early.splice(0)) this.#forward(signal)
  }

  /** The group is gone: its number may soon be another's. */
  done(): void {
    this.#pgid = undefined
    clearTimeout(this.#stopTimer)
    for (const [signal, listener] of this.#installed.splice(0)) process.off(signal, listener)
  }

  #on(signal: NodeJS.Signals, listener: () => void): void {
    process.on(signal, listener)
    this.#installed.push([signal, listener])
  }

  #forward(signal: NodeJS.Signals): void {
    if (this.#pgid !== undefined) {
      signalGroup(this.#pgid, signal)
      return
    }
    this.#early.push(signal)
    if (ENDING.has(signal)) this.#ended.abort(signal)
  }

  /** Ctrl-Z: the group stops, then this process. Its group has no terminal, so SIGTSTP alone would not stop it. */
  #stop(): void {
    const pgid = this.#pgid
    if (pgid === undefined) return void process.kill(process.pid, 'SIGSTOP')
    signalGroup(pgid, 'SIGTSTP')
    clearTimeout(this.#stopTimer)
    this.#stopTimer = setTimeout(() => {
      signalGroup(pgid, 'SIGSTOP')
      process.kill(process.pid, 'SIGSTOP')
    }, STOP_AFTER_MS)
  }

  /** Continued. A group whose lease is lost stays stopped: the watchdog ends it. */
  #goOn(): void {
    if (this.#pgid !== undefined && this.#mayGoOn()) signalGroup(this.#pgid, 'SIGCONT')
  }
}

/** The exit code of what was ended by a signal. */
export const signalNumber = (signal: NodeJS.Signals): number => constants.signals[signal]
