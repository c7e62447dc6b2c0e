// What `doctor` says of one setting: what was read, how bad that is, which promise it touches, and what to do.

/** `problem`: a promise does not hold. `warning`: it does not in some case that happens. `note`: good to know, or unknown. */
export type Level = 'ok' | 'note' | 'warning' | 'problem'

export interface Finding {
  /** What was looked at: the name of a setting where there is one. */
  readonly what: string
  /** What was read; "unknown" and why, when it could not be. */
  readonly read: string
  readonly level: Level
  /** The promises and assumptions of docs/design.md that it touches: `G2`, `A3`, `holdSurvives`. */
  readonly touches: readonly string[]
  /** What it does to them, and what to do about it. Empty when all is well. */
  readonly advice: string
  /** Which server, where there are several. */
  readonly where?: string
}
