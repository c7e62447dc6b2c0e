// True time. One queue of events drives the whole simulated world; between two events all promise reactions run, so the code
// under test sees the same order as in real life, and the same order in every run.

/** Something that will happen. */
export interface Happening {
  readonly atMs: number
  readonly order: number
  /** Undefined once it was called off. */
  run: (() => void) | undefined
  /** Runs no code of the library, so that no promise reactions have to be waited for. */
  readonly isQuiet: boolean
}

/** So many events at one and the same instant are a loop that would never end. */
const AT_ONCE_MAX = 20_000

export class Schedule {
  /** True time, in ms since the start of the world. */
  nowMs = 0
  readonly #heap: Happening[] = []
  #order = 0
  #atOnce = 0

  /** Happens at `atMs`, or now if that is over. */
  at(atMs: number, run: () => void, isQuiet = false): Happening {
    const happening: Happening = { atMs: Math.max(atMs, this.nowMs), order: this.#order++, run, isQuiet }
    this.#push(happening)
    return happening
  }

  after(ms: number, run: () => void, isQuiet = false): Happening {
    return this.at(this.nowMs + ms, run, isQuiet)
  }

  /** Lets time pass until `endMs`, or until the condition holds after an event. Gives whether it holds. */
  async runUntil(endMs: number, isDone: () => boolean = () => false): Promise<boolean> {
    const turns = new Turns()
    await turns.next()
    while (!isDone()) {
      const next = this.#heap[0]
      if (next === undefined || next.atMs > endMs) {
        this.nowMs = Math.max(this.nowMs, endMs)
        break
      }
      this.#pop()
      if (next.run === undefined) continue
      this.#atOnce = next.atMs > this.nowMs ? 0 : this.#atOnce + 1
      if (this.#atOnce > AT_ONCE_MAX)
        throw new Error(`more than ${AT_ONCE_MAX} events at one instant: a loop without a delay`)
      this.nowMs = next.atMs
      next.run()
      if (!next.isQuiet) await turns.next()
    }
    turns.end()
    return isDone()
  }

  #push(happening: Happening): void {
    const heap = this.#heap
    let place = heap.push(happening) - 1
    while (place > 0) {
      const up = (place - 1) >> 1
      const parent = heap[up] as Happening
      if (isBefore(parent, happening)) break
      heap[place] = parent
      place = up
    }
    heap[place] = happening
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return
    let place = 0
    for (;;) {
      let down = 2 * place + 1
      if (down >= heap.length) break
      if (down + 1 < heap.length && isBefore(heap[down + 1] as Happening, heap[down] as Happening)) down++
      const child = heap[down] as Happening
      if (isBefore(last, child)) break
      heap[place] = child
      place = down
    }
    heap[place] = last
  }
}

const isBefore = (a: Happening, b: Happening) => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)

/**
 * Turns of the platform's own event loop: when one comes, every chain of promises that needs no outside event has run. Messages
 * to oneself, because a turn of timers or immediates costs several times as much.
 */
class Turns {
  readonly #channel = new MessageChannel()
  #next: (() => void) | undefined

  constructor() {
    this.#channel.port1.addEventListener('message', () => this.#next?.())
    this.#channel.port1.start()
  }

  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#next = resolve
      this.#channel.port2.postMessage(0)
    })
  }

  end(): void {
    this.#channel.port1.close()
  }
}
