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
  /** Whether the times of day of processes differ, and run as fast or slow as their clocks. */
  readonly wallsDiffer: boolean
  readonly allows: Allowances
  /** How long a key may be free, in the healed world, while somebody waits for it, in ms. */
  readonly gapMsMax: number
  /** How many independent stores there are: with more than one, each process has a quorum of them. */
  readonly nodes: number
  /** By how much the clocks of the nodes may run fast or slow; they are hours apart. */
  readonly nodeDrift: number
  /** The option of the quorum: a node that may have forgotten something less than this long ago has no vote. */
  readonly waitAfterLossMs: number
  /** The store has versions and no clock: expiry is observed. */
  readonly observed: boolean
  /** It is an API server with Leases, and the store that of Kubernetes, unmodified. */
  readonly kubernetes: boolean
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
  wallsDiffer: true,
  allows: {},
  gapMsMax: 8_000,
  nodes: 1,
  nodeDrift: 0,
  waitAfterLossMs: 0,
  observed: false,
  kubernetes: false,
}

const LOSSY: Weather = { lost: 0.05, replyLost: 0.06, twice: 0.06, late: 0.06, replyLate: 0.06, lateMsMax: 8_000 }

/** Terms so long that a claim which nobody wants is noticed. */
const LONG_TERMS = [15_000, 30_000, 30_000]

/** What the worlds with a quorum have in common. */
const QUORUM: Partial<Scenario> = {
  tasks: 70,
  drift: 0.04,
  nodeDrift: 0.04,
  longWork: 0.3,
  ttls: [2_000, 3_000, 5_000],
  safetyMs: [20_000, 40_000],
  gapMsMax: 60_000,
}

/** What the worlds with a store without a clock have in common. */
const OBSERVED: Partial<Scenario> = {
  tasks: 70,
  drift: 0.04,
  longWork: 0.3,
  ttls: [1_000, 2_000, 4_000],
  safetyMs: [25_000, 50_000],
  observed: true,
  gapMsMax: 60_000,
}

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
    blows: { sleep: 36, step: 30, pause: 20 },
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
  quorum: scenario('five nodes whose clocks are hours apart and drift, each behind a network of its own', {
    ...QUORUM,
    nodes: 5,
    weather: LOSSY,
    blows: { pause: 10, cut: 24, mute: 6, 'store-restart': 12, crash: 4, sleep: 4, step: 4 },
  }),
  'quorum-even': scenario('four nodes, of which two are no majority', {
    ...QUORUM,
    nodes: 4,
    crowds: 0.4,
    weather: LOSSY,
    blows: { pause: 6, cut: 30, 'store-restart': 8, close: 3 },
  }),
  'quorum-loss': scenario('nodes restart without their data, and have no vote for a ttl', {
    ...QUORUM,
    nodes: 3,
    waitAfterLossMs: 6_000,
    wallsDiffer: false, // of nodes that forget one after the other only these make the tokens rise
    blows: { 'store-amnesia': 16, pause: 10, cut: 8 },
    allows: { forgets: true },
  }),
  observed: scenario('a store without a clock: contenders watch for signs of life, each by its own drifting clock', {
    ...OBSERVED,
    weather: { ...LOSSY, late: 0.02, lateMsMax: 3_000 },
    blows: { pause: 24, cut: 12, sleep: 8, step: 8, crash: 3, 'store-restart': 4 },
  }),
  'observed-late': scenario('a store without a clock, whose unanswered writes arrive late by many ttls', {
    ...OBSERVED,
    longWork: 0.5,
    weather: { lost: 0.03, replyLost: 0.15, twice: 0.1, late: 0.2, replyLate: 0.1, lateMsMax: 15_000 },
    blows: { pause: 16, cut: 8, mute: 8 },
  }),
  'quorum-steps': scenario('the clocks of nodes step forward and back: two may believe, the fence holds', {
    ...QUORUM,
    nodes: 3,
    blows: { 'store-step': 20, pause: 16, cut: 8 },
    allows: { twoBelieve: true, ghostsStay: true },
  }),
  kubernetes: scenario('Leases of Kubernetes, whose PUTs time out and are applied all the same, early, late or twice', {
    ...OBSERVED,
    kubernetes: true,
    longWork: 0.4,
    weather: { lost: 0.03, replyLost: 0.12, twice: 0.08, late: 0.12, replyLate: 0.1, lateMsMax: 12_000 },
    blows: { pause: 16, cut: 10, mute: 6, sleep: 6, step: 6, crash: 3, 'store-restart': 4 },
  }),
} as const satisfies Record<string, Scenario>

/** The name of a scenario. */
export type ScenarioName = keyof typeof scenarios

/** All of them. */
export const scenarioNames = Object.keys(scenarios) as readonly ScenarioName[]
