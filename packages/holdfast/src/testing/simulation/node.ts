// One start of one process: its client of the library, its leases, and the callers that use them as programs do. What callers
// see goes into the history.
import { ClosedError, LeaseHeldError, LeaseLostError, StoreError } from '../../lease/errors.js'
import type { Lease } from '../../lease/lease.js'
import { createLeases, type Leases } from '../../lease/leases.js'
import type { AcquireOptions } from '../../lease/options.js'
import type { Grant, LeaseStore } from '../../store/contract.js'
import { seededRandom } from '../random.js'
import { hash } from './draws.js'
import type { Ending, Fact } from './history.js'
import type { Moment, Task } from './plan.js'
import type { SimulatedProcess } from './process.js'

/** What a node needs of the world around it. */
export interface Surroundings {
  readonly seed: string
  /** The store as this process sees it. */
  storeFor(process: SimulatedProcess, onRenewal: (key: string, claim: string) => void): LeaseStore
  /** Sends a write to a register of the resource. */
  write(process: SimulatedProcess, register: 'plain' | 'fenced', grant: Grant): void
  record(fact: Fact): void
  now(): number
  /** A moment at which a fault may strike. */
  reached(node: Node, moment: Moment): void
  /** A process that runs now, to adopt a lease. */
  neighbour(node: Node): Node | undefined
}

/** What the work throws when its task says so. */
class WorkFailed extends Error {}

type HeldTask = { readonly lease: Lease; readonly task: Task; readonly call: string }

export class Node {
  readonly process: SimulatedProcess
  readonly leases: Leases
  readonly store: LeaseStore
  /** The leases whose work runs, by claim. */
  readonly held = new Map<string, HeldTask>()
  /** Calls that have not ended. */
  readonly open = new Map<string, Task>()
  closing: 'no' | 'begun' | 'done' = 'no'
  readonly #world: Surroundings
  #calls = 0

