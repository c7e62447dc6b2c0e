// The scenarios, as data: what callers do, how bad the network is, which faults strike and how often, and which of the
// assumptions behind the guarantees a scenario breaks on purpose.
import type { Allowances } from './history.js'
import { CALM, type Weather } from './network.js'
import type { FaultKind, Program } from './plan.js'

/** One kind of world. */
export interface Scenario {
  readonly about: string
  readonly tasks: number
  /** How often each program is drawn, relative to the others. */
  readonly programs: Partial<Record<Program, number>>
  /** How likely a task is one of several callers at once, and how likely it is aborted. */
  readonly crowds: number
  readonly aborts: number
  /** How likely the work lasts for terms. */
  readonly longWork: number
  /** A third of how long it lasts at most, or three ttls if that is less. */
  readonly longMs: number
  /** How likely a lease that its caller renews has a time-out near its ttl: then a grant can come after its own deadline. */
  readonly patience: number
  readonly weather: Weather
  /** The network after the faults have stopped: what does not keep requests from arriving may go on. */
  readonly healed: Weather
  readonly ttls: readonly number[]
  /** How long the safety phase lasts, and for how long callers come after it, in ms. */
  readonly safetyMs: readonly [least: number, most: number]
  readonly lateMs: number
  /** At most so many of each fault; at least half as many. */
  readonly blows: Partial<Record<FaultKind, number>>
  /** By how much the clocks of processes may run fast or slow; the margin is a tenth. */
  readonly drift: number
  readonly allows: Allowances
  /** How long a key may be free, in the healed world, while somebody waits for it, in ms. */
  readonly gapMsMax: number
}

const basic: Scenario = {
  about: '',
  tasks: 110,
  programs: { hold: 5, tryHold: 2, acquire: 3, coalesce: 1 },
  crowds: 0.15,
  aborts: 0.08,
  longWork: 0.15,
  longMs: 3_000,
  patience: 0,
  weather: CALM,
  healed: CALM,
  ttls: [600, 1_000, 2_000, 2_000, 5_000, 30_000],
  safetyMs: [25_000, 60_000],
  lateMs: 8_000,
  blows: {},
  drift: 0,
  allows: {},
  gapMsMax: 8_000,
}

const LOSSY: Weather = { lost: 0.05, replyLost: 0.06, twice: 0.06, late: 0.06, replyLate: 0.06, lateMsMax: 8_000 }

/** Terms so long that a claim which nobody wants is noticed. */
const LONG_TERMS = [15_000, 30_000, 30_000]

const scenario = (about: string, over: Partial<Scenario>): Scenario => ({ ...basic, ...over, about })

