// Randomness comes in from outside, like time: a seeded source makes a run repeatable.

/** Where claims and jitter come from. */
export interface Random {
  /** Text that nobody else will ever draw: it makes the claim of one acquisition unique. */
  claim(): string
  /** A number from 0 to just below 1, for jitter. Need not be secret. */
  unit(): number
}

/** The platform's generator: 122 random bits for each claim. */
export const systemRandom: Random = {
  claim: () => crypto.randomUUID(),
  unit: () => Math.random(),
}
