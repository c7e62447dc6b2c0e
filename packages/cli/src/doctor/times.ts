// Clocks and round trips, as findings: the same for every store with a server.
import { roughDuration } from '../text.js'
import type { ClockReading } from './clock.js'
import type { Finding } from './finding.js'

/** Clocks that are kept by NTP are together well within this. */
const APART_MS = 1_000

/** A time-out of a call is at most an eighth of the ttl, and a slow answer may take a few times what the slowest took here. */
const TTL_PER_ROUND_TRIP = 8 * 4

/** The shortest ttl that `run` takes, and the default. */
const [SHORTEST_MS, USUAL_MS] = [3_000, 30_000]

export function clockFinding({ offsetMs, errorMs }: ClockReading): Finding {
  const shown = `${Math.abs(offsetMs).toFixed(1)} ms ${offsetMs < 0 ? 'behind' : 'ahead of'} this machine, give or take ${errorMs.toFixed(1)} ms`
  const base = { what: 'clock', read: shown, touches: ['A2', 'G2'] }
  if (Math.abs(offsetMs) - errorMs <= APART_MS) return { ...base, level: 'ok', advice: '' }
  return {
    ...base,
    level: 'warning',
    advice:
      'leases go by the clock of the server alone; but a step that corrects it ends leases early, tokens that move to another store start from another clock, and so do the ballots of a quorum: keep all clocks by NTP',
  }
}

export function roundTripFinding({ roundTripsMs }: ClockReading): Finding {
  const median = roundTripsMs[Math.floor(roundTripsMs.length / 2)] ?? 0
  const slowest = roundTripsMs.at(-1) ?? 0
  const ttlMs = Math.max(100, slowest * TTL_PER_ROUND_TRIP)
  const read = `median ${median.toFixed(1)} ms, slowest of ${roundTripsMs.length} ${slowest.toFixed(1)} ms`
  const base = { what: 'round trip', read, touches: ['G5'] }
  if (ttlMs <= SHORTEST_MS) return { ...base, level: 'ok', advice: '' }
  return {
    ...base,
    level: ttlMs <= USUAL_MS ? 'note' : 'warning',
    advice: `a call may take an eighth of the ttl: give a ttl of ${roughDuration(ttlMs)} or more, so that a slow answer is no loss`,
  }
}
