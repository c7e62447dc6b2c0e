// A store behind a network that a test controls: requests are lost, replies are lost, both come late or twice. What the
// decorator does is what real networks do: a caller who gives up does not call its request back, it still arrives.
import { type Clock, systemClock } from '../lease/clock.js'
import { StoreError } from '../lease/errors.js'
import type {
  AcquireRequest,
  CallOptions,
  Grant,
  Hints,
  LeaseRecord,
  LeaseStore,
  ListOptions,
  RenewRequest,
  Turn,
} from '../store/contract.js'

/** What each verb is asked with, as `calls` logs it. */
export interface FaultyRequests {
  acquire: AcquireRequest
  renew: readonly RenewRequest[]
  release: Grant
  withdraw: { readonly key: string; readonly claim: string }
  inspect: { readonly key: string }
  list: ListOptions
  revoke: { readonly key: string; readonly force: boolean }
}

/** A verb of the store that faults can meet. `watch` has `dropHints` of its own. */
export type FaultyVerb = keyof FaultyRequests

/** What happens to one call. All of it may be combined; without any the call goes through. */
export interface Fault {
  /** The request is on its way for so long, in ms. */
  readonly delayBeforeMs?: number
  /** The reply is on its way for so long, in ms. */
  readonly delayAfterMs?: number
  /** The request is lost, nothing is applied. `true`: no answer comes; `'error'`: a StoreError with outcome `none`. */
  readonly dropBefore?: boolean | 'error'
  /** Applied, but the reply is lost. `true`: no answer comes; `'error'`: a StoreError with outcome `unknown`. */
  readonly dropAfter?: boolean | 'error'
  /** A second copy of the request arrives so many ms after the first; its answer goes nowhere. */
  readonly duplicateAfterMs?: number
  /** The request stays on its way until `heal()`, and is applied then. */
  readonly hang?: boolean
  /** Nothing is applied, and the call rejects with this. */
  readonly fail?: unknown
}

/** One call that was made, as it stands now. */
export interface FaultyCall<Verb extends FaultyVerb = FaultyVerb> {
  readonly verb: Verb
  readonly request: FaultyRequests[Verb]
  /** When it was sent, on the monotonic clock. */
  readonly sentMs: number
  readonly fault: Fault
  /** How often the store has applied it so far. */
  readonly applied: number
  /** What the caller got: nothing yet, an answer, or an error. */
  readonly state: 'waiting' | 'answered' | 'failed'
}

/** Where a faulty store gets its time and its faults from. */
export interface FaultyStoreOptions {
  /** Whose timers delay and give up. Default: this machine's. */
  clock?: Clock
  /** Says what happens to a call; `count` is 1 for the first call of its verb. `next`, `always` and `hang` come first. */
  faults?: (call: { verb: FaultyVerb; request: FaultyRequests[FaultyVerb]; count: number }) => Fault | undefined
}

/** A store with faults to order. */
export interface FaultyStore extends LeaseStore {
  /** What happens to the next calls of this verb (`'any'`: of any), one fault for each call. */
  next(verb: FaultyVerb | 'any', ...faults: Fault[]): void
  /** What happens to every call of this verb from now on, until `heal`. */
  always(verb: FaultyVerb | 'any', fault: Fault): void
  /** From now on calls of this verb (default: of any) stay on their way until `heal`. */
  hang(verb?: FaultyVerb | 'any'): void
  /** Forgets all that was ordered, and lets arrive what hangs. */
  heal(): void
  /** Whether `watch` swallows its hints. Set back by `heal`. */
  dropHints: boolean
  /** Every call so far, in the order in which they were sent. */
  readonly calls: readonly FaultyCall[]
  /** Those of one verb. */
  callsOf<Verb extends FaultyVerb>(verb: Verb): readonly FaultyCall<Verb>[]
}

/**
 * Puts a network with faults before a store. The store behind is asked without the caller's time-out and signal, since a
 * request that is on its way cannot be called back; a caller who waits for an answer that was lost is told `unknown` at its
 * time-out or its signal, and waits for ever without either. What a store says of itself (`serverId`, `keptForMs`) meets no faults.
 *
 * @example
 * ```ts
 * const clock = new VirtualClock()
 * const store = faultyStore(memoryStore({ clock }), { clock })
 * store.next('acquire', { dropAfter: true }) // the reply of the first acquire is lost
 * const leases = createLeases({ store, clock })
 * const lease = await clock.advanceUntil(leases.acquire('report'))
 * const [first, second] = store.callsOf('acquire')
 * second?.request.claim === first?.request.claim // asked once more with the same claim
 * store.hang('renew') // from here on no renewal comes through
 * ```
 */
