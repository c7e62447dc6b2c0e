// What a client tells of itself while it works: to `onEvent`, and on channels of `node:diagnostics_channel` named
// `holdfast:` and the type. Types and fields are stable. A listener that throws, or rejects, hurts nobody (G9).
import type { LostReason } from './errors.js'

/** Something that happened to a lease, or on its behalf in the background. */
export type LeaseEvent =
  /** A lease was granted. `waitedMs` counts from the call. */
  | { readonly type: 'acquired'; readonly key: string; readonly token: number; readonly waitedMs: number }
  /** A caller's first attempt was refused and it goes on waiting. */
  | { readonly type: 'waiting'; readonly key: string; readonly holder: string; readonly remainingMs: number }
  /** A renewal succeeded. `remainingMs` is what is left until the new deadline. */
  | { readonly type: 'renewed'; readonly key: string; readonly token: number; readonly remainingMs: number }
  /** A renewal failed and will be tried again. `remainingMs` is what is left until the deadline. */
  | {
      readonly type: 'renewal-failed'
      readonly key: string
      readonly token: number
      readonly remainingMs: number
      readonly cause: unknown
    }
  /** A lease was given back, or handed to the next waiter of this process. */
  | { readonly type: 'released'; readonly key: string; readonly token: number }
  /** A release was not confirmed. It goes on in the background; the ttl frees the lease in any case. */
  | { readonly type: 'release-failed'; readonly key: string; readonly token: number; readonly cause: unknown }
  /** A lease ended without its holder's asking. */
  | { readonly type: 'lost'; readonly key: string; readonly token: number; readonly reason: LostReason }
  /** A claim is being withdrawn in the background and the store has not confirmed it yet. */
  | { readonly type: 'withdrawal-pending'; readonly key: string; readonly attempt: number; readonly cause: unknown }
  /** A withdrawal was given up: what may remain is one ghost of one ttl. */
  | { readonly type: 'withdrawal-failed'; readonly key: string; readonly cause: unknown }
  /** Wake-ups do not come through. Waiters go on asking at their pace (G8). */
  | { readonly type: 'watch-failed'; readonly key: string; readonly cause: unknown }
  /** A function given to Holdfast threw or rejected. */
  | { readonly type: 'callback-failed'; readonly callback: string; readonly cause: unknown }

/** Receives events. What it throws is caught. */
export type EventListener = (event: LeaseEvent) => void

interface Channel {
  readonly hasSubscribers: boolean
  publish(message: unknown): void
}

/** `node:diagnostics_channel`, where the platform has it, without an import that other platforms could not follow. */
const diagnostics = (
  globalThis as { process?: { getBuiltinModule?(id: string): { channel(name: string): Channel } | undefined } }
).process?.getBuiltinModule?.('node:diagnostics_channel')
const channels = new Map<string, Channel | undefined>()

function channelOf(type: string): Channel | undefined {
  if (!channels.has(type)) channels.set(type, diagnostics?.channel(`holdfast:${type}`))
  return channels.get(type)
}

export class Events {
  readonly #onEvent: EventListener | undefined

  constructor(onEvent: EventListener | undefined) {
    this.#onEvent = onEvent
  }

  /** Whether anybody would see an event of this type: asked before one is built on a hot path. */
  wanted(type: LeaseEvent['type']): boolean {
    return this.#onEvent !== undefined || channelOf(type)?.hasSubscribers === true
  }

  emit(event: LeaseEvent): void {
    publish(event)
    if (this.#onEvent === undefined) return
    const failed = (cause: unknown) => publish({ type: 'callback-failed', callback: 'onEvent', cause })
    try {
      const returned: unknown = this.#onEvent(event)
      if (returned instanceof Promise) returned.catch(failed)
    } catch (cause) {
      failed(cause)
    }
  }
}

function publish(event: LeaseEvent): void {
  const channel = channelOf(event.type)
  if (channel?.hasSubscribers !== true) return
  try {
    channel.publish(event)
  } catch {
    // Node reports a throwing subscriber by itself; other platforms' channels must not break a lease.
  }
}
