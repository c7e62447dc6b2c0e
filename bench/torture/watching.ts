// How an observer puts what happens into numbers.
import type { View } from '../peers/library.js'

/** How a promise ended, or that it had not when the observer's patience was over. */
export type End<T> =
  | { readonly is: 'value'; readonly value: T; readonly tookMs: number }
  | { readonly is: 'error'; readonly error: unknown; readonly tookMs: number }
  | { readonly is: 'open'; readonly tookMs: number }

export const nowMs = () => performance.now()
export const pass = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, Math.max(0, ms)))

/** Watches a promise for so long. Never rejects. */
export function watch<T>(promise: Promise<T>, patienceMs: number): Promise<End<T>> {
  const startMs = nowMs()
  const tookMs = () => nowMs() - startMs
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve({ is: 'open', tookMs: tookMs() }), patienceMs)
    const end = (given: End<T>) => {
      clearTimeout(timer)
      resolve(given)
    }
    promise.then(
      (value) => end({ is: 'value', value, tookMs: tookMs() }),
      (error: unknown) => end({ is: 'error', error, tookMs: tookMs() }),
    )
  })
}

/** A promise with its ends. */
export function door(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}

/**
 * Looks every 10 ms whether the library still believes that it holds the lock, until it does not or `until` is over. Gives the
 * latest instant at which it believed, and whether it does still.
 */
export async function believing(view: View, untilMs: number): Promise<{ lastMs: number; still: boolean }> {
  let lastMs = nowMs()
  while (view.believes() === true) {
    lastMs = nowMs()
    if (lastMs >= untilMs) return { lastMs, still: true }
    await pass(10)
  }
  return { lastMs, still: false }
}

/** A time for a reader: whole ms below 100 in steps of 1, above in steps of 10, from 10 s on in s. */
export function ms(value: number): string {
  if (Math.abs(value) >= 10_000) return `${(value / 1000).toFixed(1)} s`
  const step = Math.abs(value) < 100 ? 1 : 10
  return `${(Math.round(value / step) * step).toLocaleString('en-US')} ms`
}

/** The name of an error, for a table. */
export function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const name = error.name === 'Error' ? error.constructor.name : error.name
  const { code } = error as { code?: unknown }
  return name === 'Exception' && typeof code === 'string' ? code : name
}
