// What the processes of the demo say to each other besides questions to the database: the director tells the contenders what
// to do, one thing at a time, over the channel that Node gives a forked process.

/** How the story is played. */
export interface Scene {
  /** The socket of the database process. */
  readonly socket: string
  readonly key: string
  readonly ttlMs: number
  /** A store to play on in real time; null: that of the database process, whose clock is moved by hand. */
  readonly storeUrl: string | null
}

/** What the director asks of a contender. */
export type Cue =
  | { readonly do: 'enter'; readonly name: string; readonly scene: Scene }
  /** Ask for the lease, for at most so long. */
  | { readonly do: 'acquire'; readonly waitMs: number }
  /** Check the lease and be about to write, until the next cue. */
  | { readonly do: 'check' }
  /** Write a report to the register, with no look at the lease. */
  | { readonly do: 'write'; readonly register: Register }
  /** Look at the lease. */
  | { readonly do: 'look' }
  /** Give the lease back. */
  | { readonly do: 'release' }

/** What the director asks of the database. */
export type DatabaseCue =
  /** Listen on a socket; keep the registers in the technology of this store. */
  | { readonly do: 'open'; readonly socket: string; readonly storeUrl: string | null; readonly name: string }
  /** End this contender should the director be gone. */
  | { readonly do: 'mind'; readonly pid: number }
  /** Remove the registers. */
  | { readonly do: 'clear' }

export type Register = 'plain' | 'fenced'

export type Reply =
  | { readonly is: 'done' }
  | { readonly is: 'granted'; readonly token: number; readonly waitedMs: number }
  | { readonly is: 'held'; readonly by: string; readonly remainingMs: number }
  | { readonly is: 'checked'; readonly held: boolean }
  | Written
  | { readonly is: 'failed'; readonly message: string }

/** What a register answers. */
export type Written = { readonly is: 'written' } | { readonly is: 'stale'; readonly admitted: number | null }
