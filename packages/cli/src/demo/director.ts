// Starts the three processes of the demo, gives them their cues, freezes and thaws them, and leaves nobody behind.
import { type ChildProcess, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { CliError, EXIT } from '../exit.js'
import type { Cue, DatabaseCue, Reply, Scene } from './cast.js'

const START_MS = 15_000

/** How often it is looked at whether a process has stopped. */
const LOOK_EVERY_MS = 5

/** One process of the demo. */
export class Actor {
  readonly name: string
  readonly #process: ChildProcess
  readonly #ended: Promise<void>
  #answer: { resolve(reply: Reply): void; reject(error: Error): void } | undefined

  constructor(name: string, file: string) {
    this.name = name
    this.#process = fork(fileURLToPath(new URL(file, import.meta.url)), [], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    this.#ended = new Promise((resolve) => this.#process.once('exit', () => resolve()))
    this.#process.on('error', () => {})
    this.#process.on('message', (reply: Reply) => this.#answer?.resolve(reply))
    this.#process.on('exit', () =>
      this.#answer?.reject(new CliError(EXIT.internal, `the process ${name} of the demo ended before its time`)),
    )
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  /** What it says next. */
  hear(timeoutMs = START_MS): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new CliError(EXIT.internal, `the process ${this.name} of the demo does not answer`)),
        timeoutMs,
      )
      const settle =
        <Value>(then: (value: Value) => void) =>
        (value: Value) => {
          clearTimeout(timer)
          this.#answer = undefined
          then(value)
        }
      this.#answer = { resolve: settle(resolve), reject: settle(reject) }
    })
  }

  /** Gives a cue, and gives the answer. */
  async play(cue: Cue | DatabaseCue, timeoutMs?: number): Promise<Exclude<Reply, { is: 'failed' }>> {
    const answer = this.hear(timeoutMs)
    this.tell(cue)
    const reply = await answer
    if (reply.is === 'failed') throw new CliError(EXIT.unavailable, `${this.name}: ${reply.message}`)
    return reply
  }

  enter(scene: Scene) {
    return this.play({ do: 'enter', name: this.name, scene }, START_MS)
  }

  tell(message: Cue | DatabaseCue): void {
    this.#process.send(message, () => {})
  }

  /** SIGSTOP, for real. Done when the kernel says so, where it can be asked. */
  async freeze(): Promise<void> {
    this.#process.kill('SIGSTOP')
    while (process.platform === 'linux' && !/\) T /.test(readFileSync(`/proc/${this.pid}/stat`, 'latin1'))) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
    }
  }

  thaw(): void {
    this.#process.kill('SIGCONT')
  }

  /** Ends it, frozen or not. */
  async end(): Promise<void> {
    this.#answer = undefined
    this.#process.kill('SIGKILL')
    await this.#ended
  }

  /** Lets it clear away and end by itself. */
  async leave(): Promise<void> {
    if (this.#process.connected) this.#process.disconnect()
    await this.#ended
  }

  /** Ends it at once, when there is no time to wait. */
  kill(): void {
    this.#process.kill('SIGKILL')
  }
}
