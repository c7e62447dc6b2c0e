// All that will be tried in one run, drawn from the seed before it starts: a list of things that callers do and of faults,
// each with its instant. A plan is plain data, so that a failing one can be made shorter by leaving things out.
import { Draws } from './draws.js'
import type { Weather } from './network.js'
import type { Rates } from './process.js'
import { type Scenario, type ScenarioName, scenarios } from './scenarios.js'

/** What a caller does. */
export type Program = 'hold' | 'tryHold' | 'acquire' | 'coalesce' | 'adopt'

/** One call, or several at once, of one process. */
export interface Task {
  readonly is: 'task'
  readonly name: string
  readonly atMs: number
  readonly slot: number
  readonly program: Program
  readonly key: string
  /** How many callers of the process ask at once. */
  readonly callers: number
  readonly ttlMs: number
  readonly marginMs: number
  /** 0: the default. */
  readonly callTimeoutMs: number
  readonly waitMs: number
  readonly workMs: number
  /** How many times the work looks at its lease and writes. */
  readonly steps: number
  /** How long after the look the write is sent. */
  readonly gapMs: number
  /** The work never looks at its lease; it writes all the same. */
  readonly forgetful: boolean
  /** The work listens to its signal. */
  readonly listens: boolean
  /** The work ends as soon as the signal aborts. */
  readonly obedient: boolean
  readonly throws: boolean
  readonly renew: boolean
  /** Renews by hand at each step. */
  readonly renewsByHand: boolean
  readonly minHoldMs: number
  readonly maxHoldMs: number
  /** The caller's own signal aborts after so long; 0: never. */
  readonly abortAfterMs: number
}

/** What can go wrong, or be done by an operator, beside what happens to single messages. */
export type FaultKind =
  | 'pause'
  | 'crash'
  | 'sleep'
  | 'step'
  | 'cut'
  | 'mute'
  | 'close'
  | 'revoke'
  | 'force'
  | 'prune'
  | 'store-restart'
  | 'store-amnesia'
  | 'store-step'

/** A fault, or something that an operator does. */
export interface Blow {
  readonly is: FaultKind
  readonly name: string
  readonly atMs: number
  /** Or: just after the slot has done this for the so-manieth time. */
  readonly after: { readonly moment: Moment; readonly nth: number } | undefined
  readonly slot: number
  readonly key: string
  /** How long it lasts, or by how much the clock is stepped. */
  readonly ms: number
  readonly variant: boolean
}

/** Moments of a process at which a fault may strike: the nasty ones. */
export type Moment = 'asked' | 'holds' | 'looked' | 'worked' | 'renewed'

/** All that will be tried in one run. */
export interface Plan {
  readonly seed: number
  readonly scenario: ScenarioName
  readonly slots: readonly Rates[]
  readonly keys: readonly string[]
  readonly weather: Weather
  readonly safetyMs: number
  /** For how long callers come after the faults have stopped. */
  readonly lateMs: number
  /** How many callers of each process want each key once more in the healed world. */
  readonly lastCallers: number
  readonly parts: readonly (Task | Blow)[]
}

/** So many calls in all come in the healed world, so that no run is left without grants. */
const LAST_CALLS = 45

/** The plan of this seed in this scenario. */
export function drawPlan(seed: number, name: ScenarioName): Plan {
  const scenario = scenarios[name]
  const draws = new Draws(seed, name, 'plan')
  const keys = Array.from({ length: draws.whole(1, 3) }, (_, i) => `k${i + 1}`)
  const slots = Array.from({ length: draws.whole(3, 4) }, () => drawRates(draws, scenario))
  const safetyMs = draws.between(...scenario.safetyMs)
  const ttls = Object.fromEntries(keys.map((key) => [key, draws.pick(scenario.ttls)]))
  const tasks = Array.from({ length: scenario.tasks }, (_, i) =>
    drawTask(draws, scenario, `t${i + 1}`, slots.length, keys, ttls, safetyMs),
  )
  const blows = Object.entries(scenario.blows).flatMap(([kind, most]) =>
    Array.from({ length: draws.whole(Math.ceil(most / 2), most) }, (_, i) =>
      drawBlow(
        draws,
        kind as FaultKind,
        `${kind}${i + 1}`,
        slots.length,
        keys,
        ttls,
        kind === 'mute' ? safetyMs + scenario.lateMs : safetyMs,
      ),
    ),
  )
  const lastCallers = Math.ceil(LAST_CALLS / (slots.length * keys.length))
  const parts = [...tasks, ...blows].sort((a, b) => a.atMs - b.atMs)
  return {
    seed,
    scenario: name,
    slots,
    keys,
    weather: scenario.weather,
    safetyMs,
    lateMs: scenario.lateMs,
    lastCallers,
    parts,
  }
}

