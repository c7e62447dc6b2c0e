// Repeats that wait for a run elsewhere: they ask again, quick at first and then about twice a second; a run in this process tells
// them at once when it ends.
import type { Records } from './contract.js'
import type { OnceSettings } from './options.js'
import { timeOf } from './run.js'

const FIRST_MS = 15
const LONGEST_MS = 500

const waiting = new WeakMap<Records, Map<string, Set<() => void>>>()

/** Waits until it is time to ask again, `withinMs` at the latest. Rejects with the signal's reason. */
export async function pause<T>(
  records: Records,
  { key, signal, clock, random }: OnceSettings<T>,
  withinMs: number,
  asked: number,
): Promise<void> {
  const { timeline, alarms } = timeOf(clock)
  const backOffMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(asked - 1, 10)) * (0.75 + 0.5 * random.unit())
  signal?.throwIfAborted()
  await new Promise<void>((resolve, reject) => {
    const done = () => {
      alarms.cancel(alarm)
      remove(records, key, done)
      signal?.removeEventListener('abort', aborted)
      resolve()
    }
    const aborted = () => {
      done()
      reject(signal?.reason)
    }
    // Not at the very end of the other's term, by whose clock it is not over before that.
    const alarm = alarms.set(timeline.now() + Math.min(withinMs + 1, backOffMs), done)
    add(records, key, done)
    signal?.addEventListener('abort', aborted)
  })
}

/** A run of this process has ended. */
export function notify(records: Records, key: string): void {
  for (const wake of [...(waiting.get(records)?.get(key) ?? [])]) wake()
}

function add(records: Records, key: string, wake: () => void): void {
  const keys = waiting.get(records) ?? new Map<string, Set<() => void>>()
  waiting.set(records, keys)
  const waiters = keys.get(key) ?? new Set()
  keys.set(key, waiters)
  waiters.add(wake)
}

function remove(records: Records, key: string, wake: () => void): void {
  const keys = waiting.get(records)
  const waiters = keys?.get(key)
  waiters?.delete(wake)
  if (waiters?.size === 0) keys?.delete(key)
}
