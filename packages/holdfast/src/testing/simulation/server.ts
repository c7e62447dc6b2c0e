// The machine with the store, and beside it the resource that the leases protect: for every key a plain register, which takes
// any write, and a fenced one, which compares tokens. Every step that is taken here goes into the history.
import type { Clock } from '../../lease/clock.js'
import type { AcquireRequest, Grant, LeaseStore, RenewRequest } from '../../store/contract.js'
import { type MemoryStore, memoryStore } from '../../stores/memory/store.js'
import type { Fact, Served } from './history.js'
import type { Schedule } from './schedule.js'

/** Who sent a request, and whether it is the second arrival of one. */
export interface Sender {
  readonly process: string
  readonly copy: boolean
  /** Its place among all requests, in the order in which they were sent. */
  readonly sent: number
}

interface Register {
  token: number
  claim: string
}

export class Server {
  /** Stepped by a fault; true time otherwise. */
  clockOffsetMs = 0
  /** False while the store is down: requests that arrive are refused or vanish. */
  isUp = true
  readonly #schedule: Schedule
  readonly #record: (fact: Fact) => void
  readonly #clock: Clock
  #store: MemoryStore
  readonly #registers = { plain: new Map<string, Register>(), fenced: new Map<string, Register>() }

  constructor(schedule: Schedule, record: (fact: Fact) => void) {
    this.#schedule = schedule
    this.#record = record
    this.#clock = {
      monoMs: () => schedule.nowMs + this.clockOffsetMs,
      wallMs: () => schedule.nowMs + this.clockOffsetMs,
      setTimer: () => {
        throw new Error('the memory store sets no timers')
      },
    }
    this.#store = memoryStore({ clock: this.#clock })
  }

  get store(): LeaseStore {
    return this.#store
  }

  /** Everything that the store knew is gone. */
  loseData(): void {
    this.#store = memoryStore({ clock: this.#clock })
  }

  prune(olderThanMs: number): void {
    this.#store.prune({ olderThanMs })
  }

  async acquire(request: AcquireRequest, by: Sender): Promise<unknown> {
    const at = this.#at(by)
    const answer = await this.#store.acquire(request)
    const { key, claim, ttlMs, replaces } = request
    this.#record({
      is: 'served',
      verb: 'acquire',
      key,
      claim,
      ttlMs,
      ...(replaces === undefined ? {} : { replaces }),
      ...at,
      answer,
    })
    return answer
  }

  async renew(requests: readonly RenewRequest[], by: Sender): Promise<unknown> {
    const at = this.#at(by)
    const answers = await this.#store.renew(requests)
    for (const [i, { key, claim, ttlMs }] of requests.entries())
      this.#record({ is: 'served', verb: 'renew', key, claim, ttlMs, ...at, answer: answers[i] })
    return answers
  }

  async release(grant: Grant, by: Sender): Promise<unknown> {
    const at = this.#at(by)
    const answer = await this.#store.release(grant)
    this.#record({ is: 'served', verb: 'release', key: grant.key, claim: grant.claim, ...at, answer })
    return answer
  }

  async withdraw(key: string, claim: string, by: Sender): Promise<void> {
    const at = this.#at(by)
    await this.#store.withdraw(key, claim)
    this.#record({ is: 'served', verb: 'withdraw', key, claim, ...at, answer: undefined })
  }

  async revoke(key: string, force: boolean, by: Sender): Promise<unknown> {
    const at = this.#at(by)
    const answer = await this.#store.revoke(key, { force })
    this.#record({ is: 'served', verb: 'revoke', key, claim: '', force, ...at, answer })
    return answer
  }

  /** A write arrives: the plain register takes it, the fenced one compares first, in the same step. */
  write(kind: 'plain' | 'fenced', grant: Grant, by: Sender): void {
    const { key, token, claim } = grant
    const register = this.#registers[kind].get(key) ?? { token: 0, claim: '' }
    const over = register.token
    const admitted = kind === 'plain' || admits(register, grant)
    if (admitted) this.#registers[kind].set(key, { token, claim })
    this.#record({
      is: 'wrote',
      atMs: this.#schedule.nowMs,
      process: by.process,
      register: kind,
      key,
      claim,
      token,
      over,
      admitted,
    })
  }

  #at(by: Sender): Pick<Served, 'atMs' | 'storeMs' | keyof Sender> {
    return { atMs: this.#schedule.nowMs, storeMs: this.#clock.monoMs(), ...by }
  }
}

/** G7: never a smaller token, nor an equal one of another claim. */
const admits = (register: Register, { token, claim }: Grant) =>
  token > register.token || (token === register.token && claim === register.claim)
