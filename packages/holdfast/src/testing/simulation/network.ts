// The network between the processes and the store. Requests and replies take their time, come late by many ttls, are lost,
// arrive twice, or end in an error that does not say what became of the command. A caller who gives up does not call its
// request back: it still arrives.
import { StoreError } from '../../lease/errors.js'
import type { Grant, LeaseStore, WatchOptions } from '../../store/contract.js'
import type { VersionedRecords } from '../../store/observed/records.js'
import type { KubernetesLease, KubernetesLeases } from '../../stores/kubernetes/client.js'
import { memoryCapabilities } from '../../stores/memory/store.js'
import { Draws } from './draws.js'
import type { Fact } from './history.js'
import type { SimulatedProcess } from './process.js'
import type { Schedule } from './schedule.js'
import type { Sender, Server } from './server.js'

/** How bad the network is: probabilities for each message. */
export interface Weather {
  readonly lost: number
  readonly replyLost: number
  readonly twice: number
  readonly late: number
  readonly replyLate: number
  /** How late the late ones are, in ms. */
  readonly lateMsMax: number
}

/** A good network. */
export const CALM: Weather = { lost: 0, replyLost: 0, twice: 0, late: 0, replyLate: 0, lateMsMax: 0 }

/** What will become of one message and its reply; a time of undefined: never arrives. */
interface Fate {
  readonly requestMs: number | undefined
  readonly copyMs: number | undefined
  readonly replyMs: number | undefined
  /** Told of a loss by an error (a reset connection), instead of by silence. */
  readonly told: boolean
}

export class Network {
  weather: Weather = CALM
  /** Until when a slot hears nothing: its requests arrive, replies to it vanish. */
  readonly mutes = new Map<number, number>()
  /** Until when a slot is cut off from the store; its messages wait for the end of it, or vanish. */
  readonly cuts = new Map<number, { readonly untilMs: number; readonly vanish: boolean }>()
  readonly #schedule: Schedule
  readonly #server: Server
  readonly #seed: string
  readonly #name: string
  readonly #record: (fact: Fact) => void
  #sent = 0
  readonly #counts = new Map<string, number>()
  /** Calls that wait for an answer, and watches: a restart of the store resets their connections. */
  readonly #open = new Set<(error: StoreError) => void>()

  /** `name`: of the store that it leads to; empty when there is only one. */
  constructor(schedule: Schedule, server: Server, seed: string, record: (fact: Fact) => void, name = '') {
    this.#schedule = schedule
    this.#server = server
    this.#seed = seed + name
    this.#name = name
    this.#record = record
  }

