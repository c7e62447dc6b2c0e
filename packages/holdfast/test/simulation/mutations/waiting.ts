// The guards behind G8: waiting, the store's queue and the local one.
import type { Mutation } from '../mutations.js'

const contender = 'lease/waiting.js'
const queue = 'lease/local-queue.js'
const protocol = 'store/protocol.js'

export const waiting: readonly Mutation[] = [
  {
    name: 'queue-not-left',
    guard: 'a claim that is withdrawn leaves the queue',
    file: protocol,
    find: 'const next = leaveQueue(state, claim);',
    replace: 'const next = state;',
    scenario: 'impatient',
    seeds: 40,
    expects: ['G8'],
  },
  {
    name: 'turn-never-passes',
    guard: 'a head of the queue that misses its turn loses its place',
    file: protocol,
    find: 'waiter.freshUntilMs > nowMs && !(missed && place === 0)',
    replace: 'true',
    scenario: 'crashes',
    seeds: 20,
    expects: ['G8'],
  },
  {
    name: 'never-polls',
    guard: 'wake-ups are hints: one who waits asks again in any case',
    file: contender,
    find: 'alarm = alarms.set(timeline.now() + ms, () => this.#wake?.());',
    replace: 'alarm = alarms.set(timeline.now() + 1e9, () => this.#wake?.());',
    scenario: 'lossy',
    seeds: 20,
    expects: ['G8'],
  },
  {
    name: 'nobody-is-woken',
    guard: 'a release wakes the one whose turn it is',
    file: 'stores/memory/store.js',
    find: "if (wake === '' || wake === watcher.claim)",
    replace: 'if (false)',
    scenario: 'impatient',
    seeds: 20,
    expects: ['G8'],
  },
  {
    name: 'next-in-line-forgotten',
    guard: 'after a loss the next in line contends',
    file: queue,
    find: 'this.#owner = undefined;\n        this.#goOn();',
    replace: 'this.#owner = undefined;',
    scenario: 'handover',
    seeds: 40,
    expects: ['G8', 'G12'],
  },
  {
    name: 'last-come-first-served',
    guard: 'callers of one process are served in the order in which they asked',
    file: 'lease/fifo.js',
    find: 'const place = this.#first;',
    replace: 'const place = this.#last;',
    scenario: 'handover',
    seeds: 10,
    expects: ['G8'],
  },
  {
    name: 'two-contenders',
    guard: 'an owner whose lease is over is looked at before its queue is used',
    file: queue,
    find: 'this.#queues.get(key)?.look();',
    replace: '',
    also: {
      file: queue,
      find: 'if (owner !== undefined && owner.endError === undefined)',
      replace: 'if (owner?.held === true)',
    },
    scenario: 'sleep-and-steps',
    seeds: 60,
    expects: ['G8'],
  },
]
