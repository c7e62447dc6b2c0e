// Randomness comes in from outside, like time: a seeded source makes a run repeatable.
import type { Clock } from './clock.js'

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

/**
 * The identities of acquisitions. The time of day is part of them: a copy of a whole virtual machine has a copy of its generator
 * too, and would draw alike.
 */
export function claims(random: Random, clock: Clock): () => string {
  let lastMs = 0
  let suffix = ''
  return () => {
    const wallMs = clock.wallMs()
    if (wallMs !== lastMs) {
      lastMs = wallMs
      suffix = `.${wallMs.toString(36)}`
    }
    return random.claim() + suffix
  }
}
