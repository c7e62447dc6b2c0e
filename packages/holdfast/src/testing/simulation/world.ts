// The world of one run: processes, network, store, and the plan that is carried out in it. First the safety phase, in which
// anything may fail and nothing bad may happen; then the faults stop, and within a bound everything must come to rest.
import type { Grant, LeaseStore } from '../../store/contract.js'
import { Draws } from './draws.js'
import type { Fact, History } from './history.js'
import { Node, type Surroundings } from './node.js'
import type { Blow, Moment, Plan, Task } from './plan.js'
import { SimulatedProcess } from './process.js'
import { type Scenario, scenarios } from './scenarios.js'
import { Schedule } from './schedule.js'
import { type Reached, Stores } from './stores.js'

/** How long background withdrawals may go on after the world has healed: their longest delay, a call, and a little. */
export const SETTLE_MS = 8_000

/** What rejected with nobody to hear it, while the world ran. */
type Rejections = {
  on(event: 'unhandledRejection', fn: (cause: unknown) => void): void
  off(event: 'unhandledRejection', fn: (cause: unknown) => void): void
}

/** Carries out a plan and gives what happened. The same plan gives the same history, on every machine. */
export async function carryOut(plan: Plan): Promise<History> {
  const world = new World(plan)
  const host = (globalThis as { process?: Rejections }).process
  const onRejection = (cause: unknown) => world.fail(`unhandled rejection: ${cause}`)
  host?.on('unhandledRejection', onRejection)
  try {
    await world.live()
  } finally {
    host?.off('unhandledRejection', onRejection)
  }
  const { allows, gapMsMax }: Scenario = scenarios[plan.scenario]
  const { decides, rates } = world.stores
  return { facts: world.facts, allows, gapMsMax, decides, ...(rates === undefined ? {} : { nodeRates: rates }) }
}

class World implements Surroundings {
  readonly facts: Fact[] = []
  readonly seed: string
  readonly stores: Stores
  readonly #plan: Plan
  readonly #schedule = new Schedule()
  readonly #nodes: Node[] = []
  /** Every start of every process, for those who are dead as well. */
  readonly #starts: number[]
  readonly #waitingBlows: { blow: Blow; left: number }[] = []
  #isHealed = false
  #grants = 0
  /** Until when a slot's time of day is left alone: what happens in one look's time is seen by neither clock. */
  readonly #clockQuietUntilMs = new Map<number, number>()

  constructor(plan: Plan) {
    this.#plan = plan
    this.seed = `${plan.seed} ${plan.scenario}`
    this.stores = new Stores(this.#schedule, scenarios[plan.scenario], this.seed, (fact) => this.record(fact))
    this.#starts = plan.slots.map(() => 0)
    for (const slot of plan.slots.keys()) this.#startNode(slot)
  }

  now(): number {
    return this.#schedule.nowMs
  }

  record(fact: Fact): void {
    this.facts.push(fact)
    if (fact.is === 'served' && fact.verb === 'acquire' && isGranted(fact.answer)) this.#onGrant(fact.key, fact.claim)
  }

  storeFor(process: SimulatedProcess, onRenewal: (key: string, claim: string) => void): LeaseStore {
    return this.stores.storeFor(process, onRenewal)
  }

  write(process: SimulatedProcess, register: 'plain' | 'fenced', grant: Grant): void {
    this.stores.write(process, register, grant)
  }

  fail(about: string): void {
    this.record({ is: 'failure', atMs: this.now(), process: '', about })
  }

  async live(): Promise<void> {
    const { parts, safetyMs, lateMs, weather } = this.#plan
    this.#phase('safety')
    this.stores.weather = weather
    for (const part of parts) {
      if (part.is === 'task') this.#schedule.at(part.atMs, () => this.#start(part))
      else if (part.after === undefined) this.#schedule.at(part.atMs, () => this.#strike(part))
      else this.#waitingBlows.push({ blow: part, left: part.after.nth })
    }
    await this.#schedule.runUntil(safetyMs)

    this.#heal()
    this.#phase('liveness')
    await this.#schedule.runUntil(safetyMs + lateMs)
    const open = () => this.#nodes.flatMap((node) => (isAlive(node) ? [...node.open] : []))
    await this.#schedule.runUntil(this.now() + this.#boundMs(open().map(([, task]) => task)), () =>
      this.#nodes.every((node) => node.open.size === 0 || !isAlive(node)),
    )
    for (const [call, task] of open()) this.#left('G8', task.key, `${call} has not ended (${task.program})`)

    this.#phase('quiet')
    const longestMs = Math.max(
      ...parts.map((part) => (part.is === 'task' ? Math.max(part.ttlMs + part.marginMs, part.callTimeoutMs) : 0)),
    )
    await this.#schedule.runUntil(this.now() + Math.max(longestMs * 1.1, SETTLE_MS) + 2_000)
    await this.#takeStock()

    this.#phase('closing')
    const alive = this.#nodes.filter(isAlive)
    for (const node of alive) if (node.closing === 'no') void node.close(2_000)
    await this.#schedule.runUntil(this.now() + SETTLE_MS, () => alive.every(({ closing }) => closing === 'done'))
    for (const node of alive)
      if (node.closing !== 'done') this.#left('G12', '', `close() of ${node.process.name} has not ended`)
    this.#phase('end')
  }

