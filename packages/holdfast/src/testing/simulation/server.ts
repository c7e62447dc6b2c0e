// The machine with the store, and beside it the resource that the leases protect: for every key a plain register, which takes
// any write, and a fenced one, which compares tokens. Every step that is taken here goes into the history.
import type { Clock } from '../../lease/clock.js'
import type { AcquireRequest, Grant, LeaseStore, RenewRequest } from '../../store/contract.js'
import { type MemoryStore, memoryStore } from '../../stores/memory/store.js'
import { LeaseObjects } from '../lease-objects.js'
import { VersionedRegister } from '../versioned-register.js'
import type { Fact, Served } from './history.js'
import type { Schedule } from './schedule.js'

/** Who sent a request, and whether it is the second arrival of one. */
export interface Sender {
  readonly process: string
  readonly copy: boolean
  /** Its place among all requests, in the order in which they were sent. */
  readonly sent: number
}

/** How the clock of a store runs. */
export interface StoreClock {
  /** By how much it is ahead of true time, in ms. */
  readonly aheadMs: number
  /** Its ms for one true ms. */
  readonly rate: number
}

type At = Pick<Served, 'atMs' | 'storeMs' | 'node' | keyof Sender>

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
  /** Its place among several. */
  readonly #node: number | undefined
  #store: MemoryStore
  /** What it keeps instead where it has versions and no clock. */
  readonly register = new VersionedRegister()
  /** And where it is an API server of Kubernetes. */
  readonly leases: LeaseObjects
  #bornMs = Number.NEGATIVE_INFINITY
  /** For each key the token that was granted last, as far as it has been recorded; and whose the claims are. */
  readonly #tokens = new Map<string, number>()
  readonly #senders = new Map<string, string>()
  readonly #registers = { plain: new Map<string, Register>(), fenced: new Map<string, Register>() }

  constructor(schedule: Schedule, record: (fact: Fact) => void, node?: number, clock: StoreClock = TRUE_TIME) {
    this.#schedule = schedule
    this.#record = record
    this.#node = node
    const nowMs = () => clock.aheadMs + schedule.nowMs * clock.rate + this.clockOffsetMs
    this.#clock = {
      monoMs: nowMs,
      wallMs: nowMs,
      setTimer: () => {
        throw new Error('the memory store sets no timers')
      },
    }
    this.#store = memoryStore({ clock: this.#clock })
    this.leases = new LeaseObjects(nowMs)
  }

  get store(): LeaseStore {
    return this.#store
  }

  /** Everything that the store knew is gone. */
  loseData(): void {
    this.#store = memoryStore({ clock: this.#clock })
    this.#bornMs = this.#clock.monoMs()
  }

  /** For how long it has kept everything, by its own clock. */
  get keptForMs(): number {
    return this.#clock.monoMs() - this.#bornMs
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
    this.#senders.set(claim, by.process)
    if (answer.is === 'granted') this.#tokens.set(key, answer.token)
    await this.#recordTurn(key, at)
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
    await this.#recordTurn(grant.key, at)
    return answer
  }

  async withdraw(key: string, claim: string, by: Sender): Promise<void> {
    const at = this.#at(by)
    await this.#store.withdraw(key, claim)
    this.#record({ is: 'served', verb: 'withdraw', key, claim, ...at, answer: undefined })
    await this.#recordTurn(key, at)
  }

  async revoke(key: string, force: boolean, by: Sender): Promise<unknown> {
    const at = this.#at(by)
    const answer = await this.#store.revoke(key, { force })
    this.#record({ is: 'served', verb: 'revoke', key, claim: '', force, ...at, answer })
    await this.#recordTurn(key, at)
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

  /** In the step just taken a turn may have come with its token: then somebody else holds now, who has not asked. */
  async #recordTurn(key: string, at: At): Promise<void> {
    const record = await this.#store.inspect(key)
    if (record?.state !== 'held' || this.#tokens.get(key) === record.token) return
    const { claim, token, remainingMs } = record
    this.#tokens.set(key, token)
    this.#record({
      is: 'served',
      verb: 'acquire',
      key,
      claim,
      ttlMs: remainingMs,
      told: true,
      ...at,
      process: this.#senders.get(claim) ?? '',
      copy: false,
      answer: { is: 'granted', token, ttlMs: remainingMs },
    })
  }

  #at(by: Sender): At {
    const at = { atMs: this.#schedule.nowMs, storeMs: this.#clock.monoMs(), ...by }
    return this.#node === undefined ? at : { ...at, node: this.#node }
  }
}

const TRUE_TIME: StoreClock = { aheadMs: 0, rate: 1 }

/** G7: never a smaller token, nor an equal one of another claim. */
const admits = (register: Register, { token, claim }: Grant) =>
  token > register.token || (token === register.token && claim === register.claim)