  /** The store goes down: connections are reset, what was on its way back is lost. */
  resetConnections(): void {
    for (const reset of [...this.#open]) reset(new StoreError('the connection was reset', { outcome: 'unknown' }))
  }

  /** The store as one process sees it. */
  storeFor(process: SimulatedProcess, onSend: (key: string, claim: string) => void): LeaseStore {
    const server = this.#server
    const call = <Answer>(verb: string, key: string, serve: (by: Sender) => Promise<unknown>) =>
      this.#call<Answer>(process, verb, key, serve)
    return {
      name: 'simulated',
      contract: 1,
      capabilities: memoryCapabilities,
      acquire: (request) => call('acquire', request.key, (by) => server.acquire(request, by)),
      renew: (requests) => {
        for (const { key, claim } of requests) onSend(key, claim)
        return call('renew', requests[0]?.key ?? '', (by) => server.renew(requests, by))
      },
      release: (grant) => call('release', grant.key, (by) => server.release(grant, by)),
      withdraw: (key, claim) => call('withdraw', key, (by) => server.withdraw(key, claim, by)),
      revoke: (key, { force = false } = {}) => call('revoke', key, (by) => server.revoke(key, force, by)),
      inspect: (key) => call('inspect', key, () => server.store.inspect(key)),
      async *list() {},
      watch: (key, options) => this.#watch(process, key, options, (name, how) => server.store.watch?.(name, how) ?? []),
      serverId: () => call('serverId', '', async () => this.#name),
      keptForMs: () => call('keptForMs', '', async () => server.keptForMs),
      close: async () => {},
    }
  }

  /** Records with versions, as one process sees them. */
  recordsFor(process: SimulatedProcess): VersionedRecords {
    const { register } = this.#server
    const subscribe = (key: string, { signal }: { signal: AbortSignal }) =>
      quietly(register.connect().watch?.(key, signal))
    return {
      read: (key) => this.#call(process, 'read', key, async () => register.read(key)),
      write: (key, record, over, kind) =>
        this.#call(process, `write ${kind}`, key, async () => register.write(key, record, over, kind)),
      async *list() {},
      watch: (key, signal) => this.#watch(process, key, { claim: key, signal }, subscribe),
      close: async () => {},
    }
  }

  /** The API of Leases, as one process sees it. */
  leasesFor(process: SimulatedProcess): KubernetesLeases {
    const { leases } = this.#server
    const call = (verb: string, key: string, serve: () => KubernetesLease) =>
      this.#call<KubernetesLease>(process, verb, key, async () => serve())
    return {
      readNamespacedLease: ({ name }) => call('get', name, () => leases.read(name)),
      createNamespacedLease: ({ body }) => call('create', body.metadata?.name ?? '', () => leases.create(body)),
      replaceNamespacedLease: ({ name, body }) => call('update', name, () => leases.replace(name, body)),
      listNamespacedLease: async () => ({ items: [] }),
    }
  }

  /** A write to a register: one way, late, lost and repeated like everything else. */
  write(process: SimulatedProcess, register: 'plain' | 'fenced', grant: Grant): void {
    const fate = this.#fate(process, `write-${register}`, grant.key)
    const arrive = (copy: boolean) => () =>
      this.#server.write(register, grant, { process: process.name, copy, sent: 0 })
    if (fate.requestMs !== undefined) this.#schedule.after(fate.requestMs, arrive(false), true)
    if (fate.copyMs !== undefined) this.#schedule.after(fate.copyMs, arrive(true), true)
  }

  #call<Answer>(
    process: SimulatedProcess,
    verb: string,
    key: string,
    serve: (by: Sender) => Promise<unknown>,
  ): Promise<Answer> {
    const fate = this.#fate(process, verb, key)
    const sender = { process: process.name, sent: ++this.#sent }
    return new Promise<Answer>((resolve, reject) => {
      const back = (settle: () => void) => {
        if (!this.#open.delete(reset)) return
        process.deliver('message', settle)
      }
      const reset = (error: StoreError) => this.#schedule.after(1, () => back(() => reject(error)))
      this.#open.add(reset)

      const reply = (settle: () => void) => {
        const isMute = (this.mutes.get(process.slot) ?? 0) > this.#schedule.nowMs
        const backMs = isMute ? undefined : this.#throughCut(process, fate.replyMs)
        if (backMs !== undefined) this.#schedule.after(backMs, () => back(settle))
        else if (fate.told)
          reset(new StoreError(`${verb}: the connection broke before the reply`, { outcome: 'unknown' }))
        else this.#open.delete(reset)
      }
      const arrive = () => {
        if (!this.#server.isUp) {
          if (fate.told) reset(new StoreError(`${verb}: connection refused`, { outcome: 'none' }))
          else this.#open.delete(reset)
          return
        }
        serve({ ...sender, copy: false }).then(
          (answer) => reply(() => resolve(answer as Answer)),
          (error) => reply(() => reject(error)),
        )
      }
      if (fate.requestMs !== undefined) this.#schedule.after(fate.requestMs, arrive)
      else if (fate.told) reset(new StoreError(`${verb}: could not connect`, { outcome: 'none' }))
      else this.#open.delete(reset)
      if (fate.copyMs !== undefined)
        this.#schedule.after(fate.copyMs, () => {
          if (this.#server.isUp) serve({ ...sender, copy: true }).catch(() => {})
        })
    })
  }

  /** Hints travel too; a hint that is lost is lost (G8). */
  async *#watch<What>(
    process: SimulatedProcess,
    key: string,
    { claim, signal }: WatchOptions,
    hints: (
      key: string,
      options: WatchOptions,
    ) => AsyncIterable<What | undefined> | AsyncIterable<void> | Iterable<never>,
  ): AsyncGenerator<What | undefined> {
    const atStore = new AbortController()
    let pending = false
    let told: What | undefined
    let broken: StoreError | undefined
    let wake: (() => void) | undefined
    const stir = () => wake?.()
    const hint = (turn: What | undefined) => {
      pending = true
      told = turn ?? told
      stir()
    }
    const reset = (error: StoreError) => {
      atStore.abort(null)
      this.#open.delete(reset)
      this.#schedule.after(1, () =>
        process.deliver('message', () => {
          broken = error
          stir()
        }),
      )
    }
    const subscribe = async () => {
      if (!this.#server.isUp) return reset(new StoreError('watch: connection refused', { outcome: 'none' }))
      for await (const turn of hints(key, { claim, signal: atStore.signal })) {
        const { requestMs } = this.#fate(process, 'hint', key)
        const hintMs = this.#throughCut(process, requestMs)
        if (hintMs !== undefined)
          this.#schedule.after(hintMs, () => process.deliver('message', () => hint(turn ?? undefined)))
      }
    }
    const { requestMs } = this.#fate(process, 'watch', key)
    if (requestMs !== undefined) this.#schedule.after(requestMs, () => !atStore.signal.aborted && void subscribe())
    this.#open.add(reset)
    signal.addEventListener('abort', stir)
    try {
      while (!signal.aborted) {
        if (broken !== undefined) throw broken
        if (pending) {
          const turn = told
          pending = false
          told = undefined
          yield turn
          continue
        }
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    } finally {
      signal.removeEventListener('abort', stir)
      this.#open.delete(reset)
      this.#schedule.after(this.#delay(new Draws(this.#seed, process.name, 'unwatch', claim)), () =>
        atStore.abort(null),
      )
    }
  }

  #fate(process: SimulatedProcess, verb: string, key: string): Fate {
    const name = `${process.name} ${verb} ${key}`
    const count = (this.#counts.get(name) ?? 0) + 1
    this.#counts.set(name, count)
    const draws = new Draws(this.#seed, name, count)
    const { lost, replyLost, twice, late, replyLate, lateMsMax } = this.weather
    const fault = (what: string) => this.#tell(process, what, `${verb} ${count} of ${key}`)
    const delay = (isLate: boolean) => {
      const ms = this.#delay(draws)
      if (!isLate) return ms
      fault('late')
      return ms + draws.unit() * draws.unit() * lateMsMax
    }
    const told = draws.chance(0.4)
    if (draws.chance(lost)) {
      fault('lost')
      return { requestMs: undefined, copyMs: undefined, replyMs: undefined, told }
    }
    const requestMs = this.#throughCut(process, delay(draws.chance(late)))
    const isReplyLost = draws.chance(replyLost)
    if (isReplyLost) fault('reply lost')
    const isTwice = draws.chance(twice) && requestMs !== undefined
    if (isTwice) fault('twice')
    return {
      requestMs,
      copyMs: isTwice ? requestMs + delay(false) + draws.unit() * draws.unit() * lateMsMax : undefined,
      replyMs: isReplyLost ? undefined : delay(draws.chance(replyLate)),
      told,
    }
  }

  #delay(draws: Draws): number {
    const share = draws.unit()
    return share < 0.9 ? 0.2 + 2 * draws.unit() : 2 + 40 * draws.unit()
  }

  /** A message of a slot that is cut off waits for the end of the cut, or vanishes. */
  #throughCut(process: SimulatedProcess, ms: number | undefined): number | undefined {
    const cut = this.cuts.get(process.slot)
    if (cut === undefined || ms === undefined || cut.untilMs <= this.#schedule.nowMs) return ms
    return cut.vanish ? undefined : cut.untilMs - this.#schedule.nowMs + ms
  }

  #tell(process: SimulatedProcess, fault: string, about: string): void {
    this.#record({ is: 'fault', atMs: this.#schedule.nowMs, fault, process: process.name, about })
  }
}

/** The hints without what they say: the records are read anew. */
async function* quietly(hints: AsyncIterable<unknown> | undefined): AsyncGenerator<undefined> {
  for await (const _ of hints ?? []) yield undefined
}