  reached(node: Node, moment: Moment): void {
    if (this.#isHealed) return
    for (const waiting of this.#waitingBlows) {
      const { blow } = waiting
      if (blow.slot !== node.process.slot || blow.after?.moment !== moment || --waiting.left !== 0) continue
      this.#schedule.after(0, () => this.#strike(blow))
    }
  }

  neighbour(node: Node): Node | undefined {
    return this.#nodes.find((other) => other !== node && other.process.state === 'running' && other.closing === 'no')
  }

  /** Whatever has been left by the time when nothing is wanted any more. */
  async #takeStock(): Promise<void> {
    for (const key of this.#plan.keys) {
      const record = await this.stores.holding(key)
      if (record !== undefined) this.#left('G6', key, `claim ${record.claim} of ${record.holder} still holds`)
      const queued = await this.stores.queued(key)
      if (queued > 0) this.#left('G8', key, `${queued} still wait in the queue`)
    }
    for (const { process } of this.#nodes.filter(isAlive))
      if (process.keepsAlive) this.#left('G9', '', `a timer keeps ${process.name} alive`)
  }

  /** Everyone who waits gets in within this: the longest term, then everybody's work in a row. */
  #boundMs(tasks: readonly Task[]): number {
    const longestMs = Math.max(0, ...this.#plan.parts.map((part) => (part.is === 'task' ? part.ttlMs : 0)))
    return tasks.reduce(
      (sum, task) => sum + 1.5 * task.workMs + task.minHoldMs + task.steps * task.gapMs + 4_000,
      4 * longestMs + 20_000,
    )
  }

  /** The faults stop: the network is good, everybody runs, and everybody wants everything once more. */
  #heal(): void {
    this.#isHealed = true
    this.stores.heal()
    for (const { process } of this.#nodes) process.resume()
    for (const slot of this.#plan.slots.keys()) {
      if (this.#nodeAt(slot) === undefined) this.#startNode(slot)
      for (const key of this.#plan.keys) this.#start(this.#lastTask(slot, key))
    }
  }

  #lastTask(slot: number, key: string): Task {
    const like = this.#plan.parts.find((part) => part.is === 'task' && part.key === key) as Task | undefined
    const ttlMs = like?.ttlMs ?? 1_000
    return {
      is: 'task',
      name: `last-${key}`,
      atMs: this.now(),
      slot,
      program: 'hold',
      key,
      callers: this.#plan.lastCallers,
      ttlMs,
      marginMs: ttlMs / 10,
      callTimeoutMs: 0,
      waitMs: Number.POSITIVE_INFINITY,
      workMs: 20,
      steps: 1,
      gapMs: 0,
      forgetful: false,
      listens: true,
      obedient: true,
      throws: false,
      renew: true,
      renewsByHand: false,
      minHoldMs: 0,
      maxHoldMs: Number.POSITIVE_INFINITY,
      abortAfterMs: 0,
    }
  }

  #start(task: Task): void {
    const node = this.#nodeAt(task.slot)
    if (node === undefined) return
    node.process.deliver('message', () => {
      if (node.closing === 'no') node.start(task)
    })
  }

  #startNode(slot: number): void {
    const rates = this.#plan.slots[slot]
    if (rates === undefined) return
    const start = (this.#starts[slot] ?? 0) + 1
    this.#starts[slot] = start
    const draws = new Draws(this.seed, 'process', slot, start)
    this.#nodes.push(new Node(new SimulatedProcess(this.#schedule, slot, start, rates, draws), this))
  }

  /** The process that runs, or would run, in this slot. */
  #nodeAt(slot: number): Node | undefined {
    return this.#nodes.findLast((node) => node.process.slot === slot && isAlive(node))
  }

