// One question of a contender to the store.
import type { Granted, Held } from '../store/contract.js'
import { Call } from './call.js'
import type { Handover, Verdict } from './contest.js'
import type { Core } from './core.js'
import type { HoldfastError } from './errors.js'
import type { OpenRequests } from './granted.js'
import type { Contender } from './waiting.js'

export class AcquireCall extends Call<Granted | Held> {
  readonly requests: OpenRequests
  readonly handover: Handover | undefined
  readonly sentMs: number
  readonly #contender: Contender
  readonly #done: (verdict: Verdict) => void

  constructor(
    core: Core,
    contender: Contender,
    requests: OpenRequests,
    handover: Handover | undefined,
    sentMs: number,
    timeoutMs: number,
    done: (verdict: Verdict) => void,
  ) {
    super(core.alarms, timeoutMs)
    this.requests = requests
    this.handover = handover
    this.sentMs = sentMs
    this.#contender = contender
    this.#done = done
  }

  protected get what(): string {
    return 'an acquire'
  }

  protected send(): Promise<Granted | Held> {
    return this.#contender.acquire(this)
  }

  protected override onSettled(): void {
    this.requests.acquires--
  }

  protected override onLate(answer: Granted | Held): void {
    this.#contender.answeredLate(answer, this.requests)
  }

  protected onAnswer(answer: Granted | Held): void {
    this.#done(this.#contender.answered(answer, this))
  }

  protected onError(error: HoldfastError): void {
    this.#done(this.#contender.failed(error, this.requests))
  }
}
