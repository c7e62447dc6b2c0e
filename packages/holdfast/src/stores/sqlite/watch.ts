// Who waits for a key in this process. SQLite tells nobody of a change, but a look at `PRAGMA data_version` costs a few µs
// and takes no lock: one look for all watchers of the process, only while there are any, and only when it has changed a
// look at each watched key. Hints only (G8): whoever misses one asks at the end of the holder's term.
import type { Clock, Timer } from '../../lease/clock.js'
import { type KeyState, mayBeFree } from '../../store/protocol.js'
import { Watcher } from '../../store/watcher.js'

/** How often the file is looked at, in ms. */
const LOOK_MS = 5

/** The reads that watching needs. */
export interface Look {
  /** Changes when another connection has committed. */
  version(): unknown
  key(key: string): { state: KeyState; nowMs: number }
}

export class Watches {
  readonly #clock: Clock
  readonly #look: Look
  readonly #byKey = new Map<string, Set<Watcher>>()
  #timer: Timer | undefined
  #version: unknown
  #closed = false

  constructor(clock: Clock, look: Look) {
    this.#clock = clock
    this.#look = look
  }

  watch(key: string, claim: string, signal: AbortSignal): AsyncIterableIterator<void> {
    const watcher = new Watcher(claim, signal, () => this.#remove(key, watcher))
    if (this.#closed) watcher.end()
    if (signal.aborted || this.#closed) return watcher
    const peers = this.#byKey.get(key)
    if (peers === undefined) this.#byKey.set(key, new Set([watcher]))
    else peers.add(watcher)
    if (this.#timer === undefined) this.#tick()
    else this.#check(key)
    return watcher
  }

  /** This process itself has committed that the turn of `claim` has come; empty: of anybody. */
  wake(key: string, claim: string): void {
    for (const watcher of this.#byKey.get(key) ?? []) if (claim === '' || claim === watcher.claim) watcher.hint()
  }

  /** Ends all watches. */
  close(): void {
    this.#closed = true
    for (const watchers of this.#byKey.values()) for (const watcher of watchers) watcher.end()
  }

  #remove(key: string, watcher: Watcher): void {
    const peers = this.#byKey.get(key)
    peers?.delete(watcher)
    if (peers?.size === 0) this.#byKey.delete(key)
    if (this.#byKey.size > 0) return
    this.#timer?.cancel()
    this.#timer = undefined
    this.#version = undefined
  }

  readonly #tick = (): void => {
    this.#timer = this.#clock.setTimer(LOOK_MS, this.#tick)
    try {
      const version = this.#look.version()
      if (version === this.#version) return
      this.#version = version
    } catch {
      return // the next look will do, or the watcher's own next question brings the error to light
    }
    for (const key of this.#byKey.keys()) this.#check(key)
  }

  #check(key: string): void {
    try {
      const { state, nowMs } = this.#look.key(key)
      for (const watcher of this.#byKey.get(key) ?? []) if (mayBeFree(state, watcher.claim, nowMs)) watcher.hint()
    } catch {
      this.#version = undefined // look again at the next tick
    }
  }
}