/** How fast the clocks of a machine run. A holder may be slow by as much as the margin allows, or by more. */
function drawRates(draws: Draws, { drift, wallsDiffer }: Scenario): Rates {
  const mono = 1 + draws.between(-drift, drift)
  const wall = draws.chance(0.7) ? mono : 1 + draws.between(-drift, drift)
  return { mono, wall: wallsDiffer ? wall : 1, wallsDiffer }
}

function drawTask(
  draws: Draws,
  scenario: Scenario,
  name: string,
  slots: number,
  keys: readonly string[],
  ttls: Readonly<Record<string, number>>,
  safetyMs: number,
): Task {
  const key = draws.pick(keys)
  const ttlMs = ttls[key] ?? 1_000
  const program = draws.weighted(scenario.programs)
  const renew = draws.chance(0.75)
  const isLong = draws.chance(scenario.longWork)
  const minHoldMs = draws.chance(0.06) ? draws.between(0.2, 2) * Math.min(ttlMs, 2_000) : 0
  return {
    is: 'task',
    name,
    // Some are left for the healed world.
    atMs: draws.between(0, safetyMs + scenario.lateMs),
    slot: draws.whole(0, slots - 1),
    program,
    key,
    callers: program === 'coalesce' ? draws.whole(1, 4) : draws.chance(scenario.crowds) ? draws.whole(2, 5) : 1,
    ttlMs,
    // What a slow clock may lose in a ttl has to fit into the margin, and a little more.
    marginMs: scenario.drift > 0 || draws.chance(0.5) ? ttlMs / 10 : Math.max(40, ttlMs / 20),
    callTimeoutMs: !renew && draws.chance(scenario.patience) ? draws.between(0.3, 2) * ttlMs : 0,
    waitMs: draws.pick([200, 1_000, 5_000, 20_000]),
    workMs: isLong ? draws.between(0.3, 3) * Math.min(ttlMs, scenario.longMs) : draws.between(0, 120),
    steps: draws.whole(1, 4),
    gapMs: draws.chance(0.5) ? 0 : draws.between(0, 30),
    forgetful: draws.chance(0.25),
    listens: draws.chance(0.8),
    obedient: draws.chance(0.6),
    throws: draws.chance(0.1),
    renew,
    renewsByHand: !renew && draws.chance(0.4),
    minHoldMs,
    maxHoldMs: minHoldMs === 0 && draws.chance(0.08) ? draws.between(0.3, 2) * ttlMs : Number.POSITIVE_INFINITY,
    abortAfterMs: draws.chance(scenario.aborts) ? draws.pick([1, 5, 30, 300, 3_000]) * draws.between(0.5, 1.5) : 0,
  }
}

function drawBlow(
  draws: Draws,
  is: FaultKind,
  name: string,
  slots: number,
  keys: readonly string[],
  ttls: Readonly<Record<string, number>>,
  safetyMs: number,
): Blow {
  const key = draws.pick(keys)
  const ttlMs = ttls[key] ?? 1_000
  const atMoment =
    ['pause', 'crash', 'sleep', 'cut', 'revoke', 'force', 'store-restart'].includes(is) && draws.chance(0.6)
  return {
    is,
    name,
    atMs: draws.between(0, safetyMs),
    after: atMoment
      ? { moment: draws.pick<Moment>(['asked', 'holds', 'looked', 'worked', 'renewed']), nth: draws.whole(1, 25) }
      : undefined,
    slot: draws.whole(0, slots - 1),
    key,
    ms: drawMs(draws, is, ttlMs),
    variant: draws.chance(0.5),
  }
}

function drawMs(draws: Draws, is: FaultKind, ttlMs: number): number {
  const terms = Math.min(ttlMs, 6_000)
  switch (is) {
    case 'step':
      return draws.pick([-3_600_000, -5_000, -terms, terms / 3, 5_000, 3_600_000])
    case 'store-step':
      return draws.pick([-1, 1]) * draws.between(0.2, 3) * terms
    case 'sleep':
      return draws.between(0.3, 6) * terms
    case 'store-restart':
    case 'store-amnesia':
      return draws.between(5, 1.5 * terms)
    case 'mute':
      return draws.between(0.3, 1.2) * ttlMs
    case 'prune':
      return draws.between(0, 5_000)
    case 'crash':
      return draws.between(20, 3_000)
    default:
      return draws.pick([0.1, 0.5, 1.2, 3]) * draws.between(0.7, 1.3) * terms
  }
}
