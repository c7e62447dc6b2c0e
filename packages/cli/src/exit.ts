// The exit codes of `holdfast`, in one place: docs/reference/cli.md has a row for each, and a test compares the two.
// They are those of sysexits.h where that has one, so that they rarely meet a code of the command that `run` passes on.

export const EXIT = {
  ok: 0,
  /** `show`, `revoke`: nothing is known of the key, or nobody holds it. */
  nothing: 1,
  /** Bad usage: an option, a name or a store URL that cannot be right. Nothing was asked of any store. */
  usage: 64,
  /** The store cannot be reached, refuses, or does not answer. With `run`: the command was not started. */
  unavailable: 69,
  /** A fault of holdfast's own. */
  internal: 70,
  /** `run`: another holds the lease, and the wait is over. The command was not started. */
  held: 75,
  /** `doctor`: a promise does not hold with the settings of the store's servers. */
  problem: 78,
  /** `run`: the lease was lost while the command ran, and the command was ended. */
  lost: 79,
  /** `run`: the command could not be executed, as shells say it. */
  notExecutable: 126,
  /** `run`: the command was not found, as shells say it. */
  notFound: 127,
  /** Ended by signal n: this and n. */
  signalled: 128,
} as const

/** What a person is told in one line, and the code with which the program ends. */
export class CliError extends Error {
  readonly exitCode: number

  constructor(exitCode: number, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'CliError'
    this.exitCode = exitCode
  }
}

/** An option that cannot be right. */
export const usageError = (message: string) => new CliError(EXIT.usage, message)

/** What was thrown, in words. */
export const messageOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown))
