// No ghosts (G6). A claim whose acquire was given up while a request of it may still be on its way is withdrawn here, in the
// background: tried until the store confirms it, or until nothing of it can be left but one ghost of one ttl.
import type { LeaseStore } from '../store/contract.js'
import type { Alarms } from './alarms.js'
import type { Caller } from './call.js'
import type { Events } from './events.js'
import type { Random } from './random.js'
import type { Timeline } from './timeline.js'

/** How many withdrawals are sent at once: a thousand lost leases must not become a thousand commands in one moment. */
const AT_ONCE = 16
const FIRST_DELAY_MS = 100
const DELAY_MS_MAX = 5_000
const TRY_FOR_MS_MIN = 60_000

interface Withdrawal {
  readonly key: string
  readonly claim: string
  readonly timeoutMs: number
  readonly untilMs: number
  attempt: number
}

export interface WithdrawalParts {
  readonly store: LeaseStore
  readonly caller: Caller
  readonly alarms: Alarms
  readonly timeline: Timeline
  readonly events: Events
  readonly random: Random
}

export class Withdrawals {
  readonly #parts: WithdrawalParts
  readonly #ready: Withdrawal[] = []
  #open = 0
  #sending = 0
  #idle: (() => void)[] = []

  constructor(parts: WithdrawalParts) {
    this.#parts = parts
  }

  /** Withdraws a claim in the background. */
  add(key: string, claim: string, settings: { ttlMs: number; callTimeoutMs: number }): void {
    const untilMs = this.#parts.timeline.now() + Math.max(TRY_FOR_MS_MIN, 2 * settings.ttlMs)
    this.#open++
    this.#ready.push({ key, claim, timeoutMs: settings.callTimeoutMs, untilMs, attempt: 0 })
    this.#send()
  }

  /** Resolves when nothing is left to withdraw. */
  settled(): Promise<void> {
    return this.#open === 0 ? Promise.resolve() : new Promise((resolve) => this.#idle.push(resolve))
  }

  #send(): void {
    while (this.#sending < AT_ONCE) {
      const next = this.#ready.shift()
      if (next === undefined) return
      this.#sending++
      next.attempt++
      const { store, caller } = this.#parts
      caller
        .run('a withdrawal', next.timeoutMs, (call) => store.withdraw(next.key, next.claim, call), { keepAlive: false })
        .then(
          () => this.#done(),
          (cause) => this.#failed(next, cause),
        )
    }
  }

  #failed(withdrawal: Withdrawal, cause: unknown): void {
    const { alarms, timeline, events, random } = this.#parts
    const { key, attempt } = withdrawal
    const nowMs = timeline.now()
    if (nowMs >= withdrawal.untilMs) {
      events.emit({ type: 'withdrawal-failed', key, cause })
      this.#done()
      return
    }
    this.#sending--
    events.emit({ type: 'withdrawal-pending', key, attempt, cause })
    const delayMs = Math.min(DELAY_MS_MAX, FIRST_DELAY_MS * 2 ** Math.min(attempt - 1, 10)) * (1 - random.unit() / 2)
    alarms.set(
      nowMs + delayMs,
      () => {
        this.#ready.push(withdrawal)
        this.#send()
      },
      false,
    )
    this.#send()
  }

  #done(): void {
    this.#sending--
    this.#open--
    if (this.#open === 0) for (const resolve of this.#idle.splice(0)) resolve()
    this.#send()
  }
}
