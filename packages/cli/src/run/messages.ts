// What the holder and its watchdog tell each other over the pipe between them.
import type { Instant } from './instants.js'

export interface CommandLine {
  readonly file: string
  readonly args: readonly string[]
  /** Added to the environment that both processes have. */
  readonly env: Readonly<Record<string, string>>
}

/** From the holder. Instants are absolute, so that a message that was delayed by a freeze says nothing wrong. */
export type ToWatchdog =
  /** Start the command. It may run until the deadline. */
  | {
      readonly is: 'start'
      readonly command: CommandLine
      readonly key: string
      readonly deadline: Instant
      readonly graceMs: number
    }
  /** The lease was renewed. */
  | { readonly is: 'deadline'; readonly deadline: Instant }
  /** The lease is lost: end the command now. */
  | { readonly is: 'end' }

/** Why the watchdog ended the command. */
export type EndedBy = 'deadline' | 'holder' | 'request'

/** From the watchdog. */
export type FromWatchdog =
  /** It runs, and its clocks say this. */
  | { readonly is: 'ready'; readonly at: Instant }
  /** The command runs; its pid is its group's. */
  | { readonly is: 'started'; readonly pgid: number }
  /** The command does not run. `late`: its deadline had passed before it could be started. */
  | { readonly is: 'not started'; readonly why: 'late' | 'not found' | 'not executable'; readonly message: string }
  /** The command itself has ended, others of its group have not. */
  | { readonly is: 'exited' }
  /** No process of the group is left. */
  | {
      readonly is: 'gone'
      readonly code: number | null
      readonly signal: NodeJS.Signals | null
      readonly endedBy: EndedBy | null
    }
