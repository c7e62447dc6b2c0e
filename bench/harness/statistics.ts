// Medians with their range, and ratios within a round: on a machine that others use too, the rounds differ more than the
// subjects, so a subject is compared with the floor of the SAME round, and the median is taken over those ratios.

/** The middle of some numbers, with the smallest and the biggest. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** The spread of at least one number. */
export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b)
  const [min, max] = [sorted[0], sorted[sorted.length - 1]]
  if (min === undefined || max === undefined) throw new RangeError('a spread needs at least one number')
  const half = Math.floor(sorted.length / 2)
  const upper = sorted[half] ?? max
  const median = sorted.length % 2 === 1 ? upper : ((sorted[half - 1] ?? min) + upper) / 2
  return { median, min, max }
}

/**
 * The spread of subject / floor, round by round; both lists are in the order of the rounds. Undefined when no round has a
 * ratio: the floor does not measure this, or is 0.
 */
export function ratios(subject: readonly number[], floor: readonly (number | undefined)[]): Spread | undefined {
  const all = subject.flatMap((value, round) => {
    const base = floor[round]
    return base === undefined || base === 0 ? [] : [value / base]
  })
  return all.length === 0 ? undefined : spread(all)
}

/** The value that `share` of the numbers do not exceed (nearest rank); 0 of an empty list. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
}
