// How much of one core this process uses, all its threads together.

/** Starts measuring. Gives the way to read the CPU time used since, in ms. */
export function cpuTime(): () => number {
  const start = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(start)
    return (user + system) / 1000
  }
}

/** The share of one core, in per cent, that is used while `wait` lasts. */
export async function cpuShareDuring(wait: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now()
  const usedMs = cpuTime()
  await wait()
  return (100 * usedMs()) / (performance.now() - startMs)
}
