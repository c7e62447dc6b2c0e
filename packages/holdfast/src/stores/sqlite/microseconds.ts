// Tokens follow a clock that counts in µs; the machine's counts in ms.

/**
 * The clock in µs. The machine's counts in ms, so the grants within one are numbered: then a key that changes hands several
 * times in a ms still follows the clock, and the plain statement need not know the last token.
 */
export function microsecondClock(): (nowMs: number) => number {
  let lastMs = 0
  let grants = 0
  return (nowMs) => {
    grants = nowMs === lastMs ? Math.min(grants + 1, 999) : 0
    lastMs = nowMs
    return Math.floor(nowMs * 1000) + grants
  }
}
