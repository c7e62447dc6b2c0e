// Whether the targets were reached. Said, never enforced: a benchmark on a machine that others use is no test.
import type { Target } from './benchmark.js'
import type { Row } from './rows.js'
import { figure } from './table.js'

/** One line for each target. */
export function verdicts(targets: readonly Target[], rows: readonly Row[]): string[] {
  return targets.map((target) => {
    const { subject, metric, of, atLeast, atMost } = target
    const row = rows.find((one) => one.subject === subject && one.metric === metric)
    const value = of === 'ratio' ? row?.ratio : row?.median
    const limits = [
      atLeast === undefined ? [] : `at least ${atLeast}`,
      atMost === undefined ? [] : `at most ${atMost}`,
    ].flat()
    const what = `${subject}, ${metric}${of === 'ratio' ? ', ratio' : ''}: ${limits.join(' and ')}`
    if (value === undefined || value === null) return `target  ${what}: not measured`
    return `target  ${what}: ${reaches(target, value) ? 'reached' : 'MISSED'} with ${figure(value)}`
  })
}

export function reaches(
  { atLeast = Number.NEGATIVE_INFINITY, atMost = Number.POSITIVE_INFINITY }: Target,
  value: number,
): boolean {
  return value >= atLeast && value <= atMost
}
