// An instant on both clocks of the machine, which all its processes read alike: the monotonic clock stands still while the
// machine sleeps, the wall clock can be set back. It is reached when either clock says so.

export interface Instant {
  /** `process.hrtime`: counts from an origin that the processes of one machine share. */
  readonly monoMs: number
  /** Since 1970. */
  readonly wallMs: number
}

export const now = (): Instant => ({ monoMs: Number(process.hrtime.bigint()) / 1e6, wallMs: Date.now() })

export const later = (at: Instant, ms: number): Instant => ({ monoMs: at.monoMs + ms, wallMs: at.wallMs + ms })

export const earlier = (a: Instant, b: Instant): Instant => ({
  monoMs: Math.min(a.monoMs, b.monoMs),
  wallMs: Math.min(a.wallMs, b.wallMs),
})

/** What is left until then; 0 or less when it is reached. */
export const untilMs = (at: Instant, from: Instant): number =>
  Math.min(at.monoMs - from.monoMs, at.wallMs - from.wallMs)
