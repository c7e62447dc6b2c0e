// The guards of the core, of the memory store and of the simulation's own fence, each with a patch that takes it away from the
// built code. The simulation has to find every one of them within the stated number of seeds: a checker that lets one pass is
// broken. What the simulation cannot see is listed below, with the test that does.
import type { ScenarioName } from 'holdfast/testing'
import { belief } from './mutations/belief.js'
import { ghosts } from './mutations/ghosts.js'
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

export const mutations: readonly Mutation[] = [...belief, ...ghosts, ...store, ...waiting, ...work]

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
    guard: 'a grant that comes after its own deadline is none, and its claim is withdrawn',
    file: 'lease/waiting.ts',
    why: 'the lease made of it would be lost at its first look, and its term is over but for the margin',
    seenBy: { file: 'lease/withdrawal.test.ts', title: 'answered too late to be of use' },
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
]
