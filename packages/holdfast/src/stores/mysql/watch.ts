// Who waits for a key in this process. MySQL tells nobody of a change; so one query at a steady pace looks at the keys of all who wait,
// while there are any, and says which may be free for whom. It takes no lock. What this process itself has freed is told at once.
// Hints only (G8): whoever misses one asks at the end of the holder's term.
import type { Clock, Timer } from '../../lease/clock.js'
import { Watcher } from '../../store/watcher.js'

/** How often is looked, in ms; and after a look that failed. */
const LOOK_MS = 20
const LOOK_AGAIN_MS = 250

/** So many watchers share a look at most; the others have the next. */
const LOOK_MAX = 500

/** Whether the key may be free for the claim, for each, in order. */
export type Look = (watched: readonly { readonly key: string; readonly claim: string }[]) => Promise<readonly boolean[]>

export class Watches {
  readonly #clock: Clock
  readonly #look: Look
  readonly #byKey = new Map<string, Set<KeyWatcher>>()
  #timer: Timer | undefined
  #looking = false
  #first = 0
  #closed = false

  constructor(clock: Clock, look: Look) {
    this.#clock = clock
    this.#look = look
  }

  watch(key: string, claim: string, signal: AbortSignal): AsyncIterableIterator<void> {
    const watcher: KeyWatcher = new KeyWatcher(key, claim, signal, () => this.#remove(watcher))
    if (this.#closed) watcher.end()
    if (signal.aborted || this.#closed) return watcher
    const peers = this.#byKey.get(key)
    if (peers === undefined) this.#byKey.set(key, new Set([watcher]))
    else peers.add(watcher)
    this.#later(0)
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

  #remove(watcher: KeyWatcher): void {
    const peers = this.#byKey.get(watcher.key)
    peers?.delete(watcher)
    if (peers?.size === 0) this.#byKey.delete(watcher.key)
    if (this.#byKey.size > 0) return
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #later(delayMs: number): void {
    if (this.#timer !== undefined || this.#looking || this.#byKey.size === 0) return
    this.#timer = this.#clock.setTimer(delayMs, () => {
      this.#timer = undefined
      this.#lookAtAll()
    })
  }

  #lookAtAll(): void {
    const all = [...this.#byKey.values()].flatMap((watchers) => [...watchers])
    if (this.#first >= all.length) this.#first = 0
    const some = all.slice(this.#first, this.#first + LOOK_MAX)
    this.#first += LOOK_MAX
    this.#looking = true
    this.#look(some).then(
      (free) => {
        for (const [i, watcher] of some.entries()) if (free[i] === true) watcher.hint()
        this.#looking = false
        this.#later(LOOK_MS)
      },
      () => {
        this.#looking = false // the next look will do, or the watcher's own next question brings the error to light
        this.#later(LOOK_AGAIN_MS)
      },
    )
  }
}

/** One who waits for this key. */
class KeyWatcher extends Watcher {
  readonly key: string

  constructor(key: string, claim: string, signal: AbortSignal, left: () => void) {
    super(claim, signal, left)
    this.key = key
  }
}