  #strike(blow: Blow): void {
    const node = this.#nodeAt(blow.slot)
    // What keeps no request from arriving may go on in the healed world.
    if ((this.#isHealed && blow.is !== 'mute') || node === undefined) return
    const took = this.#blows[blow.is](blow, node)
    if (took === undefined) return
    const lasts = LASTING.includes(blow.is) ? { untilMs: this.now() + blow.ms } : {}
    const about = `${blow.name}: ${took}`
    const { node: place } = this.stores.struckBy(blow)
    const where = ON_STORE.includes(blow.is) && place !== undefined ? { node: place } : {}
    this.record({
      is: 'fault',
      atMs: this.now(),
      fault: blow.is,
      process: node.process.name,
      about,
      ...lasts,
      ...where,
    })
  }

  /** What each fault does; undefined when it cannot strike now. */
  readonly #blows: Record<Blow['is'], (blow: Blow, node: Node) => string | undefined> = {
    pause: ({ ms, variant }, { process }) => {
      if (process.state !== 'running') return undefined
      process.pause()
      this.#schedule.after(ms, () => this.#wake(process, variant))
      return `${Math.round(ms)} ms`
    },
    sleep: ({ slot, ms, variant }, { process }) => {
      if (process.state !== 'running' || this.#isClockQuiet(slot)) return undefined
      process.sleep()
      this.#clockQuietUntilMs.set(slot, this.now() + ms + CLOCK_QUIET_MS)
      this.#schedule.after(ms, () => this.#wake(process, variant))
      return `${Math.round(ms)} ms`
    },
    step: ({ slot, ms }, { process }) => {
      if (process.state !== 'running' || this.#isClockQuiet(slot)) return undefined
      process.stepWall(ms)
      this.#clockQuietUntilMs.set(slot, this.now() + CLOCK_QUIET_MS)
      return `${Math.round(ms)} ms`
    },
    crash: ({ slot, ms }, { process }) => {
      process.crash()
      this.#schedule.after(ms, () => {
        if (this.#nodeAt(slot) === undefined) this.#startNode(slot)
      })
      return `starts again after ${Math.round(ms)} ms`
    },
    close: ({ slot, ms }, node) => {
      if (node.closing !== 'no') return undefined
      node.process.deliver('message', () => {
        void node.close(ms).then(() => {
          if (this.#nodeAt(slot) === undefined) this.#startNode(slot)
        })
      })
      return `drains for ${Math.round(ms)} ms`
    },
    cut: (blow) => {
      const { slot, ms, variant } = blow
      for (const { network } of this.stores.waysStruckBy(blow))
        network.cuts.set(slot, { untilMs: this.now() + ms, vanish: variant })
      return `${Math.round(ms)} ms`
    },
    mute: (blow) => {
      for (const { network } of this.stores.waysStruckBy(blow)) network.mutes.set(blow.slot, this.now() + blow.ms)
      return `${Math.round(blow.ms)} ms`
    },
    revoke: ({ key }, node) => this.#revoke(key, node, false),
    force: ({ key }, node) => this.#revoke(key, node, true),
    prune: (blow) => {
      this.stores.struckBy(blow).server.prune(blow.ms)
      return `what was last used ${Math.round(blow.ms)} ms ago`
    },
    'store-restart': (blow) => this.#restartStore(this.stores.struckBy(blow), blow.ms),
    'store-amnesia': (blow) => {
      const struck = this.stores.struckBy(blow)
      if (!struck.server.isUp) return undefined
      struck.server.loseData()
      return this.#restartStore(struck, blow.ms)
    },
    'store-step': (blow) => {
      this.stores.struckBy(blow).server.clockOffsetMs += blow.ms
      return `${Math.round(blow.ms)} ms`
    },
  }

  #wake(process: SimulatedProcess, looksFirst: boolean): void {
    if (process.state === 'running' || process.state === 'dead') return
    process.resume()
    const node = this.#nodes.find((each) => each.process === process)
    if (looksFirst) node?.lookAround()
  }

  #revoke(key: string, node: Node, force: boolean): string | undefined {
    if (node.process.state !== 'running') return undefined
    node.store.revoke(key, { force }).catch(() => {})
    return key
  }

  #restartStore({ server, network }: Reached, ms: number): string | undefined {
    if (!server.isUp) return undefined
    server.isUp = false
    network.resetConnections()
    this.#schedule.after(ms, () => {
      server.isUp = true
    })
    return `down for ${Math.round(ms)} ms`
  }

  #isClockQuiet(slot: number): boolean {
    return (this.#clockQuietUntilMs.get(slot) ?? 0) > this.now()
  }

  /** A change of hands: just now somebody looks at the lease that he had. */
  #onGrant(key: string, claim: string): void {
    this.#grants++
    if (new Draws(this.seed, 'looks', this.#grants).chance(0.5)) return
    for (const node of this.#nodes) if (node.process.state === 'running' && !node.held.has(claim)) node.lookAround(key)
  }

  #phase(phase: Extract<Fact, { is: 'phase' }>['phase']): void {
    this.record({ is: 'phase', atMs: this.now(), phase })
  }

  #left(guarantee: string, key: string, about: string): void {
    this.record({ is: 'left', atMs: this.now(), guarantee, key, about })
  }
}

/** Faults in which something stands still for a while. */
const LASTING: readonly Blow['is'][] = ['pause', 'sleep', 'cut', 'store-restart', 'store-amnesia']

/** Faults of a store. */
const ON_STORE: readonly Blow['is'][] = ['store-restart', 'store-amnesia', 'store-step', 'prune']

/** Longer than the longest time between two looks at the clocks. */
const CLOCK_QUIET_MS = 1_000

const isAlive = (node: Node) => node.process.state !== 'dead' && node.closing !== 'done'

const isGranted = (answer: unknown) =>
  typeof answer === 'object' && answer !== null && 'is' in answer && answer.is === 'granted'
