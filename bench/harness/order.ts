// The order of runs. Subjects are interleaved, so that a change in the machine's load meets all of them alike, and the order
// is turned round every second round, so that none always runs in the wake of the same other.

/** The subjects of a round, counted from 0, in the order in which they run. */
export function orderOf<Subject>(subjects: readonly Subject[], round: number): Subject[] {
  return round % 2 === 0 ? [...subjects] : [...subjects].reverse()
}
