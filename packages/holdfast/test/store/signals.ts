// What is left behind in a signal.
import { getEventListeners } from 'node:events'

/** How many things wait for a signal: its listeners, and the signals that Node has made of it. */
export function waitingFor(signal: AbortSignal): number {
  const made = Object.getOwnPropertySymbols(signal).find(({ description }) => description === 'kDependantSignals')
  const { size = 0 } = (made === undefined ? undefined : (signal as never)[made]) ?? ({} as { size?: number })
  return getEventListeners(signal, 'abort').length + size
}
