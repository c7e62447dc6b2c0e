// One watch of the namespace for all who wait in this process. An open watch does not prove that the server lives, so it has a
// deadline of its own; when it ends, for whatever reason, it begins anew, and every waiter is told to look.
import type { Clock, Timer } from '../../lease/clock.js'
import type { KubernetesLease, KubernetesWatch } from './client.js'
import { failure } from './failure.js'

/** The server ends the watch after this long; a watch that has not ended a while later is given up. */
const WATCH_MS = 240_000
const PATIENCE_MS = 15_000
const PAUSE_MS = 1_000

/** What a listener is told: the Lease, null when it is gone, undefined when it has to be read. */
type Change = KubernetesLease | null | undefined

interface Listener {
  told(change: Change): void
  failed(error: unknown): void
}

export class WatchHub {
  readonly #watch: KubernetesWatch
  readonly #namespace: string
  readonly #clock: Clock
  readonly #listeners = new Map<string, Set<Listener>>()
  #running: { abort(): void } | undefined
  #turn = 0
  #open = false
  #timer: Timer | undefined

  constructor(watch: KubernetesWatch, namespace: string, clock: Clock) {
    this.#watch = watch
    this.#namespace = namespace
    this.#clock = clock
  }

  async *changes(name: string, signal: AbortSignal): AsyncGenerator<Change> {
    const told: Change[] = []
    let failed: { error: unknown } | undefined
    let wake: (() => void) | undefined
    const listener: Listener = {
      told(change) {
        told.push(change)
        wake?.()
      },
      failed(error) {
        failed = { error }
        wake?.()
      },
    }
    const stop = () => wake?.()
    const those = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, those.add(listener))
    signal.addEventListener('abort', stop)
    if (this.#open) told.push(undefined)
    else if (this.#running === undefined) this.#begin()
    try {
      while (!signal.aborted) {
        if (failed !== undefined) throw failed.error
        if (told.length > 0) {
          yield told.shift()
          continue
        }
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    } finally {
      signal.removeEventListener('abort', stop)
      those.delete(listener)
      if (those.size === 0 && this.#listeners.get(name) === those) this.#listeners.delete(name)
      if (this.#listeners.size === 0) this.close()
    }
  }

  close(): void {
    this.#turn++
    this.#timer?.cancel()
    this.#open = false
    const running = this.#running
    this.#running = undefined
    running?.abort()
  }

  #begin(): void {
    const turn = ++this.#turn
    const isOver = () => turn !== this.#turn
    this.#running = { abort: () => {} }
    const path = `/apis/coordination.k8s.io/v1/namespaces/${this.#namespace}/leases`
    const ended = (error?: unknown) => {
      if (isOver()) return
      this.close()
      if (error !== undefined && error !== null) {
        for (const listener of this.#all())
          listener.failed(failure(error, { verb: 'watch', namespace: this.#namespace }))
        return
      }
      if (this.#listeners.size > 0) this.#later(PAUSE_MS, () => this.#begin())
    }
    this.#later(WATCH_MS + PATIENCE_MS, () => ended())
    // One that throws at once fails as any other.
    const begin = async () =>
      this.#watch.watch(
        path,
        { timeoutSeconds: WATCH_MS / 1_000 },
        (type, object) => {
          if (isOver()) return
          // An ERROR ends the watch: its version was too old (410), and the next one begins at now.
          if (type === 'ERROR') ended()
          else this.#tell(type, object)
        },
        (error) => ended(isQuiet(error) ? undefined : error),
      )
    begin().then(
      (running) => {
        if (isOver()) return running.abort()
        this.#running = running
        this.#open = true
        for (const listener of this.#all()) listener.told(undefined)
      },
      (error) => ended(error),
    )
  }

  #tell(type: string, object: KubernetesLease): void {
    const change = type === 'DELETED' ? null : object
    for (const listener of this.#listeners.get(object.metadata?.name ?? '') ?? []) listener.told(change)
  }

  #all(): Listener[] {
    return [...this.#listeners.values()].flatMap((those) => [...those])
  }

  #later(ms: number, fn: () => void): void {
    this.#timer?.cancel()
    this.#timer = this.#clock.setTimer(ms, fn)
    this.#timer.keepAlive(false)
  }
}

/** The end of a stream, as clients report it. */
function isQuiet(error: unknown): boolean {
  const { name = '', message = '' } = (error ?? {}) as { name?: string; message?: string }
  return error === undefined || error === null || name === 'AbortError' || /premature close|aborted/i.test(message)
}
