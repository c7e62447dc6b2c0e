// Randomness comes in from outside, like time: a seeded source makes a run repeatable.

/** Where claims and jitter come from. */
export interface Random {
  /** An identity that nobody else will ever draw: the claim of one acquisition. */
  claim(): string
  /** A number from 0 to just below 1, for jitter. Need not be secret. */
  unit(): number
}

/** 128 bits from the platform's generator for each claim, drawn anew each time: two copies of one virtual machine differ. */
export const systemRandom: Random = {
  claim() {
    const words = crypto.getRandomValues(new Uint32Array(4))
    let text = ''
    for (const word of words) text += word.toString(36).padStart(7, '0')
    return text
  },
  unit: () => Math.random(),
}
