// What the programs of the process cases share: a client by name (the built one, or the naive one), and a way to say things.
//   node PROGRAM holdfast ...        node --import tsx PROGRAM naive ...
import { createLeases } from 'holdfast'

export const [kind, ...args] = process.argv.slice(2)

/** A client of the asked kind. */
export async function open(options) {
  if (kind === 'holdfast') return createLeases(options)
  const { createNaive } = await import('../naive-client.ts')
  return createNaive(options)
}

/** One line for the test, with the time of day: what happened, and when. */
export const say = (text) => process.stdout.write(`${Date.now()} ${text}\n`)

/** Resolves after so many ms of real time. */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Keeps the event loop busy: nothing else runs meanwhile. */
export function block(ms) {
  const endMs = Date.now() + ms
  while (Date.now() < endMs);
}
