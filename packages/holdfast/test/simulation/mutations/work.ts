// The guards behind G7, G10 and the sharing of results: the fence, and outcomes that reach the caller.
import type { Mutation } from '../mutations.js'

export const work: readonly Mutation[] = [
  {
    name: 'loss-kept-quiet',
    guard: 'a loss that is known by the time of the release rejects',
    file: 'lease/leases.js',
    find: "if (released.is === 'lost') {",
    replace: 'if (false) {',
    scenario: 'pauses',
    seeds: 10,
    expects: ['G10'],
  },
  {
    name: 'outcome-dropped',
    guard: "a LeaseLostError carries the work's outcome",
    file: 'lease/leases.js',
    find: 'lost.outcome = outcome;',
    replace: '',
    scenario: 'pauses',
    seeds: 10,
    expects: ['G10'],
  },
  {
    name: 'late-callers-share-a-begun-run',
    guard: 'who asks after a run has begun gets the next one',
    file: 'lease/leases.js',
    find: 'begin();',
    replace: '',
    scenario: 'calm',
    seeds: 60,
    expects: ['G10'],
  },
  {
    name: 'fence-admits-the-stale',
    guard: 'the fence compares tokens',
    file: 'testing/simulation/server.js',
    find: "const admitted = kind === 'plain' || admits(register, grant);",
    replace: 'const admitted = true;',
    scenario: 'pauses',
    seeds: 10,
    expects: ['G7'],
  },
  {
    name: 'fence-read-compared-then-written',
    guard: 'the fence compares and writes in one step',
    file: 'testing/simulation/server.js',
    find: 'if (admitted)\n            this.#registers[kind].set(key, { token, claim });',
    replace:
      'if (admitted)\n            this.#schedule.after(20, () => this.#registers[kind].set(key, { token, claim }));',
    scenario: 'lossy',
    seeds: 20,
    expects: ['G7'],
  },
]
