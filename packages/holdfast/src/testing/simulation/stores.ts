// What a process of the world reaches as its store: one server behind one network; one that has no
// clock, and the protocol of observed expiry over it; or several, whose clocks are far apart, each
// behind a network of its own, and the quorum over them, unmodified.
import type { Grant, LeaseRecord, LeaseStore } from '../../store/contract.js'
import { observedStore } from '../../store/observed/store.js'
import { kubernetesStore } from '../../stores/kubernetes/store.js'
import { memoryCapabilities } from '../../stores/memory/store.js'
import { quorumStore } from '../../stores/quorum/store.js'
import { majorityOf } from '../../stores/quorum/vote.js'
import { seededRandom } from '../random.js'
import { Draws, hash } from './draws.js'
import type { Fact, History } from './history.js'
import { Network, type Weather } from './network.js'
import type { Blow } from './plan.js'
import type { SimulatedProcess } from './process.js'
import type { Scenario } from './scenarios.js'
import type { Schedule } from './schedule.js'
import { Server } from './server.js'

/** One store, and the way to it. `node` is its place among several. */
export interface Reached {
  readonly server: Server
  readonly network: Network
  readonly node: number | undefined
}

/** So far apart may the clocks of two nodes be, in ms. */
const APART_MS = 12 * 3_600_000

/** How long a node may take for an answer: a good network is quicker, a bad one often is not. */
const NODE_TIMEOUT_MS = 150

export class Stores {
  readonly all: readonly Reached[]
  readonly decides: History['decides']
  /** With several: how fast the clock of each runs. */
  readonly rates: readonly number[] | undefined
  readonly #seed: string
  readonly #scenario: Scenario

  constructor(schedule: Schedule, scenario: Scenario, seed: string, record: (fact: Fact) => void) {
    this.#seed = seed
    this.#scenario = scenario
    const { nodes, nodeDrift, observed } = scenario
    this.decides = observed ? 'observers' : nodes === 1 ? 'store' : 'majority'
    if (nodes === 1) {
      const server = new Server(schedule, record)
      this.all = [{ server, network: new Network(schedule, server, seed, record), node: undefined }]
      return
    }
    const draws = new Draws(seed, 'nodes')
    const clocks = Array.from({ length: nodes }, () => ({
      aheadMs: draws.whole(0, APART_MS),
      rate: 1 + draws.between(-nodeDrift, nodeDrift),
    }))
    this.rates = clocks.map(({ rate }) => rate)
    this.all = clocks.map((clock, node) => {
      const server = new Server(schedule, record, node, clock)
      return { server, network: new Network(schedule, server, seed, record, ` node ${node}`), node }
    })
  }

  /** The store as one process sees it. */
  storeFor(process: SimulatedProcess, onRenewal: (key: string, claim: string) => void): LeaseStore {
    const [only] = this.all
    if (only !== undefined && this.decides === 'observers') return this.#observed(only.network, process, onRenewal)
    if (only !== undefined && this.rates === undefined) return only.network.storeFor(process, onRenewal)
    const nodes = this.all.map(({ network }) => network.storeFor(process, () => {}))
    const quorum = quorumStore(nodes, {
      clock: process.clock,
      random: seededRandom(hash(`${this.#seed} ${process.name} quorum`)),
      nodeTimeoutMs: NODE_TIMEOUT_MS,
      waitAfterLossMs: this.#scenario.waitAfterLossMs,
    })
    return tellingRenewals(quorum, onRenewal)
  }

  #observed(network: Network, process: SimulatedProcess, onRenewal: (key: string, claim: string) => void): LeaseStore {
    const random = seededRandom(hash(`${this.#seed} ${process.name} observed`))
    if (this.#scenario.kubernetes) {
      const { clock } = process
      return tellingRenewals(
        kubernetesStore(network.leasesFor(process), { namespace: 'simulated', clock, random }),
        onRenewal,
      )
    }
    const store = observedStore({
      name: 'observed',
      capabilities: {
        ...memoryCapabilities,
        clock: 'observed',
        tokens: 'sequence',
        fair: false,
        tellsTurns: false,
        tokenFloor: false,
      },
      records: network.recordsFor(process),
      clock: process.clock,
      random,
    })
    return tellingRenewals(store, onRenewal)
  }

  /** A write to a register of the resource: there is one, however many stores there are. */
  write(process: SimulatedProcess, register: 'plain' | 'fenced', grant: Grant): void {
    this.all[0]?.network.write(process, register, grant)
  }

  set weather(weather: Weather) {
    for (const { network } of this.all) network.weather = weather
  }

  /** The faults stop. */
  heal(): void {
    this.weather = this.#scenario.healed
    for (const { server, network } of this.all) {
      network.cuts.clear()
      server.isUp = true
      server.clockOffsetMs = 0
    }
  }

  /** Which store a fault strikes. */
  struckBy(blow: Blow): Reached {
    return new Draws(this.#seed, blow.name, 'node').pick(this.all)
  }

  /** The way to which stores a fault strikes: to one of them, or to all. */
  waysStruckBy(blow: Blow): readonly Reached[] {
    return new Draws(this.#seed, blow.name, 'ways').chance(0.4) ? this.all : [this.struckBy(blow)]
  }

  /** Who holds the key by now: at the store, or at a majority. */
  async holding(key: string): Promise<LeaseRecord | undefined> {
    const records = await Promise.all(this.all.map(({ server }) => server.store.inspect(key)))
    const held = records.filter((record) => record?.state === 'held')
    const holders = held.find(
      (record) => held.filter((other) => other?.claim === record?.claim).length >= majorityOf(this.all.length),
    )
    return holders ?? undefined
  }

  /** How many wait in the queue of the key. */
  async queued(key: string): Promise<number> {
    const records = await Promise.all(this.all.map(({ server }) => server.store.inspect(key)))
    return records.reduce((sum, record) => sum + (record?.waiters.length ?? 0), 0)
  }
}

/** The store, and a word of each renewal before it is sent. */
const tellingRenewals = (store: LeaseStore, tell: (key: string, claim: string) => void): LeaseStore => ({
  ...store,
  renew(requests, call) {
    for (const { key, claim } of requests) tell(key, claim)
    return store.renew(requests, call)
  },
})
