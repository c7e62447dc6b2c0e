// The clock of a server against that of this machine: read between two looks at ours, so that half of the round trip is the
// error. Of several rounds the shortest says most.

export interface ClockReading {
  /** How far the server is ahead, in ms. */
  readonly offsetMs: number
  readonly errorMs: number
  /** Round trips, sorted. */
  readonly roundTripsMs: readonly number[]
}

const ROUNDS = 15

/** `ask` gives the server's time in ms since 1970. */
export async function readClock(ask: () => Promise<number>): Promise<ClockReading> {
  await ask() // the first also pays for what is only set up once
  let best = { offsetMs: 0, errorMs: Number.POSITIVE_INFINITY }
  const roundTripsMs: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const from = performance.now()
    const wallMs = performance.timeOrigin + from
    const serverMs = await ask()
    const tookMs = performance.now() - from
    roundTripsMs.push(tookMs)
    // The wall clock of the machine is read to the ms in places: no smaller error is claimed.
    const errorMs = tookMs / 2 + 1
    if (errorMs < best.errorMs) best = { offsetMs: serverMs - (wallMs + tookMs / 2), errorMs }
  }
  return { ...best, roundTripsMs: roundTripsMs.sort((a, b) => a - b) }
}
