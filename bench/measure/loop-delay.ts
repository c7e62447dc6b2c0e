// For how long the event loop was not free.
import { monitorEventLoopDelay } from 'node:perf_hooks'

const RESOLUTION_MS = 10

/** Starts looking. Gives the way to read the longest delay since, in ms, beyond what the looking itself takes. */
export function loopDelay(): () => number {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  histogram.enable()
  return () => {
    histogram.disable()
    return Math.max(0, histogram.max / 1e6 - RESOLUTION_MS)
  }
}
