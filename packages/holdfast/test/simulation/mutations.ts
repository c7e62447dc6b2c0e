// The guards of the core, of the memory store and of the simulation's own fence, each with a patch that takes it away from the
// built code. The simulation has to find every one of them within the stated number of seeds: a checker that lets one pass is
// broken. What the simulation cannot see is listed below, with the test that does.
import type { ScenarioName } from 'holdfast/testing'
import { belief } from './mutations/belief.js'
import { ghosts } from './mutations/ghosts.js'
import { observed } from './mutations/observed.js'
import { quorum } from './mutations/quorum.js'
import { store } from './mutations/store.js'
import { waiting } from './mutations/waiting.js'
import { work } from './mutations/work.js'

export interface Mutation {
  readonly name: string
  /** What the guard is for. */
  readonly guard: string
  /** The built file, below `dist/`. */
  readonly file: string
  /** Occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
  /** A second patch, where two guards stand behind each other. */
  readonly also?: { readonly file: string; readonly find: string; readonly replace: string }
  readonly scenario: ScenarioName
  /** Found within so many seeds. */
  readonly seeds: number
  /** The guarantees whose violation counts as finding it. */
  readonly expects: readonly string[]
}

export const mutations: readonly Mutation[] = [
  ...belief,
  ...ghosts,
  ...observed,
  ...quorum,
  ...store,
  ...waiting,
  ...work,
]

/** A guard that the simulation cannot see. */
export interface Unseen {
  readonly guard: string
  readonly file: string
  readonly why: string
  /** The test that fails without it: its file, and a part of its title. */
  readonly seenBy: { readonly file: string; readonly title: string }
}

export const unseen: readonly Unseen[] = [
  {
    guard: 'a turn that is told counts as a grant only soon after the last question',
    file: 'lease/told-turn.ts',
    why: 'a lease that begins with a shorter term is safe, only easier to lose',
    seenBy: { file: 'lease/told-turn.test.ts', title: 'the last question was some time ago' },
  },
  {
    guard: 'a release by the claim that was told its turn ends it',
    file: 'store/protocol.ts',
    why: 'without it the turn runs out by itself, one poll later at most, as one does whose waiter has died',
    seenBy: { file: 'lease/told-turn.test.ts', title: 'is given back without having been renewed' },
  },
  {
    guard: 'the first renewal of a short term has a time-out that leaves time for others',
    file: 'lease/lease.ts',
    why: 'without it the lease ends at its deadline, which is safe, only sooner',
    seenBy: { file: 'lease/told-turn.test.ts', title: 'outlives the loss of its first renewal' },
  },
  {
    guard: 'a grant that comes after its own deadline is none, and its claim is withdrawn',
    file: 'lease/waiting.ts',
    why: 'the lease made of it would be lost at its first look, and its term is over but for the margin',
    seenBy: { file: 'lease/withdrawal.test.ts', title: 'answered too late to be of use' },
  },
  {
    guard: 'a repeat that certainly did nothing leaves it unknown whether the first was applied',
    file: 'lease/waiting.ts',
    why: 'what an error says of its request changes nothing that the store or the holder does',
    seenBy: { file: 'lease/acquire.test.ts', title: 'no repeat that certainly did nothing makes it certain (G13)' },
  },
  {
    guard: 'a renewal that is confirmed after the loss is withdrawn',
    file: 'lease/lease.ts',
    why: 'at the loss that renewal was unanswered, so the withdrawal was planned already',
    seenBy: { file: 'lease/renewal.test.ts', title: 'a late yes counts from its own send' },
  },
  {
    guard: "the store's word that a claim does not hold ends the lease at once",
    file: 'lease/renewal.ts',
    why: 'without it the lease ends at its deadline, which is safe, only later',
    seenBy: { file: 'lease/renewal.test.ts', title: 'a late no ends the lease' },
  },
  {
    guard: 'where a store does not queue, handovers in a row are capped',
    file: 'lease/local-queue.ts',
    why: 'the memory store queues, so it passes the turn on by itself',
    seenBy: { file: 'lease/local-queue.test.ts', title: 'at most maxHandovers in a row' },
  },
  {
    guard: 'a key that this process holds or wants is not forgotten for the sake of others',
    file: 'lease/local-queue.ts',
    why: 'it uses fewer keys than are remembered without a look',
    seenBy: {
      file: 'lease/local-queue.test.ts',
      title: 'of a key in use is kept, however many others are used meanwhile',
    },
  },
  {
    guard: 'an owner whose deadline is over is looked at before anybody is refused on its account',
    file: 'lease/local-queue.ts',
    why: 'without it one more is told that the key is held, until the alarm of the lease fires',
    seenBy: { file: 'lease/local-queue.test.ts', title: 'is not refused on account of a lease whose deadline is over' },
  },
]
