// A simulated process: the clocks of its machine, and whether it runs at all. The library runs in it unmodified, since all
// that it sees of the world are its clock, its timers and the store behind the network.
//
//   running ──pause──▶ paused: both clocks go on, nothing is delivered; afterwards all of it comes in a burst
//           ──sleep──▶ asleep: the same, and the monotonic clock stands still (the whole machine sleeps)
//           ──crash──▶ dead: nothing is ever delivered again
import type { Clock, Timer } from '../../lease/clock.js'
import type { Draws } from './draws.js'
import type { Schedule } from './schedule.js'

/** The clocks of a machine: how fast they run, in their ms for one true ms. */
export interface Rates {
  readonly mono: number
  readonly wall: number
  /** Whether its time of day may differ from that of other machines from the start. */
  readonly wallsDiffer: boolean
}

interface Due {
  readonly kind: 'timer' | 'message'
  readonly run: () => void
}

export class SimulatedProcess {
  /** Its place among the processes of the world; a restart keeps it. */
  readonly slot: number
  /** Unique: letter of the slot, number of the start. */
  readonly name: string
  readonly clock: Clock
  state: 'running' | 'paused' | 'asleep' | 'dead' = 'running'
  readonly #schedule: Schedule
  readonly #rates: Rates
  readonly #draws: Draws
  #monoMs: number
  #wallMs: number
  #readMs: number
  #backlog: Due[] = []
  readonly #timers = new Set<{ alive: boolean }>()

  constructor(schedule: Schedule, slot: number, start: number, rates: Rates, draws: Draws) {
    this.#schedule = schedule
    this.slot = slot
    this.name = `${'ABCDEFGH'[slot]}${start}`
    this.#rates = rates
    this.#draws = draws
    this.#monoMs = draws.whole(0, 1_000_000)
    const aheadMs = draws.whole(-5_000, 5_000)
    this.#wallMs = Date.UTC(2026, 0, 1) + (rates.wallsDiffer ? aheadMs : 0)
    this.#readMs = schedule.nowMs
    this.clock = {
      monoMs: () => this.#read()[0],
      wallMs: () => this.#read()[1],
      setTimer: (delayMs, fn) => this.#setTimer(delayMs, fn),
    }
  }

  /** Whether a timer is set that would keep a real process alive. */
  get keepsAlive(): boolean {
    return [...this.#timers].some(({ alive }) => alive)
  }

  /** Runs what has arrived for this process now, or when it runs again, or never. */
  deliver(kind: Due['kind'], run: () => void): void {
    if (this.state === 'running') run()
    else if (this.state !== 'dead') this.#backlog.push({ kind, run })
  }

  /** Resolves after `ms` of this process's own time, or as soon as the signal aborts. */
  wait(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal?.aborted === true) return resolve()
      const done = () => {
        timer.cancel()
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = this.clock.setTimer(ms, done)
      signal?.addEventListener('abort', done)
    })
  }

  pause(): void {
    this.#change('paused')
  }

  sleep(): void {
    this.#change('asleep')
  }

  crash(): void {
    this.#change('dead')
    this.#backlog = []
    this.#timers.clear()
  }

  /** Runs again: what came due meanwhile is delivered in a burst, the timers or the messages first. */
  resume(): void {
    if (this.state !== 'paused' && this.state !== 'asleep') return
    this.#change('running')
    const first = this.#draws.chance(0.5) ? 'timer' : 'message'
    const backlog = this.#backlog
    this.#backlog = []
    for (const { kind, run } of [
      ...backlog.filter((due) => due.kind === first),
      ...backlog.filter((due) => due.kind !== first),
    ])
      this.#schedule.after(0, () => this.deliver(kind, run))
  }

  /** Somebody sets the time of day. */
  stepWall(ms: number): void {
    this.#read()
    this.#wallMs += ms
  }

  #change(state: SimulatedProcess['state']): void {
    this.#read()
    if (this.state !== 'dead') this.state = state
  }

  /** Brings both clocks up to now. */
  #read(): [monoMs: number, wallMs: number] {
    const passedMs = this.#schedule.nowMs - this.#readMs
    if (passedMs > 0) {
      this.#readMs = this.#schedule.nowMs
      this.#wallMs += passedMs * this.#rates.wall
      if (this.state !== 'asleep') this.#monoMs += passedMs * this.#rates.mono
    }
    return [this.#monoMs, this.#wallMs]
  }

  #setTimer(delayMs: number, fn: () => void): Timer {
    if (Number.isNaN(delayMs)) throw new TypeError('delayMs of a timer is NaN')
    const handle = { alive: true }
    this.#timers.add(handle)
    const dueMs = this.#read()[0] + Math.max(0, delayMs)
    // Sleep may have moved the instant further away, in true time: then it is waited for again. Never early.
    const fire = () => {
      if (!this.#timers.has(handle)) return
      const leftMs = dueMs - this.#read()[0]
      if (leftMs > 0) return arm(leftMs)
      this.#timers.delete(handle)
      fn()
    }
    const arm = (leftMs: number) => {
      happening = this.#schedule.after(leftMs / this.#rates.mono + 1e-6, () => this.deliver('timer', fire))
    }
    let happening: ReturnType<Schedule['after']> | undefined
    arm(Math.max(0, delayMs))
    return {
      cancel: () => {
        this.#timers.delete(handle)
        if (happening !== undefined) happening.run = undefined
      },
      keepAlive: (on) => {
        handle.alive = on
      },
    }
  }
}