/** Every scenario by its name. */
export const scenarios = {
  calm: scenario('short pauses and a good network: the rest has to be quick', {
    blows: { pause: 60 },
    gapMsMax: 1_500,
  }),
  lossy: scenario('messages are lost, late and repeated', { weather: LOSSY }),
  'slow-replies': scenario('requests arrive, replies come late by many ttls', {
    weather: { ...CALM, lost: 0.01, replyLost: 0.02, late: 0.05, replyLate: 0.3, lateMsMax: 20_000 },
    healed: { ...CALM, replyLate: 0.2, lateMsMax: 20_000 },
    longWork: 0.3,
    patience: 0.5,
    gapMsMax: 60_000,
  }),
  'one-way': scenario('for a while a process hears nothing, though what it asks for is done', {
    tasks: 160,
    ttls: [5_000, ...LONG_TERMS],
    safetyMs: [20_000, 30_000],
    lateMs: 20_000,
    longWork: 0.2,
    longMs: 20_000,
    patience: 0.8,
    gapMsMax: 120_000,
    blows: { mute: 16, pause: 4 },
    weather: { ...CALM, late: 0.1, replyLate: 0.2, lateMsMax: 10_000 },
    healed: { ...CALM, replyLate: 0.2, lateMsMax: 20_000 },
  }),
  pauses: scenario('processes stop for up to many ttls; their timers fire late in a burst', {
    crowds: 0.3,
    blows: { pause: 40 },
    weather: { ...LOSSY, lost: 0.01, replyLost: 0.02 },
  }),
  crashes: scenario('processes crash and start again', {
    safetyMs: [8_000, 20_000],
    blows: { crash: 16, close: 4, pause: 20 },
  }),
  drift: scenario('clocks of holders run fast and slow within the margin', {
    drift: 0.09,
    longWork: 0.4,
    ttls: [600, 1_000, 2_000, 4_000],
    weather: { ...LOSSY, lost: 0.1, replyLost: 0.1 },
    blows: { pause: 6, cut: 24 },
  }),
  'drift-beyond': scenario('clocks of holders run slow by more than the margin: only the fence holds', {
    drift: 0.5,
    weather: LOSSY,
    blows: { pause: 6, cut: 10 },
    allows: { twoBelieve: true },
  }),
  'sleep-and-steps': scenario('machines sleep, and somebody sets their time of day', {
    longWork: 0.4,
    blows: { sleep: 24, step: 20, pause: 12 },
  }),
  'store-restart': scenario('the store restarts and keeps its data', {
    blows: { 'store-restart': 10, prune: 6, pause: 4 },
    weather: { ...LOSSY, lost: 0.01 },
  }),
  'store-amnesia': scenario('the store restarts and has forgotten everything', {
    blows: { 'store-amnesia': 6, 'store-restart': 4, pause: 6 },
    weather: { ...LOSSY, lost: 0.01 },
    allows: { twoBelieve: true, ghostsStay: true },
  }),
  'store-steps': scenario("the store's clock steps forward and back", {
    blows: { 'store-step': 20, pause: 12 },
    allows: { twoBelieve: true, ghostsStay: true },
  }),
  handover: scenario('many callers of each process wait for the same keys', {
    crowds: 0.7,
    tasks: 60,
    blows: { pause: 8, cut: 4 },
    weather: { ...LOSSY, lost: 0.02, replyLost: 0.04 },
  }),
  aborts: scenario('callers give up at every moment', {
    aborts: 0.5,
    crowds: 0.3,
    ttls: [2_000, ...LONG_TERMS],
    safetyMs: [15_000, 25_000],
    weather: { ...LOSSY, replyLost: 0.15, late: 0.15, replyLate: 0.1 },
  }),
  impatient: scenario('callers give up on a good network: the others are in at once', {
    aborts: 0.6,
    crowds: 0.4,
    tasks: 130,
    safetyMs: [5_000, 10_000],
    lateMs: 30_000,
    blows: { pause: 60, prune: 16 },
    gapMsMax: 600,
  }),
  operator: scenario('an operator revokes leases', {
    longMs: 10_000,
    ttls: [1_000, 2_000, ...LONG_TERMS],
    blows: { revoke: 30, close: 3, pause: 6 },
    weather: { ...LOSSY, replyLost: 0.15 },
  }),
  force: scenario('an operator frees leases by force: only the fence holds', {
    blows: { force: 24, pause: 6 },
    weather: LOSSY,
    allows: { twoBelieve: true },
  }),
  everything: scenario('all of it at once', {
    programs: { hold: 5, tryHold: 2, acquire: 3, coalesce: 1, adopt: 1 },
    crowds: 0.25,
    aborts: 0.2,
    drift: 0.05,
    weather: LOSSY,
    blows: { pause: 10, crash: 5, sleep: 5, step: 5, cut: 5, close: 3, revoke: 5, 'store-restart': 3, prune: 3 },
  }),
} as const satisfies Record<string, Scenario>

/** The name of a scenario. */
export type ScenarioName = keyof typeof scenarios

/** All of them. */
export const scenarioNames = Object.keys(scenarios) as readonly ScenarioName[]