  constructor(process: SimulatedProcess, world: Surroundings) {
    this.process = process
    this.#world = world
    this.store = world.storeFor(process, (key, claim) => this.#onRenewal(key, claim))
    this.leases = createLeases({
      store: this.store,
      clock: process.clock,
      random: seededRandom(hash(`${world.seed} ${process.name}`)),
      holder: process.name,
      onEvent: (event) => {
        const about = 'reason' in event ? event.reason : 'attempt' in event ? String(event.attempt) : ''
        const atMs = world.now()
        if (event.type === 'callback-failed')
          world.record({ is: 'failure', atMs, process: process.name, about: `${event.callback}: ${event.cause}` })
        else world.record({ is: 'event', atMs, process: process.name, type: event.type, about })
      },
    })
  }

  /** Starts the callers of a task. */
  start(task: Task): void {
    for (let i = 0; i < task.callers; i++) {
      // Where several try at once, the others wait if they must: the first look at a lease that is over may be theirs.
      const program = task.program === 'tryHold' && i > 0 ? 'hold' : task.program
      void this.#call({ ...task, program }, `${task.name}.${this.process.name}.${++this.#calls}`)
    }
  }

  /** Somebody in this process looks at its leases of a key, or at all. */
  lookAround(key?: string): void {
    for (const { lease } of [...this.held.values()]) if (key === undefined || lease.key === key) this.#look(lease)
  }

  async close(drainMs: number): Promise<void> {
    this.closing = 'begun'
    const about = await this.leases.close({ drainMs }).then(
      () => 'drained',
      (error: Error) => error.name,
    )
    this.closing = 'done'
    this.#record({ is: 'closed', atMs: this.#world.now(), process: this.process.name, about })
  }

  async #call(task: Task, call: string): Promise<void> {
    const { program, key } = task
    const caller = task.abortAfterMs > 0 ? new AbortController() : undefined
    if (caller !== undefined)
      this.process.clock.setTimer(task.abortAfterMs, () => caller.abort(new Error(`${call} was aborted`)))
    // Whoever passes a lease on must not go on renewing it.
    const options = { ...optionsOf(task), signal: caller?.signal, ...(program === 'adopt' ? { renew: false } : {}) }
    const { waitMs: _, ...once } = options
    const work = (lease: Lease) => this.#work(task, call, lease)
    this.open.set(call, task)
    const waits = program !== 'tryHold' && task.waitMs > 0
    this.#record({ is: 'asked', ...this.#who(key, call), program, waits })
    this.#world.reached(this, 'asked')
    try {
      let outcome: string
      if (program === 'tryHold') {
        const run = await this.leases.tryHold(key, once, work)
        outcome = run.held ? run.value : 'held'
      } else if (program === 'hold') outcome = await this.leases.hold(key, options, work)
      else if (program === 'coalesce') outcome = await this.leases.coalesce(key, options, work)
      else outcome = await this.#acquire(task, call, options)
      this.#settled(
        key,
        call,
        outcome === 'held' ? 'held' : 'done',
        outcome === 'held' || outcome === '' ? '' : `returned ${outcome}`,
      )
    } catch (error) {
      this.#settled(key, call, ...this.#classify(error, caller?.signal))
    }
  }

  async #acquire(task: Task, call: string, options: AcquireOptions): Promise<string> {
    const lease = await this.leases.acquire(task.key, options)
    const other = task.program === 'adopt' ? this.#world.neighbour(this) : undefined
    if (other !== undefined) {
      const grant = lease.detach()
      this.#record({ is: 'passed', ...this.#ofLease(lease) })
      other.adopt(task, call, grant)
      return '' // The other goes on with it; this handle is never used again.
    }
    try {
      return await this.#work(task, call, lease)
    } finally {
      await lease.release()
    }
  }

  /** Goes on with a lease that another process has taken. */
  adopt(task: Task, from: string, grant: Grant): void {
    const call = `${from}.adopted`
    const run = async () => {
      const lease = await this.leases.adopt(grant, optionsOf(task))
      try {
        return await this.#work(task, call, lease)
      } finally {
        await lease.release()
      }
    }
    this.open.set(call, task)
    run().then(
      (name) => this.#settled(task.key, call, 'done', `returned ${name}`),
      (error) => this.#settled(task.key, call, ...this.#classify(error, undefined)),
    )
  }

  /** What runs under a lease: looks, breathes, writes. A process that stops between look and write writes late. */
  async #work(task: Task, call: string, lease: Lease): Promise<string> {
    const { process } = this
    const { claim } = lease.grant
    const ofLease = () => this.#ofLease(lease)
    this.held.set(claim, { lease, task, call })
    this.#record({
      is: 'holds',
      ...ofLease(),
      call,
      minHoldMs: task.minHoldMs,
      marginMs: task.marginMs,
      listens: task.listens,
    })
    let threw = true
    let lost = ''
    const onAbort = () => this.#record({ is: 'told', ...ofLease(), reason: reasonOf(lease.signal.reason) })
    if (task.listens) lease.signal.addEventListener('abort', onAbort)
    if (task.listens && lease.signal.aborted) onAbort() // It was over before anybody could listen.
    this.#world.reached(this, 'holds')
    try {
      for (let step = 0; step < task.steps; step++) {
        await process.wait(task.workMs / task.steps, task.obedient ? lease.signal : undefined)
        if (task.renewsByHand) await lease.renew().catch(() => {})
        if (!task.forgetful && !this.#look(lease)) break
        this.#world.reached(this, 'looked')
        if (task.gapMs > 0) await process.wait(task.gapMs)
        for (const register of ['plain', 'fenced'] as const) this.#world.write(process, register, lease.grant)
      }
      if (task.throws) throw new WorkFailed(call)
      threw = false
      return call
    } finally {
      if (!this.#look(lease)) lost = this.#lossOf(lease)
      this.held.delete(claim)
      if (task.listens) lease.signal.removeEventListener('abort', onAbort)
      this.#record({ is: 'worked', ...ofLease(), call, threw, lost })
      this.#world.reached(this, 'worked')
    }
  }

  #look(lease: Lease): boolean {
    const held = lease.held
    this.#record({ is: 'looked', ...this.#ofLease(lease), held })
    return held
  }

  #lossOf(lease: Lease): string {
    try {
      lease.assertHeld()
    } catch (error) {
      return error instanceof LeaseLostError ? error.reason : String(error)
    }
    return ''
  }

  /** A renewal is about to be sent: only for a lease that, when read, is held (C21). */
  #onRenewal(key: string, claim: string): void {
    this.#world.reached(this, 'renewed')
    const lease = this.held.get(claim)?.lease
    if (lease !== undefined && !lease.held) this.#record({ is: 'renewed-late', ...this.#ofLease(lease), key })
  }

  #classify(error: unknown, signal: AbortSignal | undefined): [Ending, string] {
    if (error instanceof LeaseLostError) {
      const { outcome } = error
      if (outcome?.is === 'returned') return ['lost', `returned ${outcome.value}`]
      if (outcome?.is === 'threw')
        return ['lost', `threw ${outcome.error instanceof Error ? outcome.error.message : ''}`]
      return ['lost', '']
    }
    if (error instanceof WorkFailed) return ['threw', `threw ${error.message}`]
    if (signal?.aborted === true && error === signal.reason) return ['aborted', '']
    if (error instanceof LeaseHeldError) return ['held', '']
    if (error instanceof ClosedError) return ['closed', '']
    if (error instanceof StoreError) return ['store-error', '']
    return ['strange', String(error)]
  }

  #settled(key: string, call: string, ending: Ending, outcome: string): void {
    this.open.delete(call)
    this.#record({ is: 'settled', ...this.#who(key, call), ending, outcome })
  }

  #who(key: string, call: string) {
    return { atMs: this.#world.now(), process: this.process.name, key, call }
  }

  #ofLease({ grant: { key, claim, token } }: Lease) {
    return { atMs: this.#world.now(), process: this.process.name, key, claim, token }
  }

  #record(fact: Fact): void {
    this.#world.record(fact)
  }
}

const reasonOf = (reason: unknown) => (reason instanceof LeaseLostError ? reason.reason : 'aborted')

function optionsOf(task: Task): AcquireOptions {
  const { ttlMs, marginMs, waitMs, renew, minHoldMs, maxHoldMs } = task
  const callTimeoutMs = task.callTimeoutMs === 0 ? undefined : task.callTimeoutMs
  return { ttlMs, marginMs, waitMs, renew, minHoldMs, maxHoldMs, callTimeoutMs }
}