export function faultyStore(store: LeaseStore, { clock = systemClock, faults }: FaultyStoreOptions = {}): FaultyStore {
  const calls: Entry[] = []
  const counts = new Map<FaultyVerb, number>()
  const script: { verb: FaultyVerb | 'any'; fault: Fault }[] = []
  let standing: { verb: FaultyVerb | 'any'; fault: Fault }[] = []
  let hanging: (() => void)[] = []
  let dropHints = false

  const pause = (ms: number | undefined) =>
    ms === undefined ? undefined : new Promise<void>((resolve) => void clock.setTimer(ms, resolve))

  function faultOf(verb: FaultyVerb, request: FaultyRequests[FaultyVerb]): Fault {
    const count = (counts.get(verb) ?? 0) + 1
    counts.set(verb, count)
    const fits = (order: { verb: FaultyVerb | 'any' }) => order.verb === verb || order.verb === 'any'
    const place = script.findIndex(fits)
    if (place >= 0) return script.splice(place, 1)[0]?.fault ?? {}
    return standing.findLast(fits)?.fault ?? faults?.({ verb, request, count }) ?? {}
  }

  /** One call over the faulty network. */
  async function send<Verb extends FaultyVerb, Answer>(
    verb: Verb,
    request: FaultyRequests[Verb],
    call: CallOptions | undefined,
    apply: () => Promise<Answer>,
  ): Promise<Answer> {
    const fault = faultOf(verb, request)
    const entry: Entry = { verb, request, sentMs: clock.monoMs(), fault, applied: 0, state: 'waiting' }
    calls.push(entry)
    try {
      if (call?.signal?.aborted)
        throw new StoreError(`${verb} was aborted before it was sent`, { outcome: 'none', cause: call.signal.reason })
      const applyOnce = async () => {
        entry.applied++
        return await apply()
      }
      const answer = await orGiveUp(verb, call, travel(verb, fault, applyOnce))
      entry.state = 'answered'
      return answer
    } catch (error) {
      entry.state = 'failed'
      throw error
    }
  }

  /** There and back, as long as that takes. */
  async function travel<Answer>(verb: FaultyVerb, fault: Fault, apply: () => Promise<Answer>): Promise<Answer> {
    await pause(fault.delayBeforeMs)
    if (fault.hang) await new Promise<void>((resolve) => hanging.push(resolve))
    if (fault.fail !== undefined) throw fault.fail
    if (fault.dropBefore === 'error') throw new StoreError(`${verb}: the request was lost`, { outcome: 'none' })
    if (fault.dropBefore) return silence()
    const answer = apply()
    if (fault.duplicateAfterMs !== undefined) clock.setTimer(fault.duplicateAfterMs, () => void apply().catch(() => {}))
    if (fault.dropAfter) {
      await answer.catch(() => {})
      if (fault.dropAfter === 'error') throw new StoreError(`${verb}: the reply was lost`, { outcome: 'unknown' })
      return silence()
    }
    if (fault.delayAfterMs !== undefined) {
      await answer.catch(() => {})
      await pause(fault.delayAfterMs)
    }
    return answer
  }

  /** The answer, or `unknown` at the caller's time-out or signal. */
  function orGiveUp<Answer>(
    verb: FaultyVerb,
    { timeoutMs, signal }: CallOptions = {},
    answer: Promise<Answer>,
  ): Promise<Answer> {
    if (timeoutMs === undefined && signal === undefined) return answer
    return new Promise<Answer>((resolve, reject) => {
      const giveUp = (why: string) => {
        tidy()
        reject(new StoreError(`${verb}: ${why}`, { outcome: 'unknown', cause: signal?.reason }))
      }
      const onAbort = () => giveUp('aborted while it was under way')
      const onTimeout = () => giveUp(`no answer within ${timeoutMs} ms`)
      const timer = timeoutMs === undefined ? undefined : clock.setTimer(timeoutMs, onTimeout)
      signal?.addEventListener('abort', onAbort)
      const tidy = () => {
        timer?.cancel()
        signal?.removeEventListener('abort', onAbort)
      }
      answer.finally(tidy).then(resolve, reject)
    })
  }

  async function* passHints(hints: Hints): AsyncGenerator<Turn | undefined> {
    for await (const turn of hints) if (!dropHints) yield turn ?? undefined
  }

  return {
    name: store.name,
    contract: 1,
    capabilities: store.capabilities,

    acquire: (request, call) => send('acquire', request, call, () => store.acquire(request)),
    renew: (leases, call) => send('renew', leases, call, () => store.renew(leases)),
    release: (grant, call) => send('release', grant, call, () => store.release(grant)),
    withdraw: (key, claim, call) => send('withdraw', { key, claim }, call, () => store.withdraw(key, claim)),
    inspect: (key, call) => send('inspect', { key }, call, () => store.inspect(key)),
    revoke: (key, options = {}, call) =>
      send('revoke', { key, force: options.force ?? false }, call, () => store.revoke(key, options)),

    async *list(options = {}) {
      yield* await send('list', options, undefined, () => collect(store.list(options)))
    },

    ...(store.watch === undefined
      ? {}
      : { watch: (key, options) => passHints(store.watch?.(key, options) ?? nothing()) }),

    // What a store says of itself is no call that a test counts: it goes through as it is.
    ...(store.serverId === undefined ? {} : { serverId: (call) => store.serverId?.(call) as Promise<string> }),
    ...(store.keptForMs === undefined ? {} : { keptForMs: (call) => store.keptForMs?.(call) as Promise<number> }),

    close: () => store.close(),

    next(verb, ...ordered) {
      script.push(...ordered.map((fault) => ({ verb, fault })))
    },
    always(verb, fault) {
      standing.push({ verb, fault })
    },
    hang(verb = 'any') {
      standing.push({ verb, fault: { hang: true } })
    },
    heal() {
      script.length = 0
      standing = []
      dropHints = false
      const arrive = hanging
      hanging = []
      for (const resolve of arrive) resolve()
    },

    get dropHints() {
      return dropHints
    },
    set dropHints(on) {
      dropHints = on
    },
    calls,
    callsOf: <Verb extends FaultyVerb>(verb: Verb) =>
      calls.filter((call) => call.verb === verb) as unknown as FaultyCall<Verb>[],
  }
}

interface Entry extends FaultyCall {
  applied: number
  state: FaultyCall['state']
}

const silence = () => new Promise<never>(() => {})

async function* nothing(): AsyncGenerator<void> {}

async function collect(records: AsyncIterable<LeaseRecord>): Promise<LeaseRecord[]> {
  const all: LeaseRecord[] = []
  for await (const record of records) all.push(record)
  return all
}
